//! The code stays as small as `docs/contributing.md` says: no part has more lines than its ceiling, and the tables there have
//! the numbers of today. `STATOR_BLESS=1` writes the numbers, and lowers a ceiling that is too high; to raise one, write it
//! into the table by hand, with a row in the table of raised ceilings.
//!
//! - A production line is a line of a `.rs` file that is neither blank nor only a comment, outside of modules that
//!   `#[cfg(test)]` declares, in the file or beside it.
//! - The length of a file counts all its lines. Files of tests have none.
//! - A type is a `struct`, `enum`, `trait` or `union` that is declared on a line of its own, outside of tests. It shares its
//!   name if another one of any crate has the same. It has one word if its name has one capital letter.

use crate::file_circles::{TEST_MODULE, circle_count, source_files};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const PAGE: &str = "docs/contributing.md";
/// The head of the section with the tables, and of the part of it that lists raised ceilings.
const SECTION: &str = "\n## Size and names\n";
const RAISED: &str = "\n### Raised ceilings\n";
/// The part of the program's own crate that has a row of its own.
const CONTROLLER: &str = "src/controller";
/// A file that is shorter is small, and one that is longer than the other is long.
const SMALL_FILE: usize = 60;
const LONG_FILE: usize = 500;

static TYPE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^\s*(?:pub(?:\([^)]*\))?\s+)?(?:unsafe\s+)?(?:struct|enum|trait|union) (\w+)").unwrap()
});

/// A row of the tables, as it is measured now.
#[derive(Debug)]
struct SizeRow {
    part: String,
    number: usize,
    unit: &'static str,
    /// To what a ceiling is rounded up.
    step: usize,
    /// How far a ceiling may be above the number.
    slack: usize,
}

/// A file without its tests.
struct ProductionFile {
    /// From the root of the repository.
    path: PathBuf,
    /// Of the whole file.
    length: usize,
    code: String,
}

impl ProductionFile {
    fn lines(&self) -> usize {
        self.code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
    }
}

/// The files of the folder `root` that are not only for tests. `files` are paths from that folder with their text.
fn production_files(root: &Path, files: Vec<(String, String)>) -> Vec<ProductionFile> {
    let mut of_tests = Vec::new();
    let mut found = Vec::new();
    for (path, text) in files {
        let path = root.join(path);
        let mut module = path.with_extension("");
        if ["mod", "lib", "main"].iter().any(|own| module.ends_with(own)) {
            module.pop();
        }
        let mut code = text.as_str();
        for tests in TEST_MODULE.captures_iter(&text) {
            if &tests[2] == ";" {
                of_tests.push(module.join(&tests[1]));
            } else if let Some((before, _)) = code.split_once(&tests[0]) {
                // A module of tests is the last in its file.
                code = before;
            }
        }
        found.push((module, ProductionFile { path, length: text.lines().count(), code: code.to_owned() }));
    }
    found.retain(|(module, _)| !of_tests.iter().any(|tests| module.starts_with(tests)));
    found.into_iter().map(|(_, file)| file).collect()
}

/// The rows of the table of lines: one for each crate that has code, and one for all.
fn line_rows(crates: &BTreeMap<String, Vec<ProductionFile>>) -> Vec<SizeRow> {
    let lines = |files: &[ProductionFile]| files.iter().map(ProductionFile::lines).sum::<usize>();
    let mut rows: Vec<(String, usize)> = crates
        .iter()
        .map(|(name, files)| (format!("`{name}`"), lines(files)))
        .filter(|(_, number)| *number > 0)
        .collect();
    let all = rows.iter().map(|(_, number)| number).sum();
    let below = crates.values().flatten().filter(|file| file.path.starts_with(CONTROLLER));
    rows.push((format!("of `stator`: `{CONTROLLER}`"), below.map(ProductionFile::lines).sum()));
    rows.push(("all".to_owned(), all));
    let row = |(part, number)| SizeRow { part, number, unit: "", step: 100, slack: 300 };
    rows.into_iter().map(row).collect()
}

/// The rows of the table of files and names.
fn file_rows(files: &[&ProductionFile], circles: usize) -> Vec<SizeRow> {
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files {
        for found in TYPE.captures_iter(&file.code) {
            *types.entry(found.get(1).unwrap().as_str()).or_default() += 1;
        }
    }
    let percent = |is_meant: &dyn Fn(&str, usize) -> bool| {
        let all: usize = types.values().sum();
        let meant: usize =
            types.iter().filter(|(name, number)| is_meant(name, **number)).map(|(_, number)| number).sum();
        (100 * meant + all / 2) / all.max(1)
    };
    let one_word = |name: &str, _| name.matches(char::is_uppercase).count() == 1;
    let count = |is_meant: fn(usize) -> bool| files.iter().filter(|file| is_meant(file.length)).count();
    let row = |part: String, number, unit| SizeRow { part, number, unit, step: 1, slack: 0 };
    vec![
        row(format!("files under {SMALL_FILE} lines"), count(|length| length < SMALL_FILE), ""),
        row(format!("files over {LONG_FILE} lines"), count(|length| length > LONG_FILE), ""),
        row("types that share their name with another type".to_owned(), percent(&|_, number| number > 1), " %"),
        row("types of one word".to_owned(), percent(&one_word), " %"),
        row("circles of files".to_owned(), circles, ""),
    ]
}

fn measure() -> Vec<SizeRow> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut crates = BTreeMap::from([("stator".to_owned(), PathBuf::from("src"))]);
    for entry in fs_err::read_dir(root.join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let folder = Path::new("crates").join(&name).join("src");
        crates.insert(name, folder);
    }
    let read = |(name, folder): (String, PathBuf)| {
        let files = source_files(&root.join(&folder));
        (name, production_files(&folder, files))
    };
    let crates: BTreeMap<String, Vec<ProductionFile>> = crates.into_iter().map(read).collect();
    let mut rows = line_rows(&crates);
    rows.extend(file_rows(&crates.values().flatten().collect::<Vec<_>>(), circle_count()));
    rows
}

/// As the page has a number: `1,234`.
fn shown(number: usize, unit: &str) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap());
    groups.collect::<Vec<_>>().join(",") + unit
}

fn number(cell: &str) -> Option<usize> {
    cell.trim_end_matches(" %").replace(',', "").parse().ok()
}

/// The cells of a line of a table.
fn cells(line: &str) -> Option<Vec<&str>> {
    Some(line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect())
}

/// The page with the numbers of `rows` in its tables, and the ceiling of each row. A ceiling that is too high is lowered.
fn updated(page: &str, rows: &[SizeRow]) -> (String, BTreeMap<String, usize>) {
    let (before, section) = page.split_once(SECTION).expect("the section with the tables");
    let (tables, rest) = section.split_once(RAISED).expect("the table of raised ceilings");
    let mut ceilings = BTreeMap::new();
    let mut lines = Vec::new();
    for line in tables.split('\n') {
        let cells = cells(line).unwrap_or_default();
        let row = rows.iter().find(|row| cells.first() == Some(&row.part.as_str()));
        let (Some(row), [_, _, ceiling]) = (row, &cells[..]) else {
            lines.push(line.to_owned());
            continue;
        };
        let fitting = row.number.next_multiple_of(row.step);
        let ceiling = number(ceiling).filter(|ceiling| *ceiling <= row.number + row.slack).unwrap_or(fitting);
        ceilings.insert(row.part.clone(), ceiling);
        let (number, ceiling) = (shown(row.number, row.unit), shown(ceiling, row.unit));
        lines.push(format!("| {} | {number} | {ceiling} |", row.part));
    }
    (format!("{before}{SECTION}{}{RAISED}{rest}", lines.join("\n")), ceilings)
}

/// What is wrong with the page, or with the code by its ceilings.
fn faults(page: &str, rows: &[SizeRow]) -> Vec<String> {
    let (_, ceilings) = updated(page, rows);
    let mut faults = Vec::new();
    for row in rows {
        let part = &row.part;
        let Some(ceiling) = ceilings.get(part) else {
            faults.push(format!("no row for {part}: add `| {part} | 0 | ? |` to {PAGE}, and run with STATOR_BLESS=1"));
            continue;
        };
        if row.number > *ceiling {
            let (number, ceiling) = (shown(row.number, row.unit), shown(*ceiling, row.unit));
            faults.push(format!(
                "{part}: {number} is over its ceiling of {ceiling}. Make the code smaller, or raise the ceiling in {PAGE} \
                 and add a row with the reason below \"Raised ceilings\""
            ));
        }
    }
    let (tables, _) = page.split_once(SECTION).unwrap().1.split_once(RAISED).unwrap();
    let is_head = |cells: &[&str]| cells.last() == Some(&"Ceiling");
    for cells in tables.lines().filter_map(cells).filter(|cells| !is_head(cells) && !ceilings.contains_key(cells[0])) {
        faults.push(format!("{} is no part any more: delete its row in {PAGE}", cells[0]));
    }
    let raised = page.split_once(RAISED).unwrap().1.split("\n## ").next().unwrap();
    for line in raised.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells = cells(line).unwrap_or_default();
        let is_whole = match cells[..] {
            [part, from, to, why] => match (ceilings.get(part), number(from), number(to)) {
                (Some(_), Some(from), Some(to)) => from < to && !why.trim().is_empty(),
                _ => false,
            },
            _ => false,
        };
        if !is_whole {
            faults
                .push(format!("a raised ceiling has a part of the tables, two numbers and a reason, unlike {line:?}"));
        }
    }
    faults
}

#[test]
fn no_part_of_the_code_is_over_its_ceiling() {
    let rows = measure();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = fs_err::read_to_string(&path).unwrap();
    let (wanted, _) = updated(&page, &rows);
    if std::env::var("STATOR_BLESS").is_ok_and(|value| value == "1") {
        fs_err::write(&path, &wanted).unwrap();
    }
    assert_eq!(faults(&wanted, &rows), Vec::<String>::new());
    let held = fs_err::read_to_string(&path).unwrap();
    let held: BTreeSet<&str> = held.lines().collect();
    let old: Vec<&str> = wanted.lines().filter(|line| !held.contains(line)).collect();
    assert_eq!(
        old,
        Vec::<&str>::new(),
        "{PAGE} lacks these lines: run `STATOR_BLESS=1 cargo test --test integration code_size::`"
    );
}

fn page(ceiling: &str, raised: &str) -> String {
    format!(
        "# A page\n{SECTION}\nText.\n\n| Part | Lines | Ceiling |\n|-|-|-|\n| `a` | 7 | {ceiling} |\n{RAISED}\n\
         | Part | From | To | Why |\n|-|-|-|-|\n{raised}"
    )
}

fn row(number: usize) -> Vec<SizeRow> {
    vec![SizeRow { part: "`a`".to_owned(), number, unit: "", step: 100, slack: 300 }]
}

#[test]
fn a_ceiling_holds_and_follows_the_code_down() {
    let (text, ceilings) = updated(&page("1,300", ""), &row(1_000));
    assert!(text.contains("\n| `a` | 1,000 | 1,300 |\n"), "{text}");
    assert_eq!(ceilings, BTreeMap::from([("`a`".to_owned(), 1_300)]));
    assert_eq!(faults(&page("1,300", ""), &row(1_300)), Vec::<String>::new());
    assert_eq!(updated(&page("1,400", ""), &row(1_001)).0, page("1,100", "").replace("| 7 |", "| 1,001 |"));
    let over = faults(&page("1,000", ""), &row(1_001));
    assert!(over[0].contains("1,001 is over its ceiling of 1,000"), "{over:?}");
    let missing = faults(&page("1,000", "").replace("`a`", "`b`"), &row(1));
    assert!(missing[0].starts_with("no row for `a`"), "{missing:?}");
    assert!(missing[1].starts_with("`b` is no part any more"), "{missing:?}");
}

#[test]
fn a_raised_ceiling_has_a_reason() {
    for (raised, faulty) in [
        ("| `a` | 900 | 1,000 | a new kind of source |\n", false),
        ("| `b` | 900 | 1,000 | a new kind of source |\n", true),
        ("| `a` | 1,000 | 900 | a new kind of source |\n", true),
        ("| `a` | 900 | 1,000 |  |\n", true),
        ("| `a` | 900 | 1,000 |\n", true),
    ] {
        assert_eq!(!faults(&page("1,000", raised), &row(900)).is_empty(), faulty, "{raised}");
    }
}

#[test]
fn only_lines_of_code_outside_of_tests_count() {
    let files = [
        ("lib.rs", "//! A crate.\n\nmod a;\n#[cfg(test)]\nmod samples;\n"),
        ("a/mod.rs", "/// A type.\npub struct Ab; // short\n    // no\n#[cfg(test)]\nmod tests {\n    struct Ab;\n}\n"),
        ("a/b.rs", "pub(crate) enum Ab {}\nstruct Whole;\n#[cfg(test)]\nmod tests;\n"),
        ("a/b/tests.rs", "fn f() {}\n"),
        ("a/b/tests/more.rs", "fn f() {}\n"),
        ("samples.rs", "fn f() {}\n"),
    ];
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let files = production_files(Path::new("src/controller"), files);
    let counted = files.iter().map(|file| format!("{} {}", file.path.display(), file.lines())).collect::<Vec<_>>();
    assert_eq!(counted, ["src/controller/lib.rs 3", "src/controller/a/mod.rs 1", "src/controller/a/b.rs 4"]);
    let rows = file_rows(&files.iter().collect::<Vec<_>>(), 2);
    let numbers: Vec<String> = rows.iter().map(|row| shown(row.number, row.unit)).collect();
    assert_eq!(numbers, ["3", "0", "67 %", "100 %", "2"]);
    let crates = BTreeMap::from([("stator".to_owned(), files), ("stator-empty".to_owned(), Vec::new())]);
    let parts: Vec<(String, usize)> = line_rows(&crates).into_iter().map(|row| (row.part, row.number)).collect();
    let row = |part: &str| (part.to_owned(), 8);
    assert_eq!(parts, [row("`stator`"), row("of `stator`: `src/controller`"), row("all")]);
}

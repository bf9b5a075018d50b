//! The pure rooms stay pure, and each room imports only what `docs/architecture.md` allows.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a scanner for tests: a file that cannot be read is a failed test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What a pure room must not reach for, and why.
const FORBIDDEN: &[(&[&str], &str)] = &[
    (&["tokio"], "no async"),
    (&["kube"], "no cluster"),
    (&["git2"], "no git"),
    (&["fs_err"], "no files"),
    (&["std", "fs"], "no files"),
    (&["std", "net"], "no network"),
    (&["std", "env"], "no environment"),
    (&["std", "process"], "no processes"),
    (&["std", "thread"], "no threads of its own"),
    (&["SystemTime"], "no clock"),
    (&["Instant"], "no clock"),
    (&["Timestamp", "now"], "no clock"),
    (&["Zoned", "now"], "no clock"),
];

/// One room as the table has it.
#[derive(Debug, PartialEq)]
struct Room {
    pure: bool,
    /// None when it may import every room.
    imports: Option<BTreeSet<String>>,
}

fn rooms(table: &str) -> BTreeMap<String, Room> {
    let names = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches('/').to_owned()).collect()
    };
    table
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> =
                line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
            let [name, _, pure, imports] = cells.as_slice() else { return None };
            let name = names(name).into_iter().next()?;
            let imports = (*imports != "all").then(|| names(imports).into_iter().collect());
            Some((name, Room { pure: *pure == "yes", imports }))
        })
        .collect()
}

/// The words of Rust code, comments, texts and tests left out; `:` stands for `::`.
fn words(source: &str) -> Vec<String> {
    without_tests(lex(source))
}

fn lex(source: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_text(rest) {
            length
        } else if c == '"' || rest.starts_with("b\"") {
            text(rest)
        } else if c == '\'' {
            character(rest)
        } else if c.is_alphanumeric() || c == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            words.push(rest[..end].to_owned());
            end
        } else {
            if rest.starts_with("::") {
                words.push(":".to_owned());
                2
            } else {
                if !c.is_whitespace() {
                    words.push(c.to_string());
                }
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    words
}

fn raw_text(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let text = body[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = text.find(&close)?;
    Some(rest.len() - text.len() + end + close.len())
}

fn text(rest: &str) -> usize {
    let start = rest.find('"').unwrap_or(0) + 1;
    let mut escaped = false;
    for (at, c) in rest[start..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return start + at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character such as `'"'`, or the tick of a lifetime.
fn character(rest: &str) -> usize {
    let body = &rest[1..];
    let length = if let Some(escaped) = body.strip_prefix('\\') {
        escaped.find('\'').map(|end| if escaped.starts_with('\'') { 3 } else { end + 2 })
    } else {
        body.chars().next().filter(|c| body[c.len_utf8()..].starts_with('\'')).map(|c| c.len_utf8() + 1)
    };
    1 + length.unwrap_or(0)
}

/// Drops what stands under `#[cfg(test)]`: the item up to its `;` or its closing brace.
fn without_tests(words: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if !words[at..].starts_with(&["#", "[", "cfg", "(", "test", ")", "]"].map(str::to_owned)) {
            kept.push(words[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0_i32;
        at += 7;
        while at < words.len() {
            let word = words[at].as_str();
            depth += i32::from(word == "{") - i32::from(word == "}");
            at += 1;
            if depth == 0 && (word == ";" || word == "}") {
                break;
            }
        }
    }
    kept
}

/// Every path that is named in the code, `use` trees spread out: `std::fs`, `crate::plan::Plan`.
fn paths(words: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let follows = at > 0 && words[at - 1] == ":";
        if !follows && is_name(&words[at]) {
            at = path(words, at, Vec::new(), &mut found);
        } else {
            at += 1;
        }
    }
    found
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn path(words: &[String], mut at: usize, mut prefix: Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    while at < words.len() {
        match words[at].as_str() {
            "{" => {
                at += 1;
                while at < words.len() && words[at] != "}" {
                    at = if is_name(&words[at]) { path(words, at, prefix.clone(), found) } else { at + 1 };
                }
                return at + 1;
            }
            word if is_name(word) => {
                prefix.push(word.to_owned());
                at += 1;
                if words.get(at).map(String::as_str) != Some(":") {
                    found.push(prefix);
                    return at;
                }
                at += 1;
            }
            _ => {
                found.push(prefix);
                return at;
            }
        }
    }
    found.push(prefix);
    at
}

/// What is wrong with one file, given its room and how many modules deep it is.
fn faults(source: &str, room: &str, depth: usize, rooms: &BTreeMap<String, Room>) -> Vec<String> {
    let Some(rules) = rooms.get(room) else { return vec![format!("room `{room}` is not in docs/architecture.md")] };
    let mut faults = BTreeSet::new();
    for path in paths(&words(source)) {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        for (forbidden, why) in FORBIDDEN.iter().filter(|_| rules.pure) {
            if names.windows(forbidden.len()).any(|part| part == *forbidden) {
                faults.insert(format!("{why}: `{}`", names.join("::")));
            }
        }
        let up = names.iter().take_while(|name| **name == "super").count();
        let target = match names.as_slice() {
            ["crate", target, ..] => Some(*target),
            _ if up >= depth && up > 0 => names.get(up).copied(),
            _ => None,
        };
        let allowed = |target: &str| target == room || rules.imports.as_ref().is_none_or(|it| it.contains(target));
        if let Some(target) = target.filter(|target| rooms.contains_key(*target) && !allowed(target)) {
            faults.insert(format!("`{room}` must not import `{target}`: `{}`", names.join("::")));
        }
    }
    faults.into_iter().collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // Tests live in `tests.rs`, `tests_….rs` or a folder `tests`, and may use what they like.
        if name == "tests" || name == "tests.rs" || name.starts_with("tests_") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

fn table() -> BTreeMap<String, Room> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md");
    rooms(&fs::read_to_string(path).unwrap())
}

#[test]
fn rooms_keep_to_the_table_and_pure_rooms_to_themselves() {
    let rooms = table();
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    files.sort();
    let mut faulty = Vec::new();
    for file in &files {
        let relative = file.strip_prefix(&src).unwrap();
        let parts: Vec<String> =
            relative.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        // The two roots only name the rooms.
        if parts == ["lib"] || parts == ["main"] {
            continue;
        }
        let depth = parts.iter().filter(|part| *part != "mod").count();
        for fault in faults(&fs::read_to_string(file).unwrap(), &parts[0], depth, &rooms) {
            faulty.push(format!("src/{}: {fault}", relative.display()));
        }
    }
    assert!(files.len() > 30, "only {} files were looked at", files.len());
    assert!(faulty.is_empty(), "\n{}", faulty.join("\n"));
}

/// Parts of rooms with I/O that have none themselves.
const PURE_PARTS: [&str; 1] = ["controller/verdicts"];

#[test]
fn what_decides_of_statuses_has_no_io() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let pure = BTreeMap::from([("part".to_owned(), Room { pure: true, imports: None })]);
    for part in PURE_PARTS {
        let mut files = Vec::new();
        sources(&src.join(part), &mut files);
        assert!(!files.is_empty(), "{part} is gone");
        for file in files {
            let found = faults(&fs::read_to_string(&file).unwrap(), "part", usize::MAX, &pure);
            assert_eq!(found, Vec::<String>::new(), "{}", file.display());
        }
    }
}

#[test]
fn every_pure_room_of_the_design_is_pure_in_the_table() {
    let rooms = table();
    for name in ["intent", "dynamo", "render", "fields", "plan", "present", "import", "object", "finding", "mask"] {
        assert!(rooms.get(name).is_some_and(|room| room.pure), "{name}");
    }
    for (name, room) in &rooms {
        for import in room.imports.iter().flatten() {
            assert!(rooms.contains_key(import), "{name} imports {import}, which is no room");
            assert!(!room.pure || rooms[import].pure, "{name} is pure and imports {import}, which is not");
        }
    }
}

#[test]
fn a_planted_violation_is_found() {
    let rooms = table();
    let found = |source: &str| faults(source, "plan", 1, &rooms);
    assert_eq!(found("use std::fs;"), ["no files: `std::fs`"]);
    assert_eq!(found("use std::{fmt, fs::File};"), ["no files: `std::fs::File`"]);
    assert_eq!(found("fn f() { let t = std::time::Instant::now(); }"), ["no clock: `std::time::Instant::now`"]);
    assert_eq!(found("fn f() { jiff::Timestamp::now(); }"), ["no clock: `jiff::Timestamp::now`"]);
    assert_eq!(found("async fn f() { tokio::spawn(x) }"), ["no async: `tokio::spawn`"]);
    assert_eq!(found("use crate::cluster::Cluster;"), ["`plan` must not import `cluster`: `crate::cluster::Cluster`"]);
    assert_eq!(found("use crate::{object::Key, cli::{a, b}};").len(), 2);
    assert_eq!(found("use super::cluster::Cluster;"), ["`plan` must not import `cluster`: `super::cluster::Cluster`"]);
    assert_eq!(found("let c = '\"'; use std::fs; let d = '\"';"), ["no files: `std::fs`"]);
    assert_eq!(found("fn f<'a>(x: &'a str) { std::env::var(x) }"), ["no environment: `std::env::var`"]);
    assert_eq!(faults("", "attic", 1, &rooms).len(), 1);
}

#[test]
fn comments_texts_and_tests_are_not_violations() {
    let rooms = table();
    for source in [
        "// std::fs\n/* tokio::spawn */ fn f() {}",
        "/// Like `std::fs::read`.\nfn f() {}",
        "const A: &str = \"std::fs \\\" tokio::spawn\";",
        "const A: &str = r#\"std::fs \" tokio::spawn\"#;",
        "#[cfg(test)]\nmod tests { use std::fs; fn f() { { } } }",
        "#[cfg(test)]\nuse std::fs;\nfn f() {}",
        "use crate::object::Object; use super::record::Record;",
        "let instant = 1; let kubernetes = kube_like;",
    ] {
        assert_eq!(faults(source, "plan", 1, &rooms), Vec::<String>::new(), "{source}");
    }
    // What follows a test is looked at again.
    let source = "#[cfg(test)]\nmod tests { fn f() {} }\nuse std::fs;";
    assert_eq!(faults(source, "plan", 1, &rooms), ["no files: `std::fs`"]);
}

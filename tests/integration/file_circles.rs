//! No files of one folder use each other in a circle, so that each can be read with those that it uses alone. A folder
//! counts as one file of the folder that it is in.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

/// Each crate with its folder, and whether a folder's own file (`mod.rs`) counts as one of its files. Where it does not yet,
/// it may hold types that the files below it use.
const CRATES: [(&str, bool); 6] = [
    ("src", false),
    ("crates/stator-core/src", false),
    ("crates/stator-model/src", false),
    ("crates/stator-view/src", true),
    ("crates/stator-git/src", true),
    ("crates/stator-cluster/src", true),
];

/// The path of a module, or of an item in one.
type Segments = Vec<String>;

/// The folder's own file among its files.
const OWN_FILE: &str = "mod";

/// The modules of a crate, each a file, without those of its tests.
#[derive(Default)]
struct CrateModules {
    modules: BTreeMap<Segments, ModuleNames>,
}

/// What a module names.
#[derive(Default)]
struct ModuleNames {
    /// What it defines itself.
    defined: BTreeSet<String>,
    /// What its `use` declarations name, by the name that it has here.
    imported: BTreeMap<String, Segments>,
    /// The modules of which it imports everything.
    globs: Vec<Segments>,
    /// All paths in its code. What it only hands on (`pub use`) is none: who uses it uses the file behind it.
    used: BTreeSet<Segments>,
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

static USE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(pub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);"));
/// The head of a module of tests, with its name and how it goes on: `;` or `{`.
pub static TEST_MODULE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*([;{])"));
static TEXT_OR_COMMENT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r###"(?s:r##?".*?"##?)|"(?s:\\.|[^"\\])*"|'(?:\\[^']+|[^\\'])'|//[^\n]*"###));
/// Says who may use something, and uses nothing itself.
static VISIBILITY: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bpub\(in [^)]*\)"));
static DEFINITION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:\b(?:struct|enum|fn|trait|type|const|static|union)\s+|macro_rules!\s+)(\w+)"));
static INLINE_PATH: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:\b[a-z_]\w*)(?:::\w+)+"));

fn segments(path: &str) -> Segments {
    path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The paths of a `use` declaration, `{…}` resolved, each with the name that it gets.
fn imports(tree: &str) -> Vec<(Segments, String)> {
    let Some((head, rest)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias.trim())));
        let mut path = segments(path);
        path.pop_if(|last| last.as_str() == "self");
        let name = alias.map(str::to_owned).or_else(|| path.last().cloned());
        return name.map(|name| (path, name)).into_iter().collect();
    };
    let inside = rest.rsplit_once('}').unwrap().0;
    let mut depth = 0;
    let parts = inside.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let whole = |part: &str| imports(&format!("{head}{}", part.trim()));
    parts.filter(|part| !part.trim().is_empty()).flat_map(whole).collect()
}

impl ModuleNames {
    fn read(code: &str) -> Self {
        let mut names = Self::default();
        for found in USE.captures_iter(code) {
            for (path, name) in imports(&found[2]) {
                if found.get(1).is_none() {
                    names.used.insert(path.clone());
                }
                if name == "*" {
                    names.globs.push(path[..path.len() - 1].to_vec());
                } else {
                    names.imported.insert(name, path);
                }
            }
        }
        let code = USE.replace_all(code, "");
        let code = VISIBILITY.replace_all(&code, "pub");
        names.used.extend(INLINE_PATH.find_iter(&code).map(|found| segments(found.as_str())));
        names.defined.extend(DEFINITION.captures_iter(&code).map(|found| found[1].to_owned()));
        names
    }
}

impl CrateModules {
    /// `files` are paths from the crate's folder with their text.
    fn read(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut all = Self::default();
        let mut of_tests = Vec::new();
        for (path, text) in files {
            let path = path.strip_suffix(".rs").unwrap();
            let mut module: Segments = path.split('/').map(str::to_owned).collect();
            module.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
            let mut code = TEXT_OR_COMMENT.replace_all(&text, "\"\"").into_owned();
            let tests: Vec<_> =
                TEST_MODULE.captures_iter(&code).map(|found| (found[1].to_owned(), found.get(2).unwrap())).collect();
            of_tests.extend(tests.iter().map(|(name, _)| [module.clone(), vec![name.clone()]].concat()));
            // A module of tests is the last in its file.
            if let Some(start) = tests.iter().find(|(_, opens)| opens.as_str() == "{").map(|(_, opens)| opens.start()) {
                code.truncate(start);
            }
            all.modules.insert(module, ModuleNames::read(&code));
        }
        all.modules.retain(|module, _| !of_tests.iter().any(|tests| module.starts_with(tests)));
        all
    }

    /// The module of this crate that a path leads to the code of, through whatever hands it on.
    fn resolve(&self, from: &Segments, path: &[String], depth: usize) -> Option<Segments> {
        let first = path.first()?;
        let (mut at, mut rest) = match first.as_str() {
            "crate" => (Segments::new(), &path[1..]),
            "self" => (from.clone(), &path[1..]),
            "super" => {
                let up = path.iter().take_while(|part| *part == "super").count();
                (from[..from.len().checked_sub(up)?].to_vec(), &path[up..])
            }
            _ if self.modules.contains_key(&[from.clone(), vec![first.clone()]].concat()) => (from.clone(), path),
            name => {
                let import = self.modules.get(from)?.imported.get(name).filter(|import| import[0] != name)?;
                return self.resolve(from, &[import.clone(), path[1..].to_vec()].concat(), depth.checked_sub(1)?);
            }
        };
        while let Some((name, further)) = rest.split_first() {
            let below = [at.clone(), vec![name.clone()]].concat();
            if self.modules.contains_key(&below) {
                (at, rest) = (below, further);
                continue;
            }
            let names = self.modules.get(&at)?;
            if name == "*" || names.defined.contains(name) {
                break;
            }
            if let Some(import) = names.imported.get(name) {
                return self.resolve(&at, &[import.clone(), further.to_vec()].concat(), depth.checked_sub(1)?);
            }
            let depth = depth.checked_sub(1)?;
            let behind = |glob: &Segments| {
                let found = self.resolve(&at, &[glob.clone(), vec![name.clone()]].concat(), depth)?;
                self.modules[&found].defined.contains(name).then_some(found)
            };
            return names.globs.iter().find_map(behind).or(Some(at));
        }
        self.modules.contains_key(&at).then_some(at)
    }

    /// Each pair of modules of which the first uses the second.
    fn uses(&self) -> BTreeSet<(&Segments, Segments)> {
        let all = self.modules.iter().flat_map(|(from, names)| names.used.iter().map(move |path| (from, path)));
        let resolved = all.filter_map(|(from, path)| Some((from, self.resolve(from, path, 20)?)));
        resolved.filter(|(from, to)| *from != to).collect()
    }

    /// The circles, by the folder that they are in.
    fn circles(&self, with_own_file: bool) -> BTreeMap<Segments, BTreeSet<String>> {
        let uses = self.uses();
        let folders: BTreeSet<Segments> = self
            .modules
            .keys()
            .filter(|module| !module.is_empty())
            .map(|module| module[..module.len() - 1].to_vec())
            .collect();
        let mut circles = BTreeMap::new();
        for folder in folders {
            let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for (from, to) in uses.iter().filter(|(from, to)| from.starts_with(&folder) && to.starts_with(&folder)) {
                let from = from.get(folder.len()).map_or(OWN_FILE, String::as_str);
                let to = to.get(folder.len()).map_or(OWN_FILE, String::as_str);
                if from != to && (with_own_file || ![from, to].contains(&OWN_FILE)) {
                    edges.entry(from).or_default().insert(to);
                }
            }
            let reached = |start: &str| {
                let mut found = BTreeSet::new();
                let mut open = vec![start];
                while let Some(part) = open.pop() {
                    open.extend(edges.get(part).into_iter().flatten().filter(|next| found.insert(**next)));
                }
                found.contains(start)
            };
            let parts: BTreeSet<String> =
                edges.keys().filter(|part| reached(part)).map(|part| (*part).to_owned()).collect();
            if !parts.is_empty() {
                circles.insert(folder, parts);
            }
        }
        circles
    }
}

/// The files of a folder and those below it, by their paths from it, with their text.
pub fn source_files(root: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.push((inside, fs_err::read_to_string(&path).unwrap()));
            }
        }
    }
    files
}

/// How many folders have a circle.
pub fn circle_count() -> usize {
    let of_crate = |(root, with_own_file): &(&str, bool)| {
        let files = source_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(root));
        CrateModules::read(files).circles(*with_own_file).len()
    };
    CRATES.iter().map(of_crate).sum()
}

#[test]
fn files_of_a_folder_use_each_other_in_no_circle() {
    let mut found = Vec::new();
    for (root, with_own_file) in CRATES {
        let files = source_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(root));
        for (folder, parts) in CrateModules::read(files).circles(with_own_file) {
            let folder = [vec![root.to_owned()], folder].concat().join("/");
            found.push(format!("{folder}: {}", parts.into_iter().collect::<Vec<_>>().join(", ")));
        }
    }
    assert_eq!(found, Vec::<String>::new(), "move what two of them need to a file of its own");
}

fn circles_of(files: &[(&str, &str)], with_own_file: bool) -> String {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    let circles = CrateModules::read(files).circles(with_own_file).into_iter();
    let shown = circles.map(|(folder, parts)| format!("{}: {parts:?}", folder.join("/")));
    shown.collect::<Vec<_>>().join("; ")
}

#[test]
fn a_circle_is_found_whatever_hides_it() {
    let circle = r#": {"a", "b"}"#;
    let root = ("lib.rs", "mod a; mod b; pub use a::A; pub use b::*;");
    let a = ("a.rs", "use super::b; pub struct A; fn f() { b::g() }");
    for b in [
        "use crate::a::A; pub fn g() {}",
        "use crate::{a::{self as other}}; pub fn g() { other::f() }",
        // Handed on by the folder's own file.
        "use super::A; pub fn g() {}",
        "pub fn g() -> super::A {}",
    ] {
        assert_eq!(circles_of(&[root, a, ("b.rs", b)], false), circle, "{b}");
    }
    let by_glob = ("a.rs", "use super::g; pub struct A;");
    assert_eq!(circles_of(&[root, by_glob, ("b.rs", "use super::a; pub fn g() {}")], false), circle);
    let folder = [root, a, ("b/mod.rs", "mod c; pub use c::g;"), ("b/c.rs", "use crate::a::A; pub fn g() {}")];
    assert_eq!(circles_of(&folder, false), circle);
    let none = [root, a, ("b/mod.rs", "mod c; pub use c::g;"), ("b/c.rs", "pub fn g() {}")];
    assert_eq!(circles_of(&none, false), "");
}

#[test]
fn a_folders_own_file_counts_where_it_is_asked_for() {
    let files = [("lib.rs", "mod a; pub struct Here; fn f() { a::g() }"), ("a.rs", "pub fn g(_: super::Here) {}")];
    assert_eq!(circles_of(&files, true), r#": {"a", "mod"}"#);
    assert_eq!(circles_of(&files, false), "");
}

#[test]
fn tests_texts_comments_and_visibilities_use_nothing() {
    let root = ("lib.rs", "mod a; mod b;");
    let a = ("a.rs", "use crate::b::g; pub fn f() {}");
    for b in [
        "pub fn g() {}\n// use crate::a::f;",
        "pub fn g() -> &'static str { \"crate::a::f\" }",
        "pub fn g() -> char { '\"' }\n#[cfg(test)]\nmod tests {\n    use crate::a::f;\n}",
    ] {
        assert_eq!(circles_of(&[root, a, ("b.rs", b)], true), "", "{b}");
    }
    let visible =
        [("lib.rs", "mod b;"), ("b/mod.rs", "mod c; fn f() { c::g() }"), ("b/c.rs", "pub(in crate::b) fn g() {}")];
    assert_eq!(circles_of(&visible, true), "");
    let tests = [root, a, ("b/mod.rs", "#[cfg(test)]\nmod tests;\npub fn g() {}"), ("b/tests.rs", "use crate::a::f;")];
    assert_eq!(circles_of(&tests, true), "");
}

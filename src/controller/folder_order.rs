//! Which folder of the controller may use which: without circles, so that each can be read with those below it alone.

use regex::Regex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each folder or file of the controller, after all that it may use.
const MAY_USE: [(&str, &[&str]); 8] = [
    ("sources", &[]),
    ("cache", &[]),
    ("metrics", &["sources"]),
    ("replicas", &["sources"]),
    ("report", &["metrics", "sources"]),
    ("mirror_handle", &["metrics", "report", "sources"]),
    ("reconcile", &["cache", "metrics", "mirror_handle", "report", "sources"]),
    ("supervisor", &["cache", "metrics", "mirror_handle", "report", "sources", "reconcile"]),
];
/// Used by all, and uses none.
const SHARED: [&str; 2] = ["lease_watch", "waiting"];

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => rust_files(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// What a file of `part` uses of the other parts. One `use` line names one part.
fn used_parts(part: &str, root: &Path, file: &Path) -> BTreeSet<String> {
    // Only from a file right below the controller's module does `super` lead to other parts.
    let is_top = file.parent() == Some(root) || file.ends_with(format!("{part}/mod.rs"));
    let pattern = if is_top { r"(?:crate::controller|\buse super)::(\w+)" } else { r"crate::controller::(\w+)" };
    let uses = Regex::new(pattern).unwrap();
    let text = fs_err::read_to_string(file).unwrap();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| uses.captures_iter(line).map(|found| found[1].to_owned()).collect::<Vec<_>>()).collect()
}

#[test]
fn folders_use_those_below_them_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/controller");
    let mut wrong = Vec::new();
    for file in rust_files(&root) {
        let inside = file.strip_prefix(&root).unwrap();
        let first = inside.iter().next().unwrap().to_str().unwrap();
        let part = first.strip_suffix(".rs").unwrap_or(first);
        if SHARED.contains(&part) || ["mod", "folder_order"].contains(&part) {
            continue;
        }
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == part) else {
            wrong.push(format!("{part} has no place in the order"));
            continue;
        };
        let parts = MAY_USE.iter().map(|(name, _)| *name).filter(|name| *name != part && !allowed.contains(name));
        let used = used_parts(part, &root, &file);
        wrong.extend(parts.filter(|name| used.contains(*name)).map(|name| format!("{} uses {name}", inside.display())));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

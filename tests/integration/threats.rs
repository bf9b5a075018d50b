//! Every line of the threat table in `docs/security-model.md` names the tests that hold it, and there are such tests.

use std::path::{Path, PathBuf};

/// The text of every file of Rust below a folder.
fn sources(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(fs_err::read_to_string(&path).unwrap());
        }
    }
}

/// Whether a text has a test of that name.
fn has_test(text: &str, name: &str) -> bool {
    let Some(at) = text.find(&format!("fn {name}(")) else { return false };
    let before: Vec<&str> = text[..at].lines().rev().take(12).collect();
    let own: Vec<&str> = before.into_iter().take_while(|line| !line.starts_with('}') && !line.is_empty()).collect();
    own.iter().any(|line| line.contains("#[test]") || line.contains("#[tokio::test"))
}

#[test]
fn every_threat_has_the_tests_that_hold_it() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    for folder in ["src", "crates", "tests"] {
        sources(&root.join(folder), &mut texts);
    }
    let page = fs_err::read_to_string(root.join("docs/security-model.md")).unwrap();
    let table = page.split("| Threat |").nth(1).unwrap();
    let lines: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(lines.len() > 10, "{lines:?}");
    for line in lines {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [threat, held_by, tests] = cells.as_slice() else { panic!("{line}") };
        let names: Vec<&str> = tests.split(',').map(|name| name.trim().trim_matches('`')).collect();
        assert!(!held_by.is_empty() && !names.is_empty(), "{threat} is held off by nothing");
        for name in names {
            assert!(texts.iter().any(|text| has_test(text, name)), "{threat}: there is no test `{name}`");
        }
    }
}

//! The English of pages, help and messages: the words of Kubernetes, active and without riddles.
//!
//! A list of wordings that readers stumbled over, each with a better one. It is short on purpose: what is in it is wrong
//! everywhere, so that nobody has to argue with it.

use fs_err as fs;
use regex::Regex;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A wording, and what says the same.
const WORDINGS: &[(&str, &str)] = &[
    (r"\bis no (success|failure|error|drift|removal)\b", "is not a …"),
    (r"\bas git (says|said|wants)\b", "matches git"),
    (r"\bwhoever\b", "the user who, everyone who"),
    (r"\bwhatever\b", "regardless of, any"),
    (r"\b(nothing|none|anything) of it\b", "name the noun"),
    (r"\bwhat (is|was) (there|left|shown|said|used|lacking|held|applied)\b", "the held changes, the applied objects"),
    (r"\bwhat looks like\b", "values that look like"),
    (r"\bwhat (stator|it) (made|makes|applied|created)\b", "the objects that stator created"),
    (
        r"\bwhat (git|the intent) (no longer )?(has|names|wants|says)\b",
        "the models that git no longer has, the desired state",
    ),
    (r"\bwhat (nothing|nobody|no one)\b", "say what it is: left behind, unused"),
    (r"\bthat which\b", "the … that"),
    (r"\bso many\b", "name the number"),
    (r"\banew\b", "again"),
    (r"\blets? go of\b", "release"),
    (r"\bputs? (it|them|its) back\b", "heals, reverts"),
    (r"\btold apart\b", "distinguishes"),
    (r"\bsomebody else\b", "another user, another client"),
    (r"\bcounts for nothing\b", "does not count"),
    (r"\bfor want of\b", "because … is missing"),
    (r"\bhave to be for\b", "accepted"),
    (r"\bin place of\b", "instead of"),
    (r"\bwhere it stands\b", "in place"),
    (r"\bhow (it|one model|its models) stands?\b", "the status of"),
];

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            files(&entry, extension, found);
        } else if entry.extension().is_some_and(|it| it == extension) {
            found.push(entry);
        }
    }
}

/// The prose of a page: without code, which has its own words.
fn prose(page: &str) -> String {
    let code = Regex::new("`[^`\n]*`").unwrap();
    let mut in_block = false;
    let kept = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    });
    code.replace_all(&kept.collect::<Vec<_>>().join("\n"), "").into_owned()
}

/// The texts of a source that people may read: its string literals of several words, tests left out.
fn literals(source: &str) -> String {
    let literal = Regex::new(r#""((?:[^"\\]|\\.|\\\n)*)""#).unwrap();
    let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let texts: Vec<&str> = literal.captures_iter(code).map(|found| found.get(1).unwrap().as_str()).collect();
    texts.into_iter().filter(|text| text.contains(' ')).collect::<Vec<_>>().join("\n")
}

#[test]
fn pages_help_and_messages_are_plain() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut pages, mut sources) = (vec![root.join("README.md"), root.join("CHANGELOG.md")], Vec::new());
    files(&root.join("docs"), "md", &mut pages);
    files(&root.join("src"), "rs", &mut sources);
    files(&root.join("crates"), "rs", &mut sources);
    files(&root.join("crates"), "html", &mut pages);
    let is_test =
        |path: &PathBuf| path.iter().any(|part| part == "tests" || part == "tests.rs" || part == "samples.rs");
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let texts = pages.iter().map(|path| (path, prose(&read(path))));
    let texts = texts.chain(sources.iter().filter(|path| !is_test(path)).map(|path| (path, literals(&read(path)))));
    let wordings: Vec<(Regex, &str)> = WORDINGS
        .iter()
        .map(|(pattern, better)| {
            (Regex::new(&format!("(?i){}", pattern.replace(' ', r"\s+(?:\\\s+)?"))).unwrap(), *better)
        })
        .collect();
    let mut found = String::new();
    for (path, text) in texts {
        for (pattern, better) in &wordings {
            for hit in pattern.find_iter(&text) {
                let place = path.strip_prefix(root).unwrap().display();
                writeln!(found, "{place}: \"{}\"; better: {better}", hit.as_str().replace('\n', " ")).unwrap();
            }
        }
    }
    assert!(found.is_empty(), "{found}");
}

#[test]
fn the_texts_of_a_source_are_found() {
    let source =
        "fn a() { say(\"nothing of it\") }\n// \"not this\"\n#[cfg(test)]\nmod tests { const A: &str = \"nor this\"; }";
    assert_eq!(literals(source), "nothing of it");
    assert_eq!(prose("one `two` three\n```sh\nfour\n```\nfive"), "one  three\nfive");
}

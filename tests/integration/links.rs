//! Every link of a page leads to a file that is there, and to a heading or an anchor in it.

use fs_err as fs;
use regex::Regex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The lines of a page that are no code.
fn prose(page: &str) -> Vec<&str> {
    let mut is_code = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    page.lines().filter(is_prose).collect()
}

/// What a link may name in a page: its headings, as git hosts name them, and its own anchors.
fn anchors(page: &str) -> BTreeSet<String> {
    let own = Regex::new("<a id=\"([^\"]+)\"").unwrap();
    let (link, dropped) = (Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap(), Regex::new(r"[^\w\- ]").unwrap());
    let mut found: BTreeSet<String> = own.captures_iter(page).map(|one| one[1].to_owned()).collect();
    for heading in prose(page).into_iter().filter(|line| line.starts_with('#')) {
        let text = link.replace_all(heading.trim_start_matches('#').trim(), "$1").to_lowercase();
        let name = dropped.replace_all(&text, "").replace(' ', "-");
        let again = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(again).find(|one| !found.contains(one));
        found.extend(free);
    }
    found
}

/// The links of a page that lead nowhere; `page` is where it is.
fn dead_links(path: &Path, page: &str) -> Vec<String> {
    let (link, code) = (Regex::new(r"\]\(([^)\s]+)\)").unwrap(), Regex::new("`[^`\n]*`").unwrap());
    let text = prose(page).join("\n");
    let text = code.replace_all(&text, "");
    let is_dead = |target: &&str| {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() { path.to_owned() } else { path.parent().unwrap().join(file) };
        let has_anchor = || anchors(&fs::read_to_string(&file).unwrap()).contains(anchor);
        !target.contains("://") && !(file.exists() && (anchor.is_empty() || has_anchor()))
    };
    let targets = link.captures_iter(&text).map(|one| one.get(1).unwrap().as_str());
    targets.filter(is_dead).map(|target| format!("{}: {target}", path.display())).collect()
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = vec![root.join("README.md"), root.join("CHANGELOG.md")];
    pages(&root.join("docs"), &mut found);
    pages(&root.join("examples"), &mut found);
    let dead: Vec<String> =
        found.iter().flat_map(|path| dead_links(path, &fs::read_to_string(path).unwrap())).collect();
    assert!(found.len() > 50 && dead.is_empty(), "these links lead nowhere:\n{}", dead.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/README.md");
    let text = "# One `word` [two](concepts.md)\n## Twice\n## Twice\n```\n[code](gone.md)\n```\n`[code](gone.md)` [out](https://a.b/c#d)\n\
                [a](#one-word-two) [b](#twice-1) [c](#twice-2) [d](concepts.md) [e](gone.md) [f](concepts.md#gone)\n";
    let dead = dead_links(&page, text);
    let dead: Vec<&str> = dead.iter().map(|one| one.rsplit(' ').next().unwrap()).collect();
    assert_eq!(
        dead,
        ["#one-word-two", "#twice-1", "#twice-2", "gone.md", "concepts.md#gone"],
        "this text is not on that page"
    );
    let own = anchors(text);
    assert!(own.contains("one-word-two") && own.contains("twice-1") && !own.contains("twice-2"), "{own:?}");
}

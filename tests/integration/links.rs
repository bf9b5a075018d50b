//! The pages as a whole: every link leads to a file that is there and to a heading or an anchor in it, they stay short, five tasks
//! are done by them, and they are a site.

use crate::testbed::skipped;
use crate::workbench::program;
use fs_err as fs;
use regex::Regex;
use stator::controller::sources::registry::ProblemReason;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// What is written by hand: pages without the generated ones, and without the generated parts of the others.
fn written_by_hand() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let held = Regex::new(r#"hold\("([^"]+\.md)""#).unwrap();
    let generated: BTreeSet<&str> =
        held.captures_iter(include_str!("reference.rs")).map(|one| one.get(1).unwrap().as_str()).collect();
    let mut found = vec![root.join("README.md")];
    pages(&root.join("docs"), &mut found);
    let part = Regex::new(r"(?s)<!-- [^/].*?-->\n.*?<!-- (end|/\w+) -->").unwrap();
    let texts = found.into_iter().filter_map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap();
        // A page with generated parts has others, too.
        if generated.contains(name) && !part.is_match(&text) {
            return None;
        }
        Some((path, part.replace_all(&text, "").into_owned()))
    });
    texts.collect()
}

/// Ten minutes of reading, and not ten hours. A page that grows takes its words from another.
#[test]
fn the_pages_stay_short() {
    let pages = written_by_hand();
    let words: usize = pages.iter().map(|(_, text)| text.split_whitespace().count()).sum();
    let left_out: usize = pages.iter().map(|(_, text)| text.lines().filter(|line| *line == "...").count()).sum();
    assert!(words <= 45_000, "{words} words are written by hand");
    assert!(left_out <= 15, "{left_out} outputs leave something out");
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let read_on = readme.split("## Read on\n").nth(1).unwrap().lines().filter(|line| line.starts_with("- ["));
    assert!(readme.lines().count() <= 70 && read_on.count() == 6, "the README fits two screens");
}

/// Five tasks of a platform team, as somebody does them with a fresh clone.
#[test]
fn each_of_five_tasks_takes_three_commands_and_a_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(root.join("docs/five-tasks")).arg(program()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.lines().count(), 5, "{said}");
}

/// Where a page of conditions or events leads for its reason.
#[test]
fn every_reason_has_an_anchor() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/how-to/run-the-controller.md");
    let known = anchors(&fs::read_to_string(page).unwrap());
    let missing: Vec<&str> =
        ProblemReason::ALL.iter().map(|reason| reason.as_str()).filter(|reason| !known.contains(*reason)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The site has all pages, each link of them leads somewhere, and its search knows every rule.
#[test]
fn the_site_is_built_with_its_links_and_its_search() {
    let Some(mdbook) = std::env::var_os("MDBOOK").or_else(|| on_path("mdbook")) else {
        skipped("there is no mdBook: set MDBOOK to its program; `.ci/run` builds it");
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let site = tempfile::tempdir().unwrap();
    let built = Command::new(root.join("docs/build-site")).arg(site.path()).env("MDBOOK", mdbook).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let (mut found, mut dead) = (Vec::new(), Vec::new());
    pages(&root.join("docs"), &mut found);
    let html = |page: &Path| site.path().join(page.strip_prefix(root).unwrap()).with_extension("html");
    for page in &found {
        let path = html(page);
        let Ok(text) = fs::read_to_string(&path) else {
            dead.push(format!("{} is not in docs/README.md", page.display()));
            continue;
        };
        dead.extend(dead_links_of_site(&path, &text));
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
    let mut files = fs::read_dir(site.path()).unwrap().map(|entry| entry.unwrap().path());
    let index = files.find(|path| path.file_name().unwrap().to_string_lossy().starts_with("searchindex")).unwrap();
    let index = fs::read_to_string(index).unwrap();
    let rules = stator::cli::RULE_GROUPS.iter().flat_map(|(_, rules)| rules.iter());
    let unknown: Vec<&str> = rules.map(|rule| rule.id).filter(|id| !index.contains(id)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

fn dead_links_of_site(path: &Path, text: &str) -> Vec<String> {
    let (link, own) = (Regex::new(r#"(?:href|src)="([^"]+)""#).unwrap(), Regex::new(r#" id="([^"]+)""#).unwrap());
    let body = text.split("<main>").nth(1).unwrap().split("</main>").next().unwrap();
    let body = Regex::new("(?s)<code.*?</code>").unwrap().replace_all(body, "");
    let is_dead = |target: &&str| {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() { path.to_owned() } else { path.parent().unwrap().join(file) };
        let has_anchor = || own.captures_iter(&fs::read_to_string(&file).unwrap()).any(|one| &one[1] == anchor);
        !target.contains("://") && !(file.exists() && (anchor.is_empty() || has_anchor()))
    };
    let targets = link.captures_iter(&body).map(|one| one.get(1).unwrap().as_str());
    targets.filter(is_dead).map(|target| format!("{}: {target}", path.display())).collect()
}

fn on_path(name: &str) -> Option<OsString> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file()).map(OsString::from)
}

//! The tables of `docs/performance.md` are those that benches wrote: each follows a marker that names its file below
//! `benches/results`, which `cargo bench --bench NAME -- --json FILE` writes.
//!
//! `STATOR_BLESS=1 cargo test --test integration performance::` writes them into the page.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

const PAGE: &str = "docs/performance.md";
const RESULTS: &str = "benches/results";
const FROM: &str = "<!-- generated from ";
const FROM_END: &str = " -->\n";
const TO: &str = "<!-- end -->\n";

/// What a bench measured, as the page shows it: where and when, with the command, and the rows.
fn table(file: &str, result: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{file}: {value} is no text")).to_owned();
    let cell = |value: &Value| text(value).replace('|', "\\|");
    let machine = &result["machine"];
    let mut page = format!(
        "`{}`, on {} cores ({}) with {} GiB, Linux {}, {}, commit `{}`:\n\n| what | result | goal |\n|-|-:|-|\n",
        text(&result["command"]),
        machine["cores"],
        text(&machine["cpu"]),
        machine["memoryGiB"],
        text(&machine["kernel"]),
        text(&result["date"]),
        text(&result["commit"]),
    );
    for row in result["rows"].as_array().unwrap() {
        writeln!(page, "| {} | {} | {} |", cell(&row["what"]), cell(&row["text"]), cell(&row["goal"])).unwrap();
    }
    page
}

#[test]
fn the_tables_of_the_page_are_what_benches_wrote() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs_err::read_to_string(root.join(PAGE)).unwrap();
    let (mut written, mut shown) = (String::new(), BTreeSet::new());
    let mut parts = page.split(FROM);
    written.push_str(parts.next().unwrap());
    for part in parts {
        let (file, rest) = part.split_once(FROM_END).unwrap_or_else(|| panic!("{PAGE}: a marker that does not end"));
        let (_, after) = rest.split_once(TO).unwrap_or_else(|| panic!("{PAGE}: {file} has no `{}`", TO.trim()));
        let result = fs_err::read_to_string(root.join(file)).unwrap();
        let table = table(file, &serde_json::from_str(&result).unwrap());
        written.push_str(&format!("{FROM}{file}{FROM_END}{table}{TO}{after}"));
        shown.insert(file.to_owned());
    }
    if std::env::var("STATOR_BLESS").is_ok_and(|value| value == "1") {
        fs_err::write(root.join(PAGE), &written).unwrap();
    }
    let held = fs_err::read_to_string(root.join(PAGE)).unwrap();
    let how = "run `STATOR_BLESS=1 cargo test --test integration performance::`";
    assert!(held == written, "{PAGE} is not what {RESULTS} says; {how}");
    let files = fs_err::read_dir(root.join(RESULTS)).unwrap().map(|entry| entry.unwrap().file_name());
    let files: BTreeSet<String> = files.map(|name| format!("{RESULTS}/{}", name.to_string_lossy())).collect();
    assert_eq!(files, shown, "{PAGE} shows other results than {RESULTS} has");
}

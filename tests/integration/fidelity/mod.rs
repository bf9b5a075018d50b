//! How near stator is to Dynamo, counted: what the operator said of upstream's objects against what stator says.
//!
//! Every count asserts what it counts: a case that stator gets wrong fails the test, it does not lower a number.

mod admission;
mod conversions;
mod imports;
mod releases;
mod updates;

use fs_err as fs;
use serde_json::Value;
use stator_core::dynamo::release::Release;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The releases whose operators gave verdicts.
pub const JUDGED: [Release; 2] = [Release::V1_2, Release::V1_5];

/// Where the verdicts of a release's operator are.
fn folder(release: Release) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dynamo");
    if release == Release::V1_2 { root } else { root.join(release.as_str()) }
}

/// Lines of a file of verdicts.
pub fn verdicts(release: Release, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder(release).join(format!("oracle/{name}.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The document that a verdict on a manifest is about, as upstream wrote it.
pub fn source(release: Release, row: &Value) -> Value {
    let file = row["file"].as_str().unwrap();
    // The canonical graphs are the same for all releases.
    let of = if file.starts_with("canonical/") { Release::V1_2 } else { release };
    // Some of upstream's files hold more comments in a row than the reader looks past.
    let options = serde_saphyr::options! { emit_comments: false };
    let text = fs::read_to_string(folder(of).join(file)).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options).unwrap();
    // Not by its number: whether a part with nothing but comments is a document, readers disagree.
    let is_it = |document: &Value| document["kind"] == row["kind"] && document["metadata"]["name"] == row["name"];
    documents.into_iter().find(is_it).unwrap()
}

/// A Markdown table.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "-|".repeat(head.len()));
    for row in rows {
        writeln!(text, "| {} |", row.join(" | ")).unwrap();
    }
    text
}

const HEAD: &str = include_str!("head.md");

/// `docs/dynamo.md`.
pub fn page() -> String {
    let sections =
        [releases::section(), admission::section(), updates::section(), conversions::section(), imports::section()];
    format!("{HEAD}\n{}", sections.join("\n"))
}

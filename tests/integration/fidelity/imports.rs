//! How much of upstream's manifests becomes fields, for `docs/dynamo.md`.

use super::table;
use fs_err as fs;
use stator_model::import::{self, CoverageRow};
use stator_model::import::{ImportOptions, ManifestFile, import};
use std::path::Path;

/// The manifests of a folder and of those below it.
fn manifests(folder: &Path, found: &mut Vec<ManifestFile>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            manifests(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(ManifestFile { file: path.display().to_string(), content: fs::read(&path).unwrap() });
        }
    }
}

fn measure(folder: &str) -> Vec<CoverageRow> {
    let mut files = Vec::new();
    manifests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dynamo").join(folder), &mut files);
    let models = files.iter().flat_map(|file| import(std::slice::from_ref(file), ImportOptions::default()).models);
    models.map(|model| import::coverage_row(&model)).collect()
}

fn line(folder: &str, rows: &[CoverageRow]) -> Vec<String> {
    let (back, all) = (rows.iter().filter(|row| row.round_trips).count(), import::coverage_total(rows));
    [
        folder.to_owned(),
        rows.len().to_string(),
        back.to_string(),
        all.leaves.to_string(),
        all.named().to_string(),
        import::coverage_percent(all),
    ]
    .into()
}

/// The section on imports.
pub fn section() -> String {
    let folders = ["canonical", "examples", "recipes"].map(|folder| (folder, measure(folder)));
    let mut lines: Vec<Vec<String>> = folders.iter().map(|(folder, rows)| line(&format!("`{folder}`"), rows)).collect();
    let all: Vec<CoverageRow> = folders.into_iter().flat_map(|(_, rows)| rows).collect();
    lines.push(line("all", &all));
    format!(
        "## Import\n\nUpstream's manifests as `stator import` makes models of them, each file by itself. A leaf is a scalar, or an empty map or \
         list, of the manifest. It is *typed* when it has become a field with a meaning of its own: what went into `command`, `args`, \
         `template`, `overrides` or the content of `manifests` is not. [Import](import.md) has the same for each manifest.\n\n{}",
        table(&["Folder", "Models", "render back", "Leaves", "typed", "Share"], &lines)
    )
}

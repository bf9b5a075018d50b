//! How much of upstream's manifests becomes fields, for `docs/dynamo.md`.

use super::table;
use fs_err as fs;
use stator_core::dynamo::release::Release;
use stator_model::import::{self, CoverageRow, FieldCoverage, ImportResult, ImportedModel};
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

fn data() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dynamo")
}

fn measure(folder: &str) -> Vec<CoverageRow> {
    let mut files = Vec::new();
    manifests(&data().join(folder), &mut files);
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

/// A deployment of a recipe, and the model that it becomes.
struct RecipeRow {
    file: String,
    lines_before: usize,
    /// Lines of its own file.
    own_lines: usize,
    /// And its share of those that it has in common with others.
    lines_after: usize,
    round_trips: bool,
    has_overrides: bool,
    coverage: FieldCoverage,
}

fn count_lines(text: &str) -> usize {
    text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty()).count()
}

/// The files that a model shares with others: the defaults of its folders, and what its variants have in common.
fn shared_files<'a>(import: &'a ImportResult, model: &'a ImportedModel) -> impl Iterator<Item = (&'a str, &'a str)> {
    import.shared_files.iter().filter_map(|file| {
        let (folder, _) = file.path.rsplit_once('/')?;
        model.path.starts_with(&format!("{folder}/")).then_some((folder, file.text.as_str()))
    })
}

/// The deployments below a folder of recipes, each model's folder imported as a whole.
fn recipes(release: Release) -> Vec<RecipeRow> {
    let root = if release == Release::V1_5 { data().join("1.5/recipes") } else { data().join("recipes") };
    let mut rows = Vec::new();
    for entry in fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let mut files = Vec::new();
        manifests(&entry, &mut files);
        files.retain(|file| !file.file.contains("/kustomize/") && !file.file.contains("/."));
        let import = import(&files, ImportOptions { release, ..ImportOptions::default() });
        for model in &import.models {
            let mut shares = 0.0;
            for (folder, text) in shared_files(&import, model) {
                let below = format!("{folder}/");
                let sharing = import.models.iter().filter(|other| other.path.starts_with(&below)).count();
                shares += count_lines(text) as f64 / sharing as f64;
            }
            let own_lines = count_lines(&model.text);
            let before = files.iter().find(|file| file.file == model.origin.0).unwrap();
            let texts = shared_files(&import, model).map(|(_, text)| text).chain([model.text.as_str()]);
            rows.push(RecipeRow {
                file: Path::new(&model.origin.0).strip_prefix(&root).unwrap().display().to_string(),
                lines_before: count_lines(std::str::from_utf8(&before.content).unwrap()),
                own_lines,
                lines_after: own_lines + shares.round() as usize,
                round_trips: model.round_trips,
                has_overrides: texts.into_iter().any(|text| text.contains("\n  overrides:")),
                coverage: model.coverage,
            });
        }
    }
    rows.sort_by(|a, b| a.file.cmp(&b.file));
    rows
}

/// The value that a share of the rows does not exceed.
fn quantile(values: impl Iterator<Item = usize>, percent: usize) -> usize {
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    values[values.len() * percent / 100]
}

/// Asserts what the page says of a release's recipes.
fn recipes_line(release: Release, rows: &[RecipeRow]) -> Vec<String> {
    let after = || rows.iter().map(|row| row.lines_after);
    let all = rows.iter().fold(FieldCoverage::default(), |all, row| FieldCoverage {
        leaves: all.leaves + row.coverage.leaves,
        unmapped: all.unmapped + row.coverage.unmapped,
    });
    let whole = rows.iter().filter(|row| row.round_trips).count();
    let overridden = rows.iter().filter(|row| row.has_overrides).count();
    assert!(quantile(after(), 50) <= 60 && quantile(after(), 90) <= 120, "{release}");
    assert!(
        rows.iter().all(|row| row.lines_after <= row.lines_before),
        "{release}: a model is longer than its manifest"
    );
    assert!(all.named() * 100 >= all.leaves * 85 && overridden * 10 <= rows.len(), "{release}: {all:?}, {overridden}");
    [
        release.to_string(),
        rows.len().to_string(),
        whole.to_string(),
        overridden.to_string(),
        quantile(rows.iter().map(|row| row.lines_before), 50).to_string(),
        quantile(after(), 50).to_string(),
        quantile(after(), 90).to_string(),
        import::coverage_percent(all),
    ]
    .into()
}

fn recipe_line(release: Release, row: &RecipeRow) -> Vec<String> {
    let cut = if row.round_trips { "" } else { ", and what the release's conversion drops" };
    [
        format!("`{}`", row.file),
        release.to_string(),
        row.lines_before.to_string(),
        row.own_lines.to_string(),
        row.lines_after.to_string(),
        import::coverage_percent(row.coverage),
        format!("{}{cut}", row.coverage.unmapped),
    ]
    .into()
}

/// The section on imports.
pub fn section() -> String {
    let folders = ["canonical", "examples", "recipes"].map(|folder| (folder, measure(folder)));
    let mut lines: Vec<Vec<String>> = folders.iter().map(|(folder, rows)| line(&format!("`{folder}`"), rows)).collect();
    let all: Vec<CoverageRow> = folders.into_iter().flat_map(|(_, rows)| rows).collect();
    lines.push(line("all", &all));
    let recipes = super::JUDGED.map(|release| (release, recipes(release)));
    let totals: Vec<Vec<String>> = recipes.iter().map(|(release, rows)| recipes_line(*release, rows)).collect();
    let (whole, count) = recipes
        .iter()
        .flat_map(|(_, rows)| rows)
        .fold((0, 0), |(whole, count), row| (whole + usize::from(row.round_trips), count + 1));
    assert!(whole * 100 >= count * 90, "{whole} of {count} deployments are whole");
    let each: Vec<Vec<String>> =
        recipes.iter().flat_map(|(release, rows)| rows.iter().map(|row| recipe_line(*release, row))).collect();
    format!(
        "## Import\n\nUpstream's manifests as `stator import` makes models of them, each file by itself. A leaf is a scalar, or an empty map or \
         list, of the manifest; in a command line, a flag with its value. It is *typed* when it has become a field with a meaning of its own: \
         what went into `command`, `args`, `template`, `overrides`, the content of `manifests` or a file is not. [Import](import.md) has the \
         same for each manifest.\n\n{}\n## Recipes\n\nUpstream's recipes, each model's folder imported as a whole: with its download \
         Jobs, claims and ConfigMaps, and with what its deployments have in common in files of their own. A line is one that is neither \
         empty nor a comment. The lines of a file that several deployments share are divided among them.\n\n{}\n{}",
        table(&["Folder", "Models", "render back", "Leaves", "typed", "Share"], &lines),
        table(
            &[
                "Release",
                "Deployments",
                "whole",
                "with `overrides`",
                "Lines before, median",
                "after, median",
                "after, 90 % at most",
                "Typed"
            ],
            &totals
        ),
        table(
            &["Deployment", "Release", "Lines before", "own file", "with shared files", "Typed", "Leaves left"],
            &each
        )
    )
}

//! What package managers and the workflow of a release say: each file that they name is in the archive, and each digest is
//! that of a file that was made.

use super::at;
use super::release::{archive_name, digest, made};
use regex::Regex;
use serde_json::Value;

#[test]
fn formula_and_flake_name_the_archive_and_files_that_are_in_it() {
    let Some(made) = made() else { return };
    let sum = digest(&fs_err::read(made.file(&format!("{}.tar.gz", archive_name()))).unwrap());
    let unpacked = made.unpacked();
    let named = Regex::new(r"(?:completions|man|crds)/[\w.*]+").unwrap();
    for name in ["stator.rb", "flake.nix"] {
        let text = made.read(name);
        assert!(text.contains(&sum), "{name}: {text}");
        assert!(text.contains(&format!("/{}.tar.gz\"", archive_name())), "{name}: {text}");
        assert!(
            text.contains(&format!("version = \"{0}\"", env!("CARGO_PKG_VERSION"))) || name == "stator.rb",
            "{text}"
        );
        let files: Vec<&str> = named.find_iter(&text).map(|one| one.as_str()).collect();
        assert!(files.len() > 3, "{name}: {files:?}");
        for file in files {
            let path = unpacked.path().join(archive_name()).join(file.split('*').next().unwrap().trim_end_matches('/'));
            assert!(path.exists(), "{name} names {file}");
        }
    }
    // Braces and quotes that do not pair are not Nix, whatever else is.
    let flake = made.read("flake.nix");
    for (open, close) in [('{', '}'), ('[', ']')] {
        assert_eq!(flake.matches(open).count(), flake.matches(close).count(), "{flake}");
    }
}

/// The packages of distributions list files by name: all of them are in the archive, and whoever adds one to the archive has
/// it in the packages.
#[test]
fn deb_and_rpm_hold_what_the_archive_holds() {
    let Some(made) = made() else { return };
    let unpacked = made.unpacked();
    let folder = unpacked.path().join(archive_name());
    let manifest = fs_err::read_to_string(at("Cargo.toml")).unwrap();
    for section in ["deb", "generate-rpm"] {
        let head = format!("\n[package.metadata.{section}]\n");
        let text = manifest.split(&head).nth(1).unwrap().split("\n[").next().unwrap();
        let listed: Vec<&str> =
            text.split("\"target/package/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        for file in &listed {
            let (parent, name) = file.rsplit_once('/').unwrap_or(("", file));
            // Manual pages are compressed on the way.
            let ending = name.trim_end_matches(".gz").trim_start_matches('*');
            let found = fs_err::read_dir(folder.join(parent)).unwrap().flatten();
            let found = found.filter(|entry| entry.file_name().to_str().unwrap().ends_with(ending)).count();
            assert!(found > 0, "{section} names {file}");
        }
        for entry in fs_err::read_dir(&folder).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            // Its list of crates lies beside each archive of a release.
            if name.ends_with(".cdx.json") {
                continue;
            }
            assert!(listed.iter().any(|file| file.split('/').next() == Some(name.as_str())), "{section} lacks {name}");
        }
    }
}

/// The workflow runs the script that this was made with, and nothing that can change under it.
#[test]
fn the_workflow_runs_the_script_and_pins_what_it_uses() {
    let text = fs_err::read_to_string(at(".github/workflows/release.yml")).unwrap();
    let workflow: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(workflow["permissions"], serde_json::json!({}), "each job asks for its own");
    let pinned = Regex::new("^[a-z-]+/[a-z-]+@[0-9a-f]{40}$").unwrap();
    let mut run = String::new();
    for job in workflow["jobs"].as_object().unwrap().values() {
        assert!(job["permissions"].is_object(), "{job}");
        for step in job["steps"].as_array().unwrap() {
            if let Some(uses) = step["uses"].as_str() {
                assert!(pinned.is_match(uses), "{uses} can change");
                continue;
            }
            let script = step["run"].as_str().unwrap();
            // What somebody else chose, such as the name of a tag, is never part of a script's text.
            assert!(!script.contains("${{"), "{script}");
            run.push_str(script);
        }
    }
    for script in ["build", "run", "common"] {
        assert!(run.contains(&format!("deploy/release/{script}")), "{script}");
        assert!(at("deploy/release").join(script).is_file());
    }
}

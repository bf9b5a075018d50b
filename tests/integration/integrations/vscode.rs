//! The extension of VS Code.

use super::at;
use serde_json::Value;

fn manifest() -> Value {
    serde_json::from_str(&fs_err::read_to_string(at("integrations/vscode/package.json")).unwrap()).unwrap()
}

/// A repository that somebody only looks at must not choose the program that is run.
#[test]
fn the_program_is_the_users_choice_alone() {
    let manifest = manifest();
    let settings = manifest["contributes"]["configuration"]["properties"].as_object().unwrap();
    assert_eq!(settings["stator.path"]["scope"], "machine");
    let script = fs_err::read_to_string(at("integrations/vscode/extension.js")).unwrap();
    for setting in settings.keys() {
        let name = setting.strip_prefix("stator.").unwrap();
        assert!(script.contains(&format!("settings.get(\"{name}\")")), "{name} is read");
    }
    assert_eq!(script.matches("settings.get(").count(), settings.len());
}

/// It is packed with the version of the program that it is written for.
#[test]
fn the_extension_has_the_version_of_the_program() {
    let manifest = manifest();
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(manifest["license"], env!("CARGO_PKG_LICENSE"));
    assert!(at("integrations/vscode").join(manifest["main"].as_str().unwrap()).is_file());
}

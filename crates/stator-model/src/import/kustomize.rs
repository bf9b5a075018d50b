//! Folders that kustomize builds: what is in them are parts, which say something only once they are built.

use super::documents::folder_of;
use super::{ManifestFile, rules};
use stator_core::finding::{Finding, Location};
use std::collections::BTreeSet;
use std::path::Path;

/// The names that kustomize looks for.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// How many folders a message names.
const MAX_NAMED: usize = 3;

/// Folders with a `kustomization.yaml`.
#[derive(Debug)]
pub struct BuiltFolders {
    folders: BTreeSet<String>,
}

fn is_kustomization(file: &str) -> bool {
    Path::new(file).file_name().is_some_and(|name| NAMES.iter().any(|known| name == *known))
}

/// The files that are manifests as they stand, and the folders that are to be built first.
pub fn without_kustomizations(inputs: &[ManifestFile]) -> (Vec<&ManifestFile>, Option<BuiltFolders>) {
    let folders: BTreeSet<String> = inputs
        .iter()
        .filter(|input| is_kustomization(&input.file))
        .map(|input| folder_of(&input.file).display().to_string())
        .collect();
    if folders.is_empty() {
        return (inputs.iter().collect(), None);
    }
    let is_part = |input: &&ManifestFile| {
        folder_of(&input.file).ancestors().any(|above| {
            folders.contains(&above.display().to_string())
                && (above != Path::new("") || folder_of(&input.file) == Path::new(""))
        })
    };
    let rest = inputs.iter().filter(|input| !is_part(input)).collect();
    (rest, Some(BuiltFolders { folders }))
}

impl BuiltFolders {
    /// What to do with them, once for all: an error where nothing else was imported.
    pub fn finding(&self, is_all: bool) -> Finding {
        let first = self.folders.first().map_or("", String::as_str);
        let at = |folder: &str| if folder.is_empty() { ".".to_owned() } else { folder.to_owned() };
        let location = Location { file: at(first), line: 1, column: 1, length: 1 };
        let named: Vec<String> =
            self.folders.iter().take(MAX_NAMED).map(|folder| format!("`{}`", at(folder))).collect();
        let more = self.folders.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!("kustomize builds {}{more}: what is in there is not imported", named.join(", "));
        let help = "run `kustomize build FOLDER` for the overlay that you apply, and import its output";
        if is_all {
            Finding::error(rules::KUSTOMIZE, location, message, help)
        } else {
            Finding::warning(rules::KUSTOMIZE, location, message, help)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::import::{ImportOptions, ManifestFile, import};

    fn file(path: &str, content: &str) -> ManifestFile {
        ManifestFile { file: path.to_owned(), content: content.as_bytes().to_vec() }
    }

    const PATCH: &str = "kind: DynamoGraphDeployment\nmetadata: {name: chat}\nspec: {services: {a: {replicas: 2}}}\n";
    const GRAPH: &str =
        "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: chat}\nspec: {components: []}\n";

    #[test]
    fn parts_of_kustomize_are_said_once_and_stop_nothing_else() {
        let parts = [
            file("k/base/kustomization.yaml", "resources: [deploy.yaml]\n"),
            file("k/base/deploy.yaml", GRAPH),
            file("k/overlays/a/kustomization.yaml", "resources: [../../base]\n"),
            file("k/overlays/a/patches/patch.yaml", PATCH),
        ];
        let alone = import(&parts, ImportOptions::default());
        let [finding] = alone.findings.as_slice() else { panic!("{:#?}", alone.findings) };
        assert!(finding.is_error() && finding.help.contains("kustomize build"), "{finding:?}");
        assert_eq!(finding.message, "kustomize builds `k/base`, `k/overlays/a`: what is in there is not imported");
        let beside = import(&[parts.as_slice(), &[file("k/deploy.yaml", GRAPH)]].concat(), ImportOptions::default());
        assert_eq!(beside.models.len(), 1);
        assert_eq!(beside.findings.iter().filter(|finding| finding.rule.id == "import/kustomize").count(), 1);
        assert!(beside.findings.iter().all(|finding| finding.rule.id != "import/kustomize" || !finding.is_error()));
    }
}

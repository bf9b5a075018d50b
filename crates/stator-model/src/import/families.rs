//! Models that are one model: in another precision, or trained on.

use super::prepared::PreparedModel;
use crate::intent::FileRole;
use std::collections::{BTreeMap, BTreeSet};

/// Models by family. A model is of the family of another where its name is that of the other with a word behind it, or where
/// both differ in such a word: `GLM-5.2-FP8` and `GLM-5.2-NVFP4`. A number is no such word: it is the size.
pub struct ModelFamilies {
    /// The folder of each family's models, by model.
    folders: BTreeMap<String, String>,
}

impl ModelFamilies {
    pub fn of<'a>(models: impl Iterator<Item = &'a str>) -> Self {
        let mut by_stem: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
        let names: BTreeMap<String, Vec<String>> =
            models.filter_map(|model| Some((model.to_owned(), words(&folder_name(model)?)))).collect();
        let stems: BTreeSet<&[String]> = names.values().filter_map(|words| Some(words.split_last()?.1)).collect();
        for (model, words) in &names {
            let stem = match words.split_last() {
                Some((last, stem)) if !stem.is_empty() && last.starts_with(|c: char| c.is_ascii_alphabetic()) => stem,
                Some(_) | None => words.as_slice(),
            };
            // A name that others only add to is a stem itself.
            let stem = if stems.contains(words.as_slice()) { words.as_slice() } else { stem };
            by_stem.entry(stem.to_vec()).or_default().push(model.clone());
        }
        let mut folders = BTreeMap::new();
        for (stem, models) in by_stem {
            let alone = models.first().filter(|_| models.len() == 1).and_then(|model| folder_name(model));
            let Some(folder) = alone.or_else(|| folder_name(&stem.join("-"))) else { continue };
            folders.extend(models.into_iter().map(|model| (model, folder.clone())));
        }
        Self { folders }
    }

    /// The folder of a family, where all variants of a graph are of one.
    pub fn common(&self, variants: &[PreparedModel]) -> Option<String> {
        let mut folders = variants.iter().map(|one| self.folders.get(&one.model.spec.model));
        let first = folders.next()??;
        folders.all(|other| other == Some(first)).then(|| first.clone())
    }
}

/// The longest name of a folder: as long as a model's.
const MAX_FOLDER_LENGTH: usize = 63;

/// The name of a folder for a model: the last part of its own, in small letters.
pub fn folder_name(model: &str) -> Option<String> {
    let last = model.trim_end_matches('/').rsplit('/').next()?.to_ascii_lowercase();
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let clean: String = last.chars().map(|c| if is_letter(c) { c } else { '-' }).collect();
    let clean = clean.trim_matches(['-', '.']);
    let is_folder =
        !clean.is_empty() && clean.len() <= MAX_FOLDER_LENGTH && FileRole::of_name(clean) == FileRole::Other;
    is_folder.then(|| clean.to_owned())
}

fn words(name: &str) -> Vec<String> {
    name.split('-').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

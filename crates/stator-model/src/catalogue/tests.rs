//! The catalogue as data: what every recipe has, whatever it serves.

use super::{ESTIMATES, Recipe, hardware_name, recipes};
use crate::intent::format::format_document;
use std::collections::BTreeSet;

fn name_of(recipe: &Recipe) -> String {
    format!("{} on {}", recipe.name, hardware_name(recipe.gpu))
}

#[test]
fn recipes_are_sorted_and_unique_and_each_gpu_has_one_price() {
    let names: Vec<&str> = recipes().iter().map(|recipe| recipe.name).collect();
    assert!(names.is_sorted(), "{names:?}");
    let pairs: BTreeSet<String> = recipes().iter().map(name_of).collect();
    assert_eq!(pairs.len(), recipes().len());
    for recipe in recipes() {
        assert_eq!(ESTIMATES.iter().filter(|one| one.gpu == recipe.gpu).count(), 1, "{}", name_of(&recipe));
    }
}

#[test]
fn a_recipe_is_short_formatted_and_names_its_basis() {
    for recipe in recipes() {
        let name = name_of(&recipe);
        assert!((15..=30).contains(&recipe.model.lines().count()), "{name}");
        assert_eq!(format_document(recipe.model).as_deref(), Ok(recipe.model), "{name}");
        assert!(!recipe.model.contains("overrides:") && !recipe.model.contains("template:"), "{name}");
        assert!(recipe.model.contains(&format!("metadata: {{name: {}}}", recipe.name)), "{name}");
        assert!(recipe.model.contains(&format!("gpu: {}", recipe.gpu.name())), "{name}");
        assert!(recipe.model.starts_with("# Sizes "), "{name}");
        assert_eq!(recipe.edits().len(), 4, "{name}: {:?}", recipe.edits());
    }
}

#[test]
fn gpus_and_price_follow_from_the_model() {
    for recipe in recipes() {
        let summary = recipe.summarize().unwrap_or_else(|findings| panic!("{}: {findings:?}", name_of(&recipe)));
        assert!(summary.gpus > 0 && summary.estimated_price_per_hour.is_some_and(|price| price > 0.0), "{summary:?}");
    }
    let halved: Recipe = recipes().into_iter().find(|recipe| recipe.name == "gpt-oss-120b").unwrap();
    let text = halved.model.replace("replicas: 4", "replicas: 2");
    let summary = halved.summarize().unwrap();
    let less = Recipe { model: Box::leak(text.into_boxed_str()), ..halved }.summarize().unwrap();
    assert_eq!(less.gpus * 2, summary.gpus);
    assert_eq!(less.estimated_price_per_hour.map(|price| price * 2.0), summary.estimated_price_per_hour);
}

//! The part of an environment that a selection may have to do with: what is selected costs what it costs alone.
//!
//! A model that is not selected matters to one that is where both may mean the same object. Objects are named after their
//! model, or by a text of its files or of the settings above them: so a model is in where a file of it has a word that names
//! an object of the selected ones, or the other way round, and everything is where the settings have such a word. A plan of the
//! part is then used only where it neither creates nor deletes and holds nothing back, as these depend on what others have.

use super::repository::OpenedRepository;
use stator_model::fleet_policy::FleetPolicies;
use stator_model::intent::{FileRole, ResolvedEnvironment, SourceTree, StoredIntent};
use stator_model::plan::{Action, ChangeReason, Plan};
use stator_model::render::RenderedText;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// A part that is more than one in so many models is not worth a look of its own.
const MIN_SHARE: usize = 2;

/// The words of a file's text that may be names of objects.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    text.split(move |c| !is_name(c)).map(|word| word.trim_matches(['.', '-'])).filter(|word| !word.is_empty())
}

/// The models beside which nothing has to do with the selected ones.
#[derive(Debug)]
pub struct SelectedPart<'a> {
    selection: &'a ResolvedEnvironment,
    /// The texts of each folder's model.
    texts: BTreeMap<&'a str, Vec<&'a str>>,
    /// Those of all settings.
    settings: Vec<&'a str>,
    /// By their places among the environment's intents.
    members: BTreeSet<usize>,
}

impl<'a> SelectedPart<'a> {
    /// The selected models; `None` where everything has to be looked at, since everything is selected, or since something
    /// counts over all models.
    pub fn of_selected(
        opened: &'a OpenedRepository,
        selection: &'a ResolvedEnvironment,
        policies: &FleetPolicies,
    ) -> Option<Self> {
        let scope = &opened.checkout.scope;
        // What is known of a model with errors is in its record alone, and that may have another name.
        let has_broken = selection.broken.iter().any(|broken| scope.contains(&broken.source));
        if scope.is_everything() || has_broken || !policies.is_empty() || selection.guards.max_gpus.is_some() {
            return None;
        }
        let is_selected = |(_, intent): &(usize, &StoredIntent)| scope.contains(&intent.source);
        let members: BTreeSet<usize> =
            selection.intents.iter().enumerate().filter(is_selected).map(|(place, _)| place).collect();
        let (mut texts, mut settings) = (BTreeMap::<&str, Vec<&str>>::new(), Vec::new());
        for file in &opened.checkout.tree.files {
            let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
            let text = file.content.as_ref().ok().and_then(|content| std::str::from_utf8(content).ok())?;
            match FileRole::of_name(name) {
                FileRole::Settings => settings.push(text),
                FileRole::Intent
                | FileRole::Overlay(_)
                | FileRole::Lock(_)
                | FileRole::Misnamed { .. }
                | FileRole::Other => {
                    texts.entry(folder).or_default().push(text);
                }
            }
        }
        let is_worth_it = !members.is_empty() && members.len() * MIN_SHARE <= selection.intents.len();
        is_worth_it.then_some(Self { selection, texts, settings, members })
    }

    /// The environment with the members alone.
    pub fn to_environment(&self) -> ResolvedEnvironment {
        let all = &self.selection.intents;
        let intents = self.members.iter().filter_map(|place| all.get(*place)).cloned().collect();
        ResolvedEnvironment {
            name: self.selection.name.clone(),
            environment: self.selection.environment.clone(),
            repository: self.selection.repository.clone(),
            intents,
            broken: self.selection.broken.clone(),
            unread: self.selection.unread.clone(),
            findings: self.selection.findings.clone(),
            model_findings: self.selection.model_findings.clone(),
            policy: self.selection.policy.clone(),
            prices: self.selection.prices.clone(),
            guards: self.selection.guards.clone(),
            places: self.selection.places.clone(),
        }
    }

    /// The names of the members.
    pub fn names(&self) -> BTreeSet<String> {
        let all = &self.selection.intents;
        let members = self.members.iter().filter_map(|place| all.get(*place));
        members.map(|intent| intent.name.to_string()).collect()
    }

    /// The records of this list that are of no model of the environment: their models are gone from git, from where only they say.
    pub fn removed_models(&self, records: Vec<String>) -> BTreeSet<String> {
        let mut known: HashSet<&str> = self.selection.intents.iter().map(|intent| intent.name.as_str()).collect();
        known.extend(self.selection.broken.iter().filter_map(|broken| broken.name.as_deref()));
        records.into_iter().filter(|record| !known.contains(record.as_str())).collect()
    }

    /// Takes in what may share an object with the members, which render to these. `None` where that may be everything; else
    /// whether there was any.
    pub fn take_in_related(&mut self, rendered: &[RenderedText]) -> Option<bool> {
        let objects: HashSet<&str> =
            rendered.iter().flat_map(|model| &model.objects).map(|object| object.object.name()).collect();
        if self.settings.iter().flat_map(|text| words(text)).any(|word| objects.contains(word)) {
            return None;
        }
        // An object is called after its model, and something behind a hyphen.
        let heads: HashSet<&str> =
            objects.iter().flat_map(|name| name.match_indices('-').filter_map(|(at, _)| name.get(..at))).collect();
        let all = &self.selection.intents;
        let texts_of = |intent: &StoredIntent| {
            let folder = intent.source.rsplit_once('/').map_or("", |(folder, _)| folder);
            self.texts.get(folder).into_iter().flatten().copied()
        };
        let members = self.members.iter().filter_map(|place| all.get(*place));
        let mentioned: HashSet<&str> = members.flat_map(texts_of).flat_map(words).collect();
        let is_related = |intent: &StoredIntent| {
            let name = intent.name.as_str();
            mentioned.contains(name)
                || heads.contains(name)
                || texts_of(intent).flat_map(words).any(|word| objects.contains(word))
        };
        let others = all.iter().enumerate().filter(|(place, _)| !self.members.contains(place));
        let related: Vec<usize> = others.filter(|(_, intent)| is_related(intent)).map(|(place, _)| place).collect();
        let is_any = !related.is_empty();
        self.members.extend(related);
        (self.members.len() * MIN_SHARE <= all.len()).then_some(is_any)
    }
}

/// The models whose own files are different, by name, with the path of each; `None` where the files of others may be, or
/// where there are others.
pub fn changed_models(
    before: (&SourceTree, &ResolvedEnvironment),
    after: (&SourceTree, &ResolvedEnvironment),
) -> Option<BTreeMap<String, String>> {
    let folder_of = |path: &str| path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
    let mut folders = BTreeSet::new();
    let files = [before, after].map(|(tree, _)| tree.files.iter().map(|file| (&file.path, file)).collect());
    for path in differences(&files) {
        match FileRole::of_name(path.rsplit('/').next().unwrap_or_default()) {
            FileRole::Intent | FileRole::Overlay(_) | FileRole::Lock(_) => folders.insert(folder_of(path)),
            FileRole::Settings | FileRole::Misnamed { .. } | FileRole::Other => return None,
        };
    }
    folders.extend(differences(&[before, after].map(|(tree, _)| tree.mounted_files.iter().collect())).cloned());
    let models = |(_, environment): (&SourceTree, &ResolvedEnvironment)| -> BTreeMap<String, String> {
        let changed = environment.intents.iter().filter(|intent| folders.contains(&folder_of(&intent.source)));
        changed.map(|intent| (intent.name.to_string(), intent.source.clone())).collect()
    };
    let others = |(tree, environment): (&SourceTree, &ResolvedEnvironment)| {
        (tree.unread.clone(), environment.broken.clone(), environment.environment.platform.clone())
    };
    (models(before) == models(after) && others(before) == others(after)).then(|| models(after))
}

/// The keys of which two maps do not say the same.
fn differences<'a, T: PartialEq>(maps: &'a [BTreeMap<&'a String, &'a T>; 2]) -> impl Iterator<Item = &'a String> {
    let [before, after] = maps;
    let keys = before.iter().filter(|(key, value)| after.get(*key) != Some(value)).map(|(key, _)| *key);
    keys.chain(after.keys().filter(|key| !before.contains_key(*key)).copied())
}

/// Whether a plan of a part is the plan of the same models among all others.
pub fn is_self_contained(plan: &Plan) -> bool {
    let is_kept = |reason: &ChangeReason| matches!(reason, ChangeReason::Kept(_));
    plan.holds.is_empty()
        && plan.changes.iter().all(|change| {
            matches!(change.action, Action::Keep | Action::Update)
                && change.step.held_by().is_none()
                && !change.reasons.iter().any(is_kept)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stator_model::intent::{SourceFile, Workspace};
    use std::sync::Arc;

    const ROOT: &str = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: fleet}\nspec:\n  \
                        environments:\n    prod: {namespace: models}\n";

    fn model(name: &str, replicas: u32) -> String {
        format!(
            "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\nspec:\n  model: Qwen/Qwen3-0.6B\n  \
             engine: mocker\n  runtime: 1.2.0\n  serving: {{worker: {{replicas: {replicas}}}}}\n"
        )
    }

    /// A repository of these files, and of models `a` and `b`.
    fn read(more: &[(&str, &str)]) -> (SourceTree, ResolvedEnvironment) {
        let (a, b) = (model("a", 1), model("b", 1));
        let mut files: BTreeMap<&str, &str> =
            BTreeMap::from([("stator.yaml", ROOT), ("x/a/model.yaml", &a), ("x/b/model.yaml", &b)]);
        files.extend(more.iter().copied());
        let file =
            |(path, text): (&str, &str)| SourceFile { path: path.to_owned(), content: Ok(Arc::from(text.as_bytes())) };
        let files = files.into_iter().filter(|(_, text)| !text.is_empty()).map(file).collect();
        let tree = SourceTree { files, ..SourceTree::default() };
        let environment = Workspace::parse(&tree).resolve_environment(Some("prod")).unwrap();
        (tree, environment)
    }

    #[test]
    fn only_what_is_one_models_own_is_looked_at_by_itself() {
        let before = read(&[]);
        let changed = |more: &[(&str, &str)]| {
            let after = read(more);
            let there = changed_models((&before.0, &before.1), (&after.0, &after.1));
            let back = changed_models((&after.0, &after.1), (&before.0, &before.1));
            assert_eq!(there, back, "{more:?}");
            there.map(|models| {
                models.into_iter().map(|(name, path)| format!("{name} {path}")).collect::<Vec<_>>().join(", ")
            })
        };
        let overlay = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: b}\nspec: {serving: {worker: {replicas: 3}}}\n";
        assert_eq!(changed(&[]).as_deref(), Some(""));
        assert_eq!(changed(&[("x/a/model.yaml", &model("a", 2))]).as_deref(), Some("a x/a/model.yaml"));
        assert_eq!(changed(&[("x/b/model.prod.yaml", overlay)]).as_deref(), Some("b x/b/model.yaml"));
        for about_others in [
            ("stator.yaml", &*ROOT.replace("models}", "others}")),
            ("x/stator.yaml", "apiVersion: stator.dev/v1alpha1\nkind: Defaults\nspec: {env: {A: b}}\n"),
            ("x/c/model.yaml", &model("c", 1)),
            ("x/a/model.yaml", &model("c", 1)),
            ("x/a/model.yaml", &model("b", 1)),
            ("x/a/model.yaml", "kind: Model\n"),
            ("x/a/model.yaml", ""),
        ] {
            assert_eq!(changed(&[about_others]), None, "{about_others:?}");
        }
        let mounted = |text: &str| {
            let (mut tree, environment) = read(&[]);
            let file = SourceFile { path: "x/b/chat.jinja".to_owned(), content: Ok(Arc::from(text.as_bytes())) };
            tree.mounted_files.insert("x/b".to_owned(), vec![file]);
            (tree, environment)
        };
        let (one, other) = (mounted("one"), mounted("other"));
        let models = changed_models((&one.0, &one.1), (&other.0, &other.1)).unwrap();
        assert_eq!(models.into_keys().collect::<Vec<_>>(), ["b"]);
    }
}

//! The order of merging, as a law over whole repositories: root defaults, folder defaults from the top down, environment
//! defaults, intent, overlay. Maps merge by key, lists replace.

use super::{QWEN, ROOT, loaded, report, workspace};
use crate::intent::model::ModelSpec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Fields that a valid model may lack.
const UNSET: [&str; 8] = [
    "env",
    "env.A",
    "hardware",
    "secrets.imagePull",
    "serving.frontend",
    "serving.worker.args",
    "serving.worker.env.B",
    "serving.worker.template.spec.a",
];

/// Partial specs that are valid in any combination. Few keys, so that layers meet.
fn layer() -> impl Strategy<Value = Map<String, Value>> {
    let word = || "[a-z]{1,3}".prop_map(Value::from);
    let variable = prop_oneof![
        word(),
        ("[a-z]{1,3}", "[a-z]{1,3}").prop_map(|(name, key)| json!({"secret": name, "key": key})),
        ("[a-z]{1,3}", "[a-z]{1,3}").prop_map(|(name, key)| json!({"configMap": name, "key": key})),
    ];
    let env = || prop::collection::btree_map("[A-C]", variable.clone(), 0..3).prop_map(|map| json!(map));
    let list = || prop::collection::vec("--[a-c]", 0..3).prop_map(|list| json!(list));
    let amounts = || prop::collection::btree_map("cpu|memory", "[1-9]", 0..2).prop_map(|map| json!(map));
    let resources = fields(vec![("requests", amounts().boxed()), ("limits", amounts().boxed())]);
    let worker = fields(vec![
        ("replicas", (1_u32..9).prop_map(Value::from).boxed()),
        ("args", list().boxed()),
        ("env", env().boxed()),
        ("resources", resources.boxed()),
        ("template", fields(vec![("spec", free().boxed()), ("metadata", free().boxed())]).boxed()),
    ]);
    let frontend = fields(vec![("replicas", (1_u32..9).prop_map(Value::from).boxed()), ("env", env().boxed())]);
    let serving = fields(vec![("worker", worker.boxed()), ("frontend", frontend.boxed())]);
    let pull = prop::collection::vec("[a-z]{1,3}", 0..3).prop_map(|list| json!(list));
    let secrets = fields(vec![("huggingFace", word().boxed()), ("imagePull", pull.boxed())]);
    let toleration = prop::collection::vec("[a-c]".prop_map(|key| json!({"key": key, "operator": "Exists"})), 0..2);
    let hardware = fields(vec![
        ("gpusPerNode", (1_u32..9).prop_map(Value::from).boxed()),
        ("tolerations", toleration.prop_map(|list| json!(list)).boxed()),
    ]);
    let all = fields(vec![
        ("env", env().boxed()),
        ("serving", serving.boxed()),
        ("secrets", secrets.boxed()),
        ("hardware", hardware.boxed()),
        ("runtime", "1\\.[2-9]\\.[0-9]".prop_map(Value::from).boxed()),
        ("unset", prop::sample::subsequence(UNSET.to_vec(), 0..4).prop_map(|paths| json!(paths)).boxed()),
    ]);
    all.prop_map(|value| value.as_object().cloned().unwrap())
}

/// Anything, as a template takes it: maps in which a key is now a list and now a map.
fn free() -> impl Strategy<Value = Value> {
    let leaf = "[x-z]".prop_map(Value::from);
    let list = prop::collection::vec("[x-z]", 0..2).prop_map(|list| json!(list));
    let map = prop::collection::btree_map("[a-b]", "[x-z]", 0..2).prop_map(|map| json!(map));
    prop::collection::btree_map("[a-c]|env", prop_oneof![leaf, list, map], 0..3).prop_map(|map| json!(map))
}

/// A map with some of the fields.
fn fields(all: Vec<(&'static str, BoxedStrategy<Value>)>) -> impl Strategy<Value = Value> + Clone {
    let each: Vec<_> = all
        .into_iter()
        .map(|(name, value)| prop::option::of(value).prop_map(move |value| value.map(|value| (name, value))).boxed())
        .collect();
    each.prop_map(|found| {
        Value::Object(found.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)).collect())
    })
}

/// What a layer takes away, and then what it sets.
fn stand_over(base: &mut Map<String, Value>, strong: &Map<String, Value>) {
    for path in strong.get("unset").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        let (above, last) = path.rsplit_once('.').map_or((None, path), |(above, last)| (Some(above), last));
        let mut at = Some(&mut *base);
        for name in above.into_iter().flat_map(|above| above.split('.')) {
            at = at.and_then(|map| map.get_mut(name)?.as_object_mut());
        }
        at.and_then(|map| map.remove(last));
    }
    over(base, strong, false);
    base.remove("unset");
}

/// The documented rule in its own words, for a check of the real thing: maps merge by key, everything else is replaced,
/// and so is the value of an environment variable.
fn over(base: &mut Map<String, Value>, strong: &Map<String, Value>, values_are_whole: bool) {
    for (key, value) in strong {
        match (base.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(above)) if !values_are_whole => over(below, above, key == "env"),
            (Some(below), _) => below.clone_from(value),
            (None, _) => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

proptest! {
    #[test]
    fn every_layer_goes_over_the_weaker_ones_and_touches_nothing_else(
        root in layer(),
        folders in prop::collection::vec(prop::option::of(layer()), 3),
        beside in layer(),
        environment in prop::option::of(layer()),
        intent in layer(),
        overlay in prop::option::of(layer()),
    ) {
        let mut intent = intent;
        let mut fixed = json!({"model": "m", "engine": "vllm", "runtime": "1.2.0", "serving": {"worker": {}}});
        over(fixed.as_object_mut().unwrap(), &intent, false);
        intent.clone_from(fixed.as_object().unwrap());

        let document = |kind: &str, spec: Value| json!({"apiVersion": "stator.dev/v1alpha1", "kind": kind, "spec": spec});
        let mut repository = document("Repository", json!({"defaults": root, "environments": {
            "prod": {"namespace": "p", "defaults": environment.clone().unwrap_or_default()},
            "staging": {"namespace": "s"},
        }}));
        repository["metadata"] = json!({"name": "r"});
        let mut model = document("Model", json!(intent));
        model["metadata"] = json!({"name": "m"});
        let mut files = vec![
            ("stator.yaml".to_owned(), repository),
            ("a/b/m/model.yaml".to_owned(), model),
            // Of a folder that the model is not in.
            ("z/stator.yaml".to_owned(), document("Defaults", json!(beside))),
        ];
        for (folder, layer) in ["a", "a/b", "a/b/m"].into_iter().zip(&folders) {
            if let Some(layer) = layer {
                files.push((format!("{folder}/stator.yaml"), document("Defaults", json!(layer))));
            }
        }
        if let Some(overlay) = &overlay {
            files.push(("a/b/m/model.prod.yaml".to_owned(), document("Model", json!(overlay))));
        }
        let texts: Vec<(&str, String)> = files.iter().map(|(path, value)| (path.as_str(), value.to_string())).collect();
        let texts: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let workspace = workspace(&texts);

        let stronger = |layers: Vec<Option<&Map<String, Value>>>| {
            let mut merged = Map::new();
            stand_over(&mut merged, &root);
            layers.into_iter().flatten().for_each(|layer| stand_over(&mut merged, layer));
            merged
        };
        let folders = || folders.iter().map(Option::as_ref);
        let prod = folders().chain([environment.as_ref(), Some(&intent), overlay.as_ref()]).collect();
        let staging = folders().chain([Some(&intent)]).collect();
        for (name, expected) in [("prod", stronger(prod)), ("staging", stronger(staging))] {
            let selection = workspace.resolve_environment(Some(name)).unwrap();
            prop_assert_eq!(selection.intents.len(), 1, "{}", report(&selection.findings));
            let expected: ModelSpec = serde_json::from_value(Value::Object(expected)).unwrap();
            prop_assert_eq!(json!(loaded(&selection)[0].model.spec), json!(expected), "{}", name);
        }
    }
}

#[test]
fn what_is_unset_for_nothing_is_pointed_out() {
    let workspace = workspace(&[
        (
            "stator.yaml",
            "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: r}\nspec:\n  defaults: {runtime: 1.2.0, unset: [restart]}\n  environments: {prod: {namespace: p}}\n",
        ),
        (
            "m/model.yaml",
            "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: m}\nspec:\n  model: a/b\n  engine: vllm\n  image: x/y:1\n  unset: [runtime, serving.worker.args]\n  serving: {worker: {}}\n",
        ),
        ("m/model.prod.yaml", "apiVersion: stator.dev/v1alpha1\nkind: Model\nspec:\n  unset:\n  - env.A\n"),
    ]);
    insta::assert_snapshot!(report(&workspace.resolve_environment(Some("prod")).unwrap().findings), @r"
    m/model.prod.yaml:5:5 warning model/unset: no weaker layer sets `spec.env.A`
      help: Remove it from `unset`, or correct the path; `stator render --show-origins` shows what each layer sets.
    m/model.yaml:8:20 warning model/unset: no weaker layer sets `spec.serving.worker.args`
      help: Remove it from `unset`, or correct the path; `stator render --show-origins` shows what each layer sets.
    ");
}

#[test]
fn what_is_called_unset_is_a_component_like_any_other() {
    let root = ROOT.replacen(
        "    env: {LOG_LEVEL",
        "    components: {unset: {type: planner, args: [--a, --b]}}\n    env: {LOG_LEVEL",
        1,
    );
    let model = format!("{QWEN}  components: {{unset: {{args: {{append: [--c], remove: [--a]}}}}}}\n");
    let prod =
        workspace(&[("stator.yaml", &root), ("a/model.yaml", &model)]).resolve_environment(Some("prod")).unwrap();
    assert_eq!(report(&prod.findings), "");
    let component = loaded(&prod)[0].model.spec.components.values().next().unwrap().clone();
    assert_eq!(component.args, ["--b", "--c"]);
}

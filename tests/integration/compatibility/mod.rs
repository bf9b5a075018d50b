//! What docs/api-policy.md promises: the definitions and names of each release, kept in `tests/data/releases/VERSION` by
//! `deploy/release/record`, against those of now. Nothing goes without a notice in the two releases before, and nothing
//! tightens.

mod registry;
mod schema_changes;

use schema_changes::{Writer, narrowed, narrowed_api, narrowed_kind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file that defines something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DefinitionFile {
    Kind,
    Document,
    Api,
    ChartValues,
    Names,
}

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What a file of a release's folder is, and where it is from.
fn origin(name: &str) -> (DefinitionFile, String) {
    match name {
        "openapi.json" | "api.json" => {
            let kind = if name == "api.json" { DefinitionFile::Names } else { DefinitionFile::Api };
            (kind, format!("docs/reference/{name}"))
        }
        "values.schema.json" => (DefinitionFile::ChartValues, format!("deploy/helm/stator/{name}")),
        _ if name.ends_with(".yaml") => (DefinitionFile::Kind, format!("crds/{name}")),
        _ => (DefinitionFile::Document, format!("schemas/{name}")),
    }
}

fn read(path: &Path) -> Value {
    let text = fs_err::read_to_string(path).unwrap();
    if path.extension().is_some_and(|ending| ending == "yaml") {
        serde_saphyr::from_str(&text).unwrap()
    } else {
        serde_json::from_str(&text).unwrap()
    }
}

/// The releases on record, the newest last.
fn releases() -> Vec<ReleaseRecord> {
    let numbers = |version: &str| version.split('.').map(|part| part.parse::<u32>().unwrap()).collect::<Vec<_>>();
    let folders = fs_err::read_dir(root("tests/data/releases")).unwrap().map(|entry| entry.unwrap());
    let mut all: Vec<_> = folders
        .filter(|entry| entry.path().is_dir())
        .map(|entry| {
            let files = fs_err::read_dir(entry.path()).unwrap().map(|file| file.unwrap());
            let files = files.map(|file| (file.file_name().into_string().unwrap(), read(&file.path()))).collect();
            (entry.file_name().into_string().unwrap(), files)
        })
        .collect();
    all.sort_by_key(|(version, _)| numbers(version));
    all
}

/// Names that went, and those that promise less.
fn gone(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (group, names) in old.as_object().unwrap() {
        for (name, level) in names.as_object().unwrap() {
            let level = level.as_str().unwrap();
            let now = new[group].get(name).and_then(Value::as_str);
            let rank = |level: &str| ["alpha", "beta", "stable"].iter().position(|one| level.starts_with(one)).unwrap();
            match now {
                Some(now) if rank(now) >= rank(level) => {}
                Some(now) => found.push(format!("{group}: {name} was {level} and is {now}")),
                None if level == "alpha" => {}
                None if level.contains("deprecated") => found.push(format!("{group}: {name} went, deprecated")),
                None => found.push(format!("{group}: {name} went")),
            }
        }
    }
    found
}

/// What is narrower in a definition.
fn compare(file: DefinitionFile, name: &str, old: &Value, new: &Value) -> Vec<String> {
    match file {
        DefinitionFile::Kind => narrowed_kind(old, new),
        // stator writes plans, and reads them again.
        DefinitionFile::Document if name == "plan.json" => {
            let mut found = narrowed(old, new, Writer::Stator);
            found.extend(narrowed(old, new, Writer::User));
            found
        }
        DefinitionFile::Document | DefinitionFile::ChartValues => narrowed(old, new, Writer::User),
        DefinitionFile::Api => narrowed_api(old, new),
        DefinitionFile::Names => gone(old, new),
    }
}

/// A release with its files.
type ReleaseRecord = (String, BTreeMap<String, Value>);

/// What is narrower than in the newest release. What goes needs the notice of the last two: both of them called it deprecated.
fn narrowed_since(releases: &[ReleaseRecord], now: impl Fn(&str) -> Option<Value>) -> Vec<String> {
    let (_, last) = releases.last().expect("a release is on record");
    let before = releases.len().checked_sub(2).map(|at| &releases[at].1);
    let mut found = Vec::new();
    for (name, old) in last {
        let Some(new) = now(name) else {
            found.push(format!("{name}: went"));
            continue;
        };
        let (file, _) = origin(name);
        let was_announced = |fault: &String| {
            let faults_before = before.and_then(|before| before.get(name)).map(|old| compare(file, name, old, &new));
            fault.ends_with("went, deprecated") && faults_before.is_some_and(|faults| faults.contains(fault))
        };
        let faults = compare(file, name, old, &new).into_iter().filter(|fault| !was_announced(fault));
        found.extend(faults.map(|fault| format!("{name}: {fault}")));
    }
    found
}

#[test]
fn nothing_goes_and_nothing_tightens_since_the_last_release() {
    let now = |name: &str| Some(root(&origin(name).1)).filter(|path| path.exists()).map(|path| read(&path));
    let found = narrowed_since(&releases(), now);
    assert!(found.is_empty(), "docs/api-policy.md says how something may go or change:\n{}", found.join("\n"));
}

/// All pointers of a schema at which there is one, without what only names them.
fn places(schema: &Value, place: &str, found: &mut Vec<String>) {
    let Some(map) = schema.as_object() else { return };
    found.push(place.to_owned());
    for (word, value) in map {
        let word = word.replace('~', "~0").replace('/', "~1");
        match (word.as_str(), value) {
            ("properties" | "definitions", Value::Object(fields)) => {
                for (name, field) in fields {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    places(field, &format!("{place}/{word}/{name}"), found);
                }
            }
            ("items" | "additionalProperties", _) => places(value, &format!("{place}/{word}"), found),
            _ => {}
        }
    }
}

/// One way to narrow a schema; whether it could be done here.
type Narrowing = (&'static str, fn(&mut Value) -> bool);

const NARROWINGS: [Narrowing; 8] = [
    ("a field goes", |schema| {
        let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return false };
        let first = fields.keys().next().cloned();
        first.is_some_and(|name| fields.remove(&name).is_some())
    }),
    ("a field is required", |schema| {
        let name =
            schema.get("properties").and_then(Value::as_object).and_then(|fields| fields.keys().next_back().cloned());
        let required = schema.get("required").cloned().unwrap_or_else(|| json!([]));
        let Some(name) = name.filter(|name| !required.as_array().unwrap().contains(&json!(name))) else { return false };
        let more: Vec<Value> = required.as_array().unwrap().iter().cloned().chain([json!(name)]).collect();
        schema["required"] = json!(more);
        true
    }),
    ("a value goes", |schema| {
        let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) else { return false };
        values.len() > 1 && values.pop().is_some()
    }),
    ("a bound is tightened", |schema| {
        let bound = ["maxLength", "maximum", "maxItems"].into_iter().find(|word| schema.get(word).is_some());
        bound.is_some_and(|word| {
            schema[word] = json!(0);
            true
        })
    }),
    ("a bound is added", |schema| {
        let new = schema["type"] == "string" && schema.get("maxLength").is_none();
        if new {
            schema["maxLength"] = json!(1_000_000);
        }
        new
    }),
    ("a pattern is added", |schema| {
        let new = schema["type"] == "string" && schema.get("pattern").is_none();
        if new {
            schema["pattern"] = json!("^.*$");
        }
        new
    }),
    ("a type changes", |schema| {
        let text = schema["type"] == "string";
        if text {
            schema["type"] = json!("integer");
        }
        text
    }),
    ("a rule is added", |schema| {
        let is_object = schema.get("properties").is_some();
        if is_object {
            let rules = schema.as_object_mut().unwrap().entry("x-kubernetes-validations").or_insert_with(|| json!([]));
            rules.as_array_mut().unwrap().push(json!({"rule": "self.planted", "message": "planted"}));
        }
        is_object
    }),
];

/// Each way to narrow a definition, planted at several places of each real one, is found; and what allows more is not.
#[test]
fn whatever_is_narrowed_in_a_definition_is_found() {
    let mut planted = BTreeMap::<&str, usize>::new();
    for (name, definition) in &releases().last().unwrap().1 {
        let (file, _) = origin(name);
        let (top, is_document) = match file {
            DefinitionFile::Kind => ("/spec/versions/0/schema/openAPIV3Schema", false),
            DefinitionFile::Document | DefinitionFile::ChartValues => ("", true),
            DefinitionFile::Api | DefinitionFile::Names => continue,
        };
        let mut all = Vec::new();
        places(definition.pointer(top).unwrap(), top, &mut all);
        assert!(compare(file, name, definition, definition).is_empty(), "{name} against itself");
        for (what, narrow) in NARROWINGS {
            // What kubectl checks before it sends, no JSON Schema has.
            if is_document && what == "a rule is added" {
                continue;
            }
            let (mut tried, mut at) = (0, 0);
            while tried < 4 && at < all.len() {
                let mut changed = definition.clone();
                let place = &all[at];
                at += 1 + all.len() / 40;
                if !narrow(changed.pointer_mut(place).unwrap()) {
                    continue;
                }
                tried += 1;
                assert!(!compare(file, name, definition, &changed).is_empty(), "{name}{place}: {what}");
                *planted.entry(what).or_default() += 1;
                // The other way round, more is allowed: a field comes, a bound goes.
                if what != "a type changes" && name != "plan.json" {
                    assert_eq!(compare(file, name, &changed, definition), [""; 0], "{name}{place}: not {what}");
                }
            }
        }
    }
    assert!(planted.len() == NARROWINGS.len() && planted.values().all(|count| *count >= 2), "{planted:?}");
}

/// The same of the HTTP API and of names.
#[test]
fn an_endpoint_a_field_of_an_answer_and_a_name_cannot_go() {
    let last = releases().pop().unwrap().1;
    let (api, names) = (&last["openapi.json"], &last["api.json"]);
    let said = |change: fn(&mut Value)| {
        let mut changed = api.clone();
        change(&mut changed);
        let mut found = narrowed_api(api, &changed);
        found.truncate(2);
        found.join("\n")
    };
    let said = [
        said(|api| drop(api["paths"].as_object_mut().unwrap().remove("/api/v1/capacity"))),
        said(|api| drop(api["components"]["schemas"]["Model"]["properties"].as_object_mut().unwrap().remove("name"))),
        said(|api| {
            let parameters = &mut api["paths"]["/api/v1/models"]["get"]["parameters"];
            parameters[0]["required"] = json!(true);
        }),
        said(|api| drop(api["paths"]["/api/v1/models"]["get"]["parameters"].as_array_mut().unwrap().remove(0))),
    ];
    insta::assert_snapshot!(said.join("\n---\n"), @r#"
    get /api/v1/capacity: went
    ---
    get /api/v1/models/{namespace}/{name} 200 .name: went
    ---
    get /api/v1/models: the parameter "q" is required now
    ---
    get /api/v1/models: the parameter "q" went
    "#);
    let mut fewer = names.clone();
    fewer["exit codes"].as_object_mut().unwrap().remove("124");
    fewer["labels and annotations"].as_object_mut().unwrap().remove("stator.dev/hints");
    fewer["metrics"]["stator_sources"] = json!("alpha");
    insta::assert_snapshot!(gone(names, &fewer).join("\n"), @"
    exit codes: 124 went
    metrics: stator_sources was beta and is alpha
    ");
}

/// A field that two releases called deprecated may go; one release is no notice.
#[test]
fn a_field_goes_after_the_notice_of_two_releases() {
    let schema = |text: &str| json!({"properties": {"old": {"description": text, "type": "string"}, "new": {}}});
    let release = |version: &str, text: &str| (version.to_owned(), [("intent.json".to_owned(), schema(text))].into());
    let found =
        |releases: &[ReleaseRecord]| narrowed_since(releases, |_| Some(json!({"properties": {"new": {}}}))).join("; ");
    let (plain, announced) = ("A field.", "Deprecated since 0.2: use `new`.");
    assert_eq!(found(&[release("0.1.0", plain)]), "intent.json: .old: went");
    assert_eq!(found(&[release("0.2.0", announced)]), "intent.json: .old: went, deprecated");
    assert_eq!(found(&[release("0.1.0", plain), release("0.2.0", announced)]), "intent.json: .old: went, deprecated");
    assert_eq!(found(&[release("0.2.0", announced), release("0.3.0", announced)]), "");
}

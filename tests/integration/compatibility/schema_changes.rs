//! What a newer definition refuses, forgets or means otherwise than an older one: of JSON Schema, of the definitions of kinds,
//! and of the description of the HTTP API. What is not known to be harmless is reported.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Who writes a document of a schema, which decides what is a narrower one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// Users: what they wrote must stay allowed.
    User,
    /// stator: what users read must stay there.
    Stator,
}

/// Words that decide nothing.
const TEXTS: [&str; 8] = ["description", "title", "examples", "$schema", "$id", "$comment", "deprecated", "example"];
/// Words for lists of schemas' names, which are followed from where they are used.
const NAMED: [&str; 3] = ["definitions", "$defs", "components"];
/// Words of which only the absence or the same value is known to allow no less.
const LOOSE: [&str; 5] =
    ["nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string", "readOnly", "writeOnly"];

/// Both versions of a definition.
struct Versions<'a> {
    old: &'a Value,
    new: &'a Value,
    writer: Writer,
    /// What was found between two schemas; nothing while they are being compared, as schemas may hold themselves.
    found: BTreeMap<(usize, usize), Vec<String>>,
}

/// What is narrower in the new one of two JSON Schemas, each with its place; nothing, if every document that was allowed is.
pub fn narrowed(old: &Value, new: &Value, writer: Writer) -> Vec<String> {
    Versions { old, new, writer, found: BTreeMap::new() }.compare(old, new, "")
}

fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => resolve(root, root.pointer(reference.trim_start_matches('#')).expect("a schema")),
        None => schema,
    }
}

fn map<'a>(schema: &'a Value, word: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(word).and_then(Value::as_object).into_iter().flatten()
}

fn list<'a>(schema: &'a Value, word: &str) -> &'a [Value] {
    schema.get(word).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The types that a schema allows; `None` for any.
fn types(schema: &Value) -> Option<BTreeSet<&str>> {
    let named = schema.get("type")?;
    let several = named.as_array().map_or(std::slice::from_ref(named), Vec::as_slice);
    let mut all: BTreeSet<&str> = several.iter().map(|one| one.as_str().expect("a type's name")).collect();
    if all.contains("number") {
        all.insert("integer");
    }
    Some(all)
}

/// The values that a schema allows; `None` for others too.
fn values(schema: &Value) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema.get("enum").and_then(Value::as_array)) {
        (Some(one), _) => Some(vec![one]),
        (None, Some(several)) => Some(several.iter().collect()),
        (None, None) => None,
    }
}

/// Whether a field says of itself that it will go.
pub fn is_deprecated(schema: &Value) -> bool {
    schema["deprecated"] == true || schema["description"].as_str().is_some_and(|text| text.starts_with("Deprecated"))
}

impl<'a> Versions<'a> {
    fn compare(&mut self, old: &'a Value, new: &'a Value, place: &str) -> Vec<String> {
        let (old, new) = (resolve(self.old, old), resolve(self.new, new));
        let pair = (std::ptr::from_ref(old).addr(), std::ptr::from_ref(new).addr());
        if let Some(found) = self.found.get(&pair) {
            return found.clone();
        }
        let (Some(before), Some(now)) = (words(old), words(new)) else {
            let allows_more = *old == Value::Bool(false) || *new == Value::Bool(true);
            return if old == new || allows_more { Vec::new() } else { vec![format!("{place}: {old} became {new}")] };
        };
        self.found.insert(pair, Vec::new());
        let mut found = Vec::new();
        let all: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        for word in all {
            let (was, is) = (before.get(word), now.get(word));
            found.extend(self.compare_word(word, was, is, (old, new), place));
        }
        self.found.insert(pair, found.clone());
        found
    }

    fn compare_word(
        &mut self,
        word: &str,
        was: Option<&'a Value>,
        is: Option<&'a Value>,
        (old, new): (&'a Value, &'a Value),
        place: &str,
    ) -> Vec<String> {
        let changed = |what: &str| {
            let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
            vec![format!("{place}: `{word}` {what}: {} became {}", shown(was), shown(is))]
        };
        match word {
            _ if TEXTS.contains(&word) || NAMED.contains(&word) || word.starts_with("x-stator-") => Vec::new(),
            "properties" | "patternProperties" => self.fields(word, old, new, place),
            "required" => {
                let (more, less) = match self.writer {
                    Writer::User => (list(new, word), list(old, word)),
                    Writer::Stator => (list(old, word), list(new, word)),
                };
                let verb = if self.writer == Writer::User { "is required now" } else { "may be missing now" };
                let missing = more.iter().filter(|name| !less.contains(name));
                missing.map(|name| format!("{place}.{}: {verb}", name.as_str().unwrap())).collect()
            }
            "type" => {
                let (wide, narrow) = match self.writer {
                    Writer::User => (types(new), types(old)),
                    Writer::Stator => (types(old), types(new)),
                };
                let fits = wide.is_none_or(|wide| narrow.is_some_and(|narrow| narrow.is_subset(&wide)));
                if fits { Vec::new() } else { changed("changed") }
            }
            "const" | "enum" => match (values(old), values(new)) {
                (Some(before), Some(now)) if self.writer == Writer::User => {
                    let gone = before.iter().filter(|value| !now.contains(value));
                    gone.map(|value| format!("{place}: {value} is no longer allowed")).collect()
                }
                // Readers must expect values that they do not know.
                (Some(_) | None, Some(_)) if self.writer == Writer::Stator => Vec::new(),
                (None, Some(_)) => changed("was added"),
                (_, None) if self.writer == Writer::Stator => changed("went"),
                (_, None | Some(_)) => Vec::new(),
            },
            "maximum" | "maxLength" | "maxItems" | "maxProperties" | "exclusiveMaximum" => match (was, is) {
                (_, None) => Vec::new(),
                (Some(was), Some(is)) if is.as_f64() >= was.as_f64() => Vec::new(),
                (_, Some(_)) if self.writer == Writer::Stator => Vec::new(),
                (_, Some(_)) => changed("tightened"),
            },
            "minimum" | "minLength" | "minItems" | "minProperties" | "exclusiveMinimum" => match (was, is) {
                (_, None) => Vec::new(),
                (Some(was), Some(is)) if is.as_f64() <= was.as_f64() => Vec::new(),
                (_, Some(_)) if self.writer == Writer::Stator => Vec::new(),
                (_, Some(_)) => changed("tightened"),
            },
            "additionalProperties" | "items" => {
                static ANY: Value = Value::Bool(true);
                self.compare(was.unwrap_or(&ANY), is.unwrap_or(&ANY), &format!("{place}[]"))
            }
            // One that was allowed is allowed by another one.
            "oneOf" | "anyOf" => match (was, is) {
                (Some(_), Some(_)) => self.each(list(old, word), list(new, word), place, false),
                (None, Some(_)) => changed("was added"),
                (_, None) => Vec::new(),
            },
            "allOf" => match (was, is) {
                (Some(_), Some(_)) => {
                    let mut found = self.each(list(old, word), list(new, word), place, false);
                    found.extend(self.each(list(new, word), list(old, word), place, true));
                    found
                }
                _ => changed("changed"),
            },
            "x-kubernetes-validations" => {
                let rules: BTreeSet<&str> = list(old, word).iter().filter_map(|rule| rule["rule"].as_str()).collect();
                let now = list(new, word).iter().filter_map(|rule| rule["rule"].as_str());
                now.filter(|rule| !rules.contains(rule))
                    .map(|rule| format!("{place}: the rule `{rule}` is new"))
                    .collect()
            }
            "default" if was.is_none() => Vec::new(),
            _ if was == is => Vec::new(),
            _ if LOOSE.contains(&word) && was.is_none_or(|was| *was == false) => Vec::new(),
            // A restriction that went allows more, whichever it was.
            "pattern" | "format" | "multipleOf" | "not" | "if" | "then" | "else" | "uniqueItems" if is.is_none() => {
                Vec::new()
            }
            _ => changed("changed"),
        }
    }

    fn fields(&mut self, word: &str, old: &'a Value, new: &'a Value, place: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (name, before) in map(old, word) {
            let place = format!("{place}.{name}");
            match new.get(word).and_then(|fields| fields.get(name)) {
                Some(now) => found.extend(self.compare(before, now, &place)),
                None if is_deprecated(resolve(self.old, before)) => found.push(format!("{place}: went, deprecated")),
                None => found.push(format!("{place}: went")),
            }
        }
        found
    }

    /// For each of some schemas there is another one that narrows nothing of it; `turned`: that it narrows nothing of.
    fn each(&mut self, all: &'a [Value], others: &'a [Value], place: &str, turned: bool) -> Vec<String> {
        let mut found = Vec::new();
        for (at, one) in all.iter().enumerate() {
            let mut fewest: Option<Vec<String>> = None;
            // The same place first: where none fits, its faults are the ones to tell.
            for other in others.get(at).into_iter().chain(others) {
                let faults = if turned { self.compare(other, one, place) } else { self.compare(one, other, place) };
                if faults.is_empty() {
                    fewest = Some(faults);
                    break;
                }
                fewest.get_or_insert(faults);
            }
            found.extend(fewest.unwrap_or_else(|| vec![format!("{place}: a form of it went")]));
        }
        found.sort();
        found.dedup();
        found
    }
}

/// A schema's words: those of `true` are none.
fn words(schema: &Value) -> Option<&Map<String, Value>> {
    static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    if *schema == Value::Bool(true) { Some(&NOTHING) } else { schema.as_object() }
}

/// What is narrower in the definition of a kind.
pub fn narrowed_kind(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for path in ["/spec/group", "/spec/scope", "/spec/names/kind", "/spec/names/plural", "/spec/names/singular"] {
        if old.pointer(path) != new.pointer(path) {
            found.push(format!("{path}: changed"));
        }
    }
    for path in ["shortNames", "categories"] {
        let now = list(&new["spec"]["names"], path);
        let gone = list(&old["spec"]["names"], path).iter().filter(|name| !now.contains(name));
        found.extend(gone.map(|name| format!("spec.names.{path}: {name} went")));
    }
    for version in list(&old["spec"], "versions") {
        let name = version["name"].as_str().unwrap();
        let now = list(&new["spec"], "versions").iter().find(|now| now["name"] == version["name"]);
        let Some(now) = now.filter(|now| now["served"] == version["served"]) else {
            found.push(format!("version {name}: is no longer served"));
            continue;
        };
        for (sub, _) in map(version, "subresources") {
            if now["subresources"].get(sub).is_none() {
                found.push(format!("version {name}: the subresource {sub} went"));
            }
        }
        let schema = |version: &'_ Value| version["schema"]["openAPIV3Schema"].clone();
        found.extend(narrowed(&schema(version), &schema(now), Writer::User));
    }
    found
}

/// What is narrower in the description of the HTTP API.
pub fn narrowed_api(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let compare = |before: &Value, now: &Value, writer: Writer, place: &str| {
        Versions { old, new, writer, found: BTreeMap::new() }.compare(&before["schema"], &now["schema"], place)
    };
    let body = |before: &Value, now: &Value, writer: Writer, place: &str| -> Vec<String> {
        let each = |(media, before)| match now["content"].get(media) {
            Some(now) => compare(before, now, writer, &format!("{place} ")),
            None => vec![format!("{place}: {media} went")],
        };
        map(before, "content").flat_map(each).collect()
    };
    for (path, verbs) in map(old, "paths") {
        for (verb, before) in verbs.as_object().unwrap() {
            let place = format!("{verb} {path}");
            let Some(now) = new["paths"].get(path).and_then(|verbs| verbs.get(verb)) else {
                found.push(format!("{place}: went"));
                continue;
            };
            for one in list(before, "parameters") {
                match parameter_like(now, one) {
                    None => found.push(format!("{place}: the parameter {} went", one["name"])),
                    Some(other) => {
                        found.extend(compare(one, other, Writer::User, &format!("{place} {}", one["name"])));
                    }
                }
            }
            for one in list(now, "parameters").iter().filter(|one| one["required"] == true) {
                if parameter_like(before, one).is_none_or(|before| before["required"] != true) {
                    found.push(format!("{place}: the parameter {} is required now", one["name"]));
                }
            }
            found.extend(body(&before["requestBody"], &now["requestBody"], Writer::User, &place));
            for (code, answer) in map(before, "responses").filter(|(code, _)| code.starts_with('2')) {
                match now["responses"].get(code) {
                    Some(now) => found.extend(body(answer, now, Writer::Stator, &format!("{place} {code}"))),
                    None => found.push(format!("{place}: the answer {code} went")),
                }
            }
        }
    }
    found
}

/// The parameter of an operation that is another one's.
fn parameter_like<'a>(operation: &'a Value, like: &Value) -> Option<&'a Value> {
    list(operation, "parameters").iter().find(|one| one["in"] == like["in"] && one["name"] == like["name"])
}

//! The value that was most likely meant by one of the wrong form: `200G` or `200Gi` by `200GB`, `300ms` by `300`.

use super::describe::{describe_shape, describe_value};
use crate::intent::scalar::{CountOrPercent, Hostname, ImageReference, Millis, Quantity, RuntimeVersion};
use crate::intent::schema_tree::{SchemaShape, SchemaTree, ShapeId, TextShape};
use crate::intent::yaml::{YamlNode, YamlValue};
use regex::Regex;
use std::str::FromStr as _;

/// The longest text that is worth a guess, in bytes: what is longer is no slip of the pen.
const MAX_GUESSED: usize = 128;

/// A value that fits, and what is to be said of it.
struct NearValue {
    text: String,
    note: &'static str,
}

impl NearValue {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), note: "" }
    }
}

/// The fix for a text of the wrong form.
pub(super) fn text_help(shape: &TextShape, text: &str) -> String {
    let near = match &shape.pattern {
        Some(pattern) => near_values(pattern, shape.max, text),
        None => Vec::new(),
    };
    if !near.is_empty() {
        let listed: Vec<String> = near.iter().map(|value| format!("`{}`{}", value.text, value.note)).collect();
        return format!("Use {}.", listed.join(" or "));
    }
    let is_image = shape.pattern.as_ref().is_some_and(|pattern| pattern.as_str() == ImageReference::PATTERN);
    let tagged = format!("{}:1.2.0", text.trim());
    if is_image && text.len() < MAX_GUESSED && ImageReference::from_str(&tagged).is_ok() {
        return format!("Add its tag or digest, such as `{tagged}`.");
    }
    match (&shape.example, &shape.expected) {
        (Some(example), _) => format!("Write it like `{example}`."),
        (None, Some(expected)) => format!("Write {expected}."),
        (None, None) => "Write text of this form.".to_owned(),
    }
}

/// The fix for a value of the wrong type.
pub(super) fn type_help<P>(shapes: &SchemaTree, id: ShapeId, node: &YamlNode<P>) -> String {
    let written = || match &node.value {
        YamlValue::Bool(flag) => flag.to_string(),
        YamlValue::Number(number) => number.to_string(),
        YamlValue::Text(text) => text.to_string(),
        YamlValue::Invalid | YamlValue::List(_) | YamlValue::Map(_) => String::new(),
    };
    match (shapes.get(id), &node.value) {
        (SchemaShape::Text(shape), YamlValue::Bool(_) | YamlValue::Number(_)) => {
            let text = written();
            let fits = shape.pattern.as_ref().is_none_or(|pattern| pattern.is_match(&text));
            if fits { "Put the value in quotes.".to_owned() } else { text_help(shape, &text) }
        }
        (SchemaShape::Integer { .. } | SchemaShape::Number { .. }, YamlValue::Text(text))
            if text.trim().parse::<f64>().is_ok() =>
        {
            "Remove the quotes.".to_owned()
        }
        (SchemaShape::Integer { min, max }, YamlValue::Text(text)) => {
            let whole: Vec<String> = near_quantities(text)
                .iter()
                .filter_map(|near| stator_core::object::Quantity::parse(&near.text)?.to_integer())
                .filter(|number| (*min..=*max).contains(&i128::from(*number)))
                .map(|number| format!("`{number}`"))
                .collect();
            if whole.is_empty() {
                format!("Write {}.", describe_shape(shapes, id))
            } else {
                format!("Use {}.", whole.join(" or "))
            }
        }
        (SchemaShape::Integer { min, max }, YamlValue::Number(number)) => {
            // A fraction: the whole numbers on both sides of it.
            let value = number.as_f64().unwrap_or_default();
            #[expect(clippy::cast_possible_truncation, reason = "what is out of range is left out")]
            let sides = [value.floor() as i128, value.ceil() as i128];
            let mut near: Vec<String> =
                sides.iter().filter(|side| (min..=max).contains(side)).map(|side| format!("`{side}`")).collect();
            near.dedup();
            if near.is_empty() {
                format!("Write {}.", describe_shape(shapes, id))
            } else {
                format!("Use {}.", near.join(" or "))
            }
        }
        (SchemaShape::Bool, YamlValue::Text(_)) => {
            "Write `true` or `false`; YAML 1.2 reads `yes`, `no`, `on`, `off` as strings.".to_owned()
        }
        (SchemaShape::List(_), _) => "Write a list: `[…]`, or one item per line after `- `.".to_owned(),
        (SchemaShape::Map(_), _) => "Write a map: `{name: value}`, or one field per line, indented.".to_owned(),
        (SchemaShape::Text(TextShape { example: Some(example), .. }), _) => {
            format!("Write one value instead of {}, such as `{example}`.", describe_value(node))
        }
        (_, YamlValue::List(_) | YamlValue::Map(_)) => {
            format!("Write {} instead of {}.", describe_shape(shapes, id), describe_value(node))
        }
        (_, _) => format!("Write {}.", describe_shape(shapes, id)),
    }
}

/// The fix for a key of the wrong form.
pub(super) fn rename_help(pattern: &Regex, key: &str) -> String {
    match near_values(pattern, MAX_GUESSED, key).first() {
        Some(near) => format!("Rename it, for example to `{}`.", near.text),
        None => "Rename it.".to_owned(),
    }
}

/// Values near a text that fit a pattern, most likely first. Each is held against the pattern, so that no advice is
/// wrong.
fn near_values(pattern: &Regex, max: usize, text: &str) -> Vec<NearValue> {
    if text.len() > MAX_GUESSED {
        return Vec::new();
    }
    let mut near = match pattern.as_str() {
        Quantity::PATTERN => near_quantities(text),
        Millis::PATTERN => near_durations(text),
        RuntimeVersion::PATTERN => near_versions(text),
        CountOrPercent::PATTERN => near_shares(text),
        Hostname::PATTERN => near_hosts(text),
        _ => near_names(text),
    };
    near.retain(|value| value.text != text && pattern.is_match(&value.text) && value.text.chars().count() <= max);
    near.truncate(if near.iter().all(|value| value.note.is_empty()) { 1 } else { 2 });
    near
}

/// Hosts: the one of an address, without its port, in lower case.
fn near_hosts(text: &str) -> Vec<NearValue> {
    let host = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = host.split(['/', ':']).next().unwrap_or_default();
    vec![NearValue::plain(host.to_lowercase())]
}

/// A text without spaces and `_`, as a number and what follows it. `None` where it does not begin with a number.
fn split_number(text: &str) -> Option<(String, String)> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace() && *c != '_').collect();
    let end = compact.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(compact.len());
    let (number, unit) = compact.split_at_checked(end)?;
    number.parse::<f64>().ok()?;
    Some((number.to_owned(), unit.to_lowercase()))
}

/// Quantities: units with `B`, in words or in the wrong case.
fn near_quantities(text: &str) -> Vec<NearValue> {
    let Some((number, unit)) = split_number(text) else { return Vec::new() };
    let bare = ["bytes", "byte", "b"].into_iter().find_map(|end| unit.strip_suffix(end)).unwrap_or(&unit);
    let mut letters = bare.chars();
    match (letters.next(), letters.as_str()) {
        (None, _) => vec![NearValue::plain(number)],
        (Some(letter), "" | "i") if "kmgtpe".contains(letter) => {
            let upper = letter.to_ascii_uppercase();
            let decimal = if letter == 'k' { letter } else { upper };
            let binary = NearValue { text: format!("{number}{upper}i"), note: " (binary)" };
            if letters.as_str() == "i" {
                return vec![NearValue { note: "", ..binary }];
            }
            vec![NearValue { text: format!("{number}{decimal}"), note: " (decimal)" }, binary]
        }
        // What Kubernetes counts processors in has no unit.
        (Some(_), _) if ["cpu", "cpus", "vcpu", "vcpus", "core", "cores"].contains(&bare) => {
            vec![NearValue::plain(number)]
        }
        (Some(_), _) => Vec::new(),
    }
}

/// Durations: without a unit, or with one in words.
fn near_durations(text: &str) -> Vec<NearValue> {
    let Some((number, unit)) = split_number(text) else { return Vec::new() };
    // A second and less is written in milliseconds by most, and a fraction is one of seconds.
    let units: &[&str] = match unit.as_str() {
        "" if number.contains('.') => &["s"],
        "" => &["ms"],
        unit if unit.starts_with("ms") || unit.starts_with("milli") => &["ms"],
        unit if unit.starts_with('s') => &["s"],
        unit if unit.starts_with("min") => &["m"],
        _ => &[],
    };
    let near = units.iter().map(|unit| format!("{number}{unit}")).filter(|text| text.parse::<Millis>().is_ok());
    near.map(NearValue::plain).collect()
}

/// Versions: with `v`, or of fewer than three parts.
fn near_versions(text: &str) -> Vec<NearValue> {
    let bare = text.trim().trim_start_matches(['v', 'V']);
    let missing = 2_usize.saturating_sub(bare.matches('.').count());
    vec![NearValue::plain(format!("{bare}{}", ".0".repeat(missing)))]
}

/// Shares: with spaces, or above all of it.
fn near_shares(text: &str) -> Vec<NearValue> {
    match split_number(text) {
        Some((number, unit)) if unit == "%" && number.parse::<f64>().is_ok_and(|share| share > 100.0) => {
            vec![NearValue::plain("100%")]
        }
        Some((number, _)) => vec![NearValue::plain(format!("{number}%"))],
        None => Vec::new(),
    }
}

/// Names and paths: in the wrong case, with letters that are not allowed, without the `/` that they begin with.
fn near_names(text: &str) -> Vec<NearValue> {
    let text = text.trim();
    let fitting = text.chars().filter(char::is_ascii_alphanumeric).count();
    if fitting * 2 <= text.chars().count() {
        // What is half or more of other letters, `$(id)`, is no name that went wrong.
        return Vec::new();
    }
    let replace = |text: &str, allowed: &str, by: char| -> String {
        let replaced = text.chars().map(|c| if c.is_ascii_alphanumeric() || allowed.contains(c) { c } else { by });
        replaced.collect::<String>().trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
    };
    let lower = text.to_lowercase();
    let candidates = [
        replace(text, "-._", '-'),
        replace(&lower, "-.", '-'),
        replace(&lower, "-", '-'),
        replace(text, "_", '_'),
        format!("_{}", replace(text, "_", '_')),
        format!("/{text}"),
    ];
    candidates.into_iter().map(NearValue::plain).collect()
}

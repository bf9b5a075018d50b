//! Label selectors as kubectl takes them (Kubernetes, "Labels and selectors"): `team=search,tier!=dev,zone in (a,b),!canary`.

use kube::core::{Expression, Selector, SelectorExt as _};
use stator_model::intent::scalar::LabelValue;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Requirements that all must hold of a model's labels.
#[derive(Clone, Debug)]
pub struct LabelSelector {
    text: String,
    selector: Selector,
}

impl LabelSelector {
    /// Whether labels fulfil every requirement.
    pub fn matches(&self, labels: &BTreeMap<String, LabelValue>) -> bool {
        let labels = labels.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
        self.selector.matches(&labels)
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl FromStr for LabelSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let requirements: Result<Vec<Expression>, String> =
            split_requirements(text)?.into_iter().map(parse_requirement).collect();
        Ok(Self { text: text.to_owned(), selector: Selector::from_iter(requirements?) })
    }
}

const FORMS: &str =
    "use `key=value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key` or `!key`, separated by commas";

/// The requirements of a selector: its parts between commas that are in no parentheses.
fn split_requirements(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        match character {
            '(' if !is_inside => is_inside = true,
            ')' if is_inside => is_inside = false,
            '(' | ')' => return Err(format!("`{character}` is unmatched; {FORMS}")),
            ',' if !is_inside => {
                parts.push(text.get(start..at).unwrap_or_default().trim());
                start = at.saturating_add(1);
            }
            _ => {}
        }
    }
    if is_inside {
        return Err(format!("`(` is unmatched; {FORMS}"));
    }
    parts.push(text.get(start..).unwrap_or_default().trim());
    match parts.iter().any(|part| part.is_empty()) {
        true => Err(format!("a requirement is empty; {FORMS}")),
        false => Ok(parts),
    }
}

fn parse_requirement(text: &str) -> Result<Expression, String> {
    if let Some((left, set)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let values =
            set.split(',').map(|value| parse_value(value.trim())).collect::<Result<BTreeSet<String>, String>>()?;
        return match left.split_whitespace().collect::<Vec<&str>>().as_slice() {
            [key, "in"] => Ok(Expression::In(parse_key(key)?, values)),
            [key, "notin"] => Ok(Expression::NotIn(parse_key(key)?, values)),
            _ => Err(format!("`{text}` is not a requirement; {FORMS}")),
        };
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Ok(Expression::NotEqual(parse_key(key.trim())?, parse_value(value.trim())?));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Expression::Equal(parse_key(key.trim())?, parse_value(value.trim())?));
    }
    match text.strip_prefix('!') {
        Some(key) => Ok(Expression::DoesNotExist(parse_key(key.trim())?)),
        None => Ok(Expression::Exists(parse_key(text)?)),
    }
}

fn parse_key(text: &str) -> Result<String, String> {
    let is_part = |part: &str| {
        let is_end = |end: Option<char>| end.is_some_and(|character| character.is_ascii_alphanumeric());
        is_end(part.chars().next())
            && is_end(part.chars().next_back())
            && part.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.'))
    };
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    if is_part(name) && name.len() <= 63 && prefix.is_none_or(|prefix| is_part(prefix) && prefix.len() <= 253) {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is not the key of a label; {FORMS}"))
}

fn parse_value(text: &str) -> Result<String, String> {
    text.parse::<LabelValue>()
        .map(|value| value.to_string())
        .map_err(|_| format!("`{text}` is not the value of a label; {FORMS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), value.parse().unwrap())).collect();
        selector.parse::<LabelSelector>().unwrap().matches(&labels)
    }

    #[test]
    fn selectors_mean_what_they_mean_to_kubectl() {
        let labels = [("team", "search"), ("example.com/tier", "dev"), ("empty", "")];
        for (selector, expected) in [
            ("team=search", true),
            ("team==search", true),
            ("team = search , example.com/tier=dev", true),
            ("team=search,example.com/tier=prod", false),
            ("team!=ads", true),
            ("zone!=a", true),
            ("team in (ads, search)", true),
            ("team in (ads)", false),
            ("team notin (ads,search)", false),
            ("zone notin (a)", true),
            ("team", true),
            ("zone", false),
            ("!zone", true),
            ("! team", false),
            ("empty=", true),
            ("team=,!zone", false),
            ("team in (ads,search),!zone,empty", true),
        ] {
            assert_eq!(selects(selector, &labels), expected, "{selector}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused_with_the_forms_that_are() {
        for bad in [
            "",
            ",",
            "a,,b",
            "a=b,",
            "a in b",
            "a in (b",
            "a b",
            "a in (b))",
            "-a=b",
            "a=b c",
            "a in ((b))",
            "=b",
            "!",
            "a>1",
            "a/b/c",
            "in (a)",
        ] {
            let error = bad.parse::<LabelSelector>().unwrap_err();
            assert!(error.ends_with(FORMS), "{bad}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_stops_it(text in "[-a-z0-9=!(), /.]{0,40}|.{0,20}") {
            let _ = text.parse::<LabelSelector>();
        }
    }
}

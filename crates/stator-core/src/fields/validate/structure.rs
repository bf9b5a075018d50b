//! The structural schema: types, lengths, ranges, patterns, required fields. Messages are those of apiextensions.

use super::{ValidationIssue, ViolationKind};
use crate::fields::schema::{JsonType, ListType, SchemaNode, ValueValidation};
use crate::fields::type_ref::{TypeRef, values_equal};
use crate::object::{FieldPath, PathSegment};
use serde_json::{Number, Value};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Judges a value and everything in it.
pub(super) fn check(node: &SchemaNode, value: &Value, path: &mut Vec<PathSegment>, faults: &mut Vec<ValidationIssue>) {
    if value.is_null() && node.nullable {
        return;
    }
    if let Some(expected) = wrong_type(node, value) {
        let found = type_of(value);
        let found = format!("\"{found}\"");
        let reason = format!("must be of type {expected}: {found}");
        faults.push(ValidationIssue::invalid_in_body(path, &found, &reason).into_blocking());
        return;
    }
    if let Some(limits) = node.limits.as_deref() {
        check_limits(limits, value, path, faults);
    }
    node.for_each_child(value, path, |node, value, path| check(node, value, path, faults));
    if let Value::Array(items) = value {
        check_duplicates(node, items, path, faults);
    }
}

fn check_duplicates(node: &SchemaNode, items: &[Value], path: &[PathSegment], faults: &mut Vec<ValidationIssue>) {
    if node.list_type == ListType::Atomic {
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let Ok(identity) = TypeRef::Declared(node).identify(item) else { continue };
        let shown = match &identity {
            PathSegment::Key(keys) => {
                Value::Object(keys.iter().map(|(name, value)| (name.clone(), value.value())).collect())
            }
            PathSegment::Item(value) => value.value(),
            PathSegment::Field(_) | PathSegment::Index(_) => Value::Null,
        };
        if !seen.insert(identity) {
            let at = FieldPath(path.to_vec()).join(PathSegment::Index(index));
            faults.push(ValidationIssue::new(&at.0, format!("Duplicate value: {shown}")));
        }
    }
}

/// The type that was asked for, when the value has another.
fn wrong_type(node: &SchemaNode, value: &Value) -> Option<&'static str> {
    let fits = match node.kind {
        JsonType::Any if node.int_or_string => value.is_string() || is_integer(value),
        JsonType::Any => true,
        JsonType::Object => value.is_object(),
        JsonType::Array => value.is_array(),
        JsonType::String => value.is_string(),
        JsonType::Integer => is_integer(value),
        JsonType::Number => value.is_number(),
        JsonType::Boolean => value.is_boolean(),
    };
    let expected = if node.int_or_string { "integer,string" } else { node.kind.as_str() };
    (!fits).then_some(expected)
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|float| float.is_finite() && float.fract() == 0.0)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check_limits(
    limits: &ValueValidation,
    value: &Value,
    path: &mut Vec<PathSegment>,
    faults: &mut Vec<ValidationIssue>,
) {
    let invalid = |reason: String| ValidationIssue::invalid_in_body(path, &value.to_string(), &reason);
    match value {
        Value::String(text) => {
            let chars = text.chars().count() as u64;
            if let Some(max) = limits.max_length.filter(|max| chars > *max) {
                faults.push(
                    ValidationIssue::new(path, format!("Too long: may not be more than {max} bytes")).into_blocking(),
                );
            }
            if let Some(min) = limits.min_length.filter(|min| chars < *min) {
                let issue = invalid(format!("should be at least {min} chars long"));
                faults.push(if text.is_empty() { issue.of_kind(ViolationKind::MissingValue) } else { issue });
            }
            if let Some(pattern) = &limits.pattern
                && pattern.regex().is_some_and(|regex| !regex.is_match(text))
            {
                faults.push(invalid(format!("should match '{}'", pattern.text)));
            }
            if limits.format.as_deref() == Some("date-time") && !is_date_time(text) {
                faults.push(invalid(format!("must be of type date-time: {value}")).into_blocking());
            }
        }
        Value::Number(number) => check_number(limits, number, &invalid, faults),
        Value::Array(items) => {
            let count = items.len() as u64;
            if let Some(max) = limits.max_items.filter(|max| count > *max) {
                faults.push(
                    ValidationIssue::new(path, format!("Too many: {count}: must have at most {max} items"))
                        .into_blocking(),
                );
            }
            if let Some(min) = limits.min_items.filter(|min| count < *min) {
                faults.push(invalid(format!("should have at least {min} items")));
            }
            let twice =
                |(index, item): (usize, &Value)| items.iter().take(index).any(|other| values_equal(other, item));
            if limits.unique_items && items.iter().enumerate().any(twice) {
                faults.push(invalid("shouldn't contain duplicates".to_owned()));
            }
        }
        Value::Object(map) => {
            let count = map.len() as u64;
            if let Some(max) = limits.max_properties.filter(|max| count > *max) {
                faults.push(
                    ValidationIssue::new(path, format!("Too many: {count}: must have at most {max} items"))
                        .into_blocking(),
                );
            }
            if let Some(min) = limits.min_properties.filter(|min| count < *min) {
                faults.push(invalid(format!("should have at least {min} properties")));
            }
            for name in limits.required.iter().filter(|name| !map.contains_key(*name)) {
                let judged = FieldPath(path.clone());
                let mut fault = ValidationIssue::new(&judged.field(name).0, "Required value".to_owned())
                    .of_kind(ViolationKind::MissingValue)
                    .into_blocking();
                fault.checked_path = judged;
                faults.push(fault);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
    if !limits.one_of_values.is_empty() && !limits.one_of_values.iter().any(|allowed| values_equal(allowed, value)) {
        let allowed: Vec<String> = limits
            .one_of_values
            .iter()
            .map(|allowed| if allowed.is_string() { allowed.to_string() } else { format!("\"{allowed}\"") })
            .collect();
        let message = format!("Unsupported value: {value}: supported values: {}", allowed.join(", "));
        faults.push(ValidationIssue::new(path, message).of_kind(ViolationKind::UnsupportedValue).into_blocking());
    }
    check_combinations(limits, value, path, faults);
}

fn check_number(
    limits: &ValueValidation,
    number: &Number,
    invalid: &dyn Fn(String) -> ValidationIssue,
    faults: &mut Vec<ValidationIssue>,
) {
    let wide = |max: i64| number.as_i64().is_none_or(|value| value > max || value < -max - 1) && !number.is_f64();
    let format = limits.format.as_deref();
    if (format == Some("int32") && wide(i64::from(i32::MAX))) || (format == Some("int64") && wide(i64::MAX)) {
        let format = format.unwrap_or_default();
        faults.push(invalid(format!("must be of type integer with format {format}")));
    }
    if let Some(minimum) = &limits.minimum {
        let order = compare(number, minimum);
        if limits.exclusive_minimum && order != Some(Ordering::Greater) {
            faults.push(invalid(format!("should be greater than {minimum}")));
        } else if order == Some(Ordering::Less) {
            faults.push(invalid(format!("should be greater than or equal to {minimum}")));
        }
    }
    if let Some(maximum) = &limits.maximum {
        let order = compare(number, maximum);
        if limits.exclusive_maximum && order != Some(Ordering::Less) {
            faults.push(invalid(format!("should be less than {maximum}")));
        } else if order == Some(Ordering::Greater) {
            faults.push(invalid(format!("should be less than or equal to {maximum}")));
        }
    }
    if let (Some(factor), Some(value)) = (limits.multiple_of, number.as_f64())
        && (value / factor).fract() != 0.0
    {
        faults.push(invalid(format!("should be a multiple of {factor}")));
    }
}

fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn check_combinations(
    limits: &ValueValidation,
    value: &Value,
    path: &mut Vec<PathSegment>,
    faults: &mut Vec<ValidationIssue>,
) {
    for part in &limits.all_of {
        check(part, value, path, faults);
    }
    let mut passes = |node: &SchemaNode| {
        let mut found = Vec::new();
        check(node, value, path, &mut found);
        found.is_empty()
    };
    let any = limits.any_of.is_empty() || limits.any_of.iter().any(&mut passes);
    let one = limits.one_of.is_empty() || limits.one_of.iter().filter(|node| passes(node)).count() == 1;
    let not = limits.not.as_ref().is_some_and(&mut passes);
    let name = FieldPath(path.clone());
    if !any {
        let reason = format!("\"{name}\" must validate at least one schema (anyOf)");
        faults.push(ValidationIssue::invalid(path, value, &reason));
    }
    if !one {
        let reason = format!("\"{name}\" must validate one and only one schema (oneOf)");
        faults.push(ValidationIssue::invalid(path, value, &reason));
    }
    if not {
        let reason = format!("\"{name}\" must not validate the schema (not)");
        faults.push(ValidationIssue::invalid(path, value, &reason));
    }
}

/// True for a time as RFC 3339 writes it.
fn is_date_time(text: &str) -> bool {
    text.len() >= "2006-01-02T15:04:05Z".len()
        && matches!(text.as_bytes().get(10), Some(b'T' | b't'))
        && text.parse::<jiff::Timestamp>().is_ok()
}

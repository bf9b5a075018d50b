//! Plain scalars by the core schema of YAML 1.2 (specification 1.2.2, section 10.3.2).

use super::YamlValue;
use serde_json::Number;

/// What a plain scalar means.
pub(super) enum PlainScalar {
    /// A value. The flag says that it is a number with a leading zero, which older YAML reads as octal.
    Value(YamlValue, LeadingZero),
    /// `null`, `~` or nothing at all.
    Null,
    /// A number that JSON cannot hold: infinite, not a number, or an integer beyond 64 bits.
    Unrepresentable,
}

/// Whether a decimal integer starts with a superfluous zero (`0644`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LeadingZero {
    /// It does: YAML 1.1, and so kubectl, reads it as octal.
    Yes,
    /// It does not.
    No,
}

/// Reads a plain scalar.
pub(super) fn parse_plain_scalar(text: &str) -> PlainScalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return PlainScalar::Null,
        "true" | "True" | "TRUE" => return PlainScalar::Value(YamlValue::Bool(true), LeadingZero::No),
        "false" | "False" | "FALSE" => return PlainScalar::Value(YamlValue::Bool(false), LeadingZero::No),
        _ => {}
    }
    // Most scalars are words: one look at the first byte spares them the rest.
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return PlainScalar::Value(YamlValue::Text(text.into()), LeadingZero::No);
    }
    match parse_number(text) {
        Some(Some(number)) => {
            let digits = text.trim_start_matches(['+', '-']);
            let zero = digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
            PlainScalar::Value(YamlValue::Number(number), if zero { LeadingZero::Yes } else { LeadingZero::No })
        }
        Some(None) => PlainScalar::Unrepresentable,
        None => PlainScalar::Value(YamlValue::Text(text.into()), LeadingZero::No),
    }
}

/// `None`: not a number at all. `Some(None)`: a number that JSON cannot hold.
fn parse_number(text: &str) -> Option<Option<Number>> {
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let all = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
            return all.then(|| u64::from_str_radix(digits, radix).ok().map(Number::from));
        }
    }
    let (sign, rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if matches!(rest, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(None);
    }
    if !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()) {
        return Some(if sign {
            text.parse::<i64>().ok().map(Number::from)
        } else {
            rest.parse::<u64>().ok().map(Number::from)
        });
    }
    is_float(rest).then(|| text.parse::<f64>().ok().and_then(Number::from_f64))
}

/// `(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let mantissa_fits = match mantissa.split_once('.') {
        Some((whole, fraction)) => (!whole.is_empty() || !fraction.is_empty()) && digits(whole) && digits(fraction),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    exponent_fits && mantissa_fits
}

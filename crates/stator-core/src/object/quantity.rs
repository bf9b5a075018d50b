//! Kubernetes quantities: `500m`, `1.5Gi`, `2`, `1e3`.

use serde_json::Value;
use std::fmt;

/// A quantity in billionths: exact for everything from `1n` to beyond `1E`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

/// Billionths in one.
const NANOS_PER_UNIT: i128 = 1_000_000_000;

impl Quantity {
    /// Reads `500m`, `1.5Gi`, `2`, `1e3`. What is finer than a billionth is rounded up, as Kubernetes does. `None` for
    /// anything else, and for what has more digits than can be counted.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, text.get(1..)?),
            b'+' => (false, text.get(1..)?),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at_checked(end)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let places = u32::try_from(fraction.len()).ok()?;
        let (times, tenths) = suffix_multiplier(suffix)?;
        // digits × times × 10^tenths × 10^9 / 10^places
        let shift = tenths.checked_add(9)?.checked_sub(i32::try_from(places).ok()?)?;
        let scaled = digits.checked_mul(times)?;
        let ten = |power: i32| 10_i128.checked_pow(power.unsigned_abs());
        let nanos = if shift >= 0 {
            scaled.checked_mul(ten(shift)?)?
        } else {
            let divisor = ten(shift).unwrap_or(i128::MAX);
            scaled.checked_add(divisor.checked_sub(1)?)?.checked_div(divisor)?
        };
        Some(Self(if negative { nanos.checked_neg()? } else { nanos }))
    }

    /// The quantity that a field holds, written as text or as a number.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The one way in which an API server writes a quantity that it understands: no fraction, and the largest suffix of
    /// the same family (`1024Mi` is `1Gi`, `1.5Gi` is `1536Mi`, `0.5` is `500m`). `None` for what is no quantity.
    pub fn canonical(text: &str) -> Option<String> {
        let value = Self::parse(text)?;
        let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-'));
        let binary = suffix.ends_with('i')
            && value.0 % NANOS_PER_UNIT == 0
            && value.0.unsigned_abs() >= 1024 * NANOS_PER_UNIT.unsigned_abs();
        if binary {
            let mut whole = value.0 / NANOS_PER_UNIT;
            let mut chosen = "";
            for suffix in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
                if whole % 1024 != 0 || whole == 0 {
                    break;
                }
                (whole, chosen) = (whole / 1024, suffix);
            }
            return Some(format!("{whole}{chosen}"));
        }
        let (mut amount, mut power) = (value.0, -9_i32);
        while amount % 1000 == 0 && amount != 0 && power < 18 {
            (amount, power) = (amount / 1000, power + 3);
        }
        if amount == 0 {
            return Some("0".to_owned());
        }
        let exponent = suffix.starts_with(['e', 'E']) && suffix.len() > 1;
        let names = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        let name = names.get(usize::try_from((power + 9) / 3).ok()?)?;
        Some(match (exponent, power) {
            (true, 0) | (false, _) => format!("{amount}{name}"),
            (true, power) => format!("{amount}e{power}"),
        })
    }

    /// Both together, or the most that can be counted.
    #[must_use]
    pub fn saturating_add(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }

    /// The quantity as a whole number, when it is one.
    pub fn to_integer(self) -> Option<i64> {
        (self.0 % NANOS_PER_UNIT == 0).then(|| i64::try_from(self.0 / NANOS_PER_UNIT).ok()).flatten()
    }
}

impl fmt::Display for Quantity {
    /// In units of 1000: the same text for the same amount, however it was spelled.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        if self.0 == 0 {
            return f.write_str("0");
        }
        let (mut mantissa, mut step) = (self.0, 0);
        while mantissa % 1000 == 0 && step + 1 < SUFFIXES.len() {
            mantissa /= 1000;
            step += 1;
        }
        write!(f, "{mantissa}{}", SUFFIXES.get(step).copied().unwrap_or_default())
    }
}

/// What a suffix multiplies by: a factor, and a power of ten.
fn suffix_multiplier(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => {
            let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (1, power)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_compare_by_what_they_amount_to() {
        let parse = |text| Quantity::parse(text).unwrap_or_else(|| panic!("{text} is a quantity"));
        for (a, b) in [("1Gi", "1024Mi"), ("1", "1000m"), ("1e3", "1k"), ("0.5", "500m"), ("-0", "0"), (".5", "0.5")] {
            assert_eq!(parse(a), parse(b), "{a} is {b}");
        }
        assert!(parse("1Gi") > parse("1G"));
        assert!(parse("-1Gi") < parse("0"));
        assert_eq!(parse("2k").to_integer(), Some(2000));
        assert_eq!(parse("500m").to_integer(), None);
    }

    #[test]
    fn a_quantity_is_shown_in_one_way() {
        for (text, shown) in [
            ("1000m", "1"),
            ("1Ki", "1024"),
            ("0.5", "500m"),
            ("0Gi", "0"),
            ("1e3", "1k"),
            ("-1G", "-1G"),
            ("1n", "1n"),
        ] {
            assert_eq!(Quantity::parse(text).map(|quantity| quantity.to_string()).as_deref(), Some(shown), "{text}");
        }
    }

    #[test]
    fn quantities_are_written_in_one_way() {
        let cases = [
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("500Gi", "500Gi"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1073741824", "1073741824"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("100e1", "1e3"),
            ("0Gi", "0"),
            ("512", "512"),
            ("0.5Ki", "512"),
            ("1500k", "1500k"),
            ("-1Gi", "-1Gi"),
        ];
        for (text, written) in cases {
            assert_eq!(Quantity::canonical(text).as_deref(), Some(written), "{text}");
        }
        assert_eq!(Quantity::canonical("much"), None);
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "-", ".", "1Gb", "Gi", "1.2.3", "1e", "1e999999999999", "9".repeat(60).as_str(), "1 Gi", "é"]
        {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }
}

//! Kubernetes quantities: `500m`, `1.5Gi`, `2`, `1e3`.

use std::fmt;

/// A quantity in billionths: exact for everything from `1n` to beyond `1E`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

/// Billionths in one.
const UNIT: i128 = 1_000_000_000;

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
        let (times, tenths) = factor(suffix)?;
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

    /// The quantity as a whole number, when it is one.
    pub fn whole(self) -> Option<i64> {
        (self.0 % UNIT == 0).then(|| i64::try_from(self.0 / UNIT).ok()).flatten()
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
fn factor(suffix: &str) -> Option<(i128, i32)> {
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
        assert_eq!(parse("2k").whole(), Some(2000));
        assert_eq!(parse("500m").whole(), None);
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
    fn what_is_no_quantity_is_refused() {
        for text in ["", "-", ".", "1Gb", "Gi", "1.2.3", "1e", "1e999999999999", "9".repeat(60).as_str(), "1 Gi", "é"]
        {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }
}

//! Kubernetes quantities and times, as far as validation needs them.

/// A quantity in billionths: exact for everything from `1n` to beyond `1E`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity(i128);

/// Billionths in one.
const UNIT: i128 = 1_000_000_000;

impl Quantity {
    /// Reads `500m`, `1.5Gi`, `2`, `1e3`. What is finer than a billionth is rounded up, as Kubernetes does. `None` for
    /// anything else, and for what has more digits than can be counted.
    pub(super) fn parse(text: &str) -> Option<Self> {
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
    pub(super) fn whole(self) -> Option<i64> {
        (self.0 % UNIT == 0).then(|| i64::try_from(self.0 / UNIT).ok()).flatten()
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

/// True for a time as RFC 3339 writes it.
pub(super) fn is_date_time(text: &str) -> bool {
    text.len() >= "2006-01-02T15:04:05Z".len()
        && matches!(text.as_bytes().get(10), Some(b'T' | b't'))
        && text.parse::<jiff::Timestamp>().is_ok()
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
    fn what_is_no_quantity_is_refused() {
        for text in ["", "-", ".", "1Gb", "Gi", "1.2.3", "1e", "1e999999999999", "9".repeat(60).as_str(), "1 Gi", "é"]
        {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }
}

//! Ranges of versions, as users of Flux and Helm write them.
//!
//! The rules are those of `github.com/Masterminds/semver`: spaces and commas join, `||` chooses, a version with parts
//! left out stands for all that begin so, and prereleases count only where the range names one.

use semver::{Prerelease, Version};

/// Characters of a range that are read.
const LENGTH: usize = 256;

/// A range of versions.
#[derive(Debug)]
pub(super) struct Range {
    any: Vec<Vec<Comparator>>,
}

#[derive(Debug)]
struct Comparator {
    test: Test,
    prerelease: bool,
}

#[derive(Debug)]
enum Test {
    /// From the first to below the second.
    In(Bound, Bound),
    /// All but from the first to below the second.
    NotIn(Bound, Bound),
}

/// An end of a range.
#[derive(Debug)]
enum Bound {
    Open,
    /// At it, or above.
    From(Version),
    /// Above it only.
    Above(Version),
    /// Up to it, without it.
    Below(Version),
    /// Up to it, and it.
    To(Version),
}

impl Bound {
    fn holds(&self, version: &Version) -> bool {
        match self {
            Self::Open => true,
            Self::From(bound) => version.cmp_precedence(bound).is_ge(),
            Self::Above(bound) => version.cmp_precedence(bound).is_gt(),
            Self::Below(bound) => version.cmp_precedence(bound).is_lt(),
            Self::To(bound) => version.cmp_precedence(bound).is_le(),
        }
    }
}

/// A version with parts left out.
struct Partial {
    version: Version,
    /// How many parts are given: 0 for `*`.
    parts: u8,
}

impl Range {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LENGTH {
            return Err(format!("it is longer than {LENGTH} characters"));
        }
        let any: Result<Vec<_>, _> = text.split("||").map(all_of).collect();
        Ok(Self { any: any? })
    }

    pub(super) fn matches(&self, version: &Version) -> bool {
        self.any.iter().any(|all| {
            // As with `npm` and Helm: `>=1.0.0` is not meant to take in 2.0.0-alpha.
            let prerelease = version.pre.is_empty() || all.iter().any(|comparator| comparator.prerelease);
            prerelease
                && all.iter().all(|comparator| match &comparator.test {
                    Test::In(from, to) => from.holds(version) && to.holds(version),
                    Test::NotIn(from, to) => !(from.holds(version) && to.holds(version)),
                })
        })
    }
}

fn all_of(text: &str) -> Result<Vec<Comparator>, String> {
    let mut words = text.split([' ', ',', '\t']).filter(|word| !word.is_empty()).peekable();
    let mut all = Vec::new();
    while let Some(word) = words.next() {
        let operator = word.trim_start_matches(['<', '>', '=', '!', '~', '^']).len();
        let (operator, version) = word.split_at(word.len() - operator);
        let version = if version.is_empty() {
            words.next().ok_or_else(|| format!("no version stands after `{operator}`"))?
        } else {
            version
        };
        if operator.is_empty() && words.peek() == Some(&"-") {
            words.next();
            let upper = words.next().ok_or("no version stands after `-`")?;
            let (lower, upper) = (partial(version)?, partial(upper)?);
            let prerelease = !lower.version.pre.is_empty() || !upper.version.pre.is_empty();
            all.push(Comparator { test: Test::In(Bound::From(lower.version.clone()), up_to(&upper)), prerelease });
            continue;
        }
        all.push(comparator(operator, &partial(version)?)?);
    }
    if all.is_empty() { Err("there is no version in it".to_owned()) } else { Ok(all) }
}

fn comparator(operator: &str, given: &Partial) -> Result<Comparator, String> {
    let version = || given.version.clone();
    let test = match operator {
        "" | "=" | "==" => Test::In(Bound::From(version()), up_to(given)),
        "!=" => Test::NotIn(Bound::From(version()), up_to(given)),
        ">" if given.parts == 3 => Test::In(Bound::Above(version()), Bound::Open),
        ">" => Test::NotIn(Bound::Open, up_to(given)),
        ">=" | "=>" => Test::In(Bound::From(version()), Bound::Open),
        "<" => Test::In(Bound::Open, Bound::Below(version())),
        "<=" | "=<" => Test::In(Bound::Open, up_to(given)),
        "~" | "~>" => Test::In(Bound::From(version()), before(given, given.parts.min(2))),
        "^" => {
            let leading = match (version().major, version().minor) {
                (1.., _) => 1,
                (0, 1..) => 2,
                (0, 0) => 3,
            };
            Test::In(Bound::From(version()), before(given, given.parts.min(leading)))
        }
        _ => return Err(format!("`{operator}` is no operator")),
    };
    Ok(Comparator { test, prerelease: !given.version.pre.is_empty() })
}

/// The end of all versions that begin as the given one does.
fn up_to(given: &Partial) -> Bound {
    if given.parts == 3 { Bound::To(given.version.clone()) } else { before(given, given.parts) }
}

/// Below the next version that differs in the given number of parts; prereleases of that next one are beyond it.
fn before(given: &Partial, parts: u8) -> Bound {
    let Version { major, minor, patch, .. } = given.version;
    let mut next = match parts {
        0 => return Bound::Open,
        1 => Version::new(major.saturating_add(1), 0, 0),
        2 => Version::new(major, minor.saturating_add(1), 0),
        _ => Version::new(major, minor, patch.saturating_add(1)),
    };
    if let Ok(lowest) = Prerelease::new("0") {
        next.pre = lowest;
    }
    Bound::Below(next)
}

fn partial(text: &str) -> Result<Partial, String> {
    let odd = || format!("`{text}` is no version");
    let bare = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let (numbers, rest) = bare.split_at(bare.find(['-', '+']).unwrap_or(bare.len()));
    let mut parts = Vec::new();
    let mut open = false;
    for part in numbers.split('.') {
        if matches!(part, "x" | "X" | "*") {
            open = true;
        } else if open {
            return Err(odd());
        } else {
            parts.push(part);
        }
    }
    if numbers.split('.').count() > 3 || (parts.len() < 3 && !rest.is_empty()) {
        return Err(odd());
    }
    let count = parts.len();
    parts.resize(3, "0");
    let version = Version::parse(&format!("{}{rest}", parts.join("."))).map_err(|_| odd())?;
    Ok(Partial { version, parts: u8::try_from(count).unwrap_or(3) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VERSIONS: [&str; 14] = [
        "0.0.3",
        "0.2.3",
        "0.3.0",
        "1.0.0-rc.1",
        "1.0.0",
        "1.2.0",
        "1.2.3",
        "1.2.4",
        "1.3.0-beta",
        "1.3.0",
        "1.9.9",
        "2.0.0-rc.1",
        "2.0.0",
        "3.1.0",
    ];

    fn of(range: &str) -> String {
        let parsed = match Range::parse(range) {
            Ok(parsed) => parsed,
            Err(reason) => return format!("{range:16} {reason}"),
        };
        let matching = |text: &&&str| parsed.matches(&Version::parse(text).unwrap());
        let all: Vec<&str> = VERSIONS.iter().filter(matching).copied().collect();
        format!("{range:16} {}", all.join(" "))
    }

    #[test]
    fn ranges_mean_what_users_of_flux_expect() {
        let all = [
            ">=1.0.0 <2.0.0",
            ">= 1.0.0, < 2.0.0",
            "1.x",
            "1",
            "1.2",
            "1.2.3",
            "v1.2.3",
            "=1.2.3",
            "*",
            "^1.2",
            "^0.2",
            "^0.0.3",
            "^0",
            "~1.2.3",
            "~1.2",
            "~1",
            ">1.2",
            ">1.2.3",
            "<=1.2",
            "!=1.2",
            "1.2 - 1.3",
            "1.2.3 - 2",
            "<1 || >=3",
            ">=1.0.0-0",
            ">=1.0.0-0 <2.0.0-0",
            "^1.0.0-0",
            "~1.3.0-0",
            "1.2.3-",
        ];
        insta::assert_snapshot!(all.map(of).join("\n"), @"
        >=1.0.0 <2.0.0   1.0.0 1.2.0 1.2.3 1.2.4 1.3.0 1.9.9
        >= 1.0.0, < 2.0.0 1.0.0 1.2.0 1.2.3 1.2.4 1.3.0 1.9.9
        1.x              1.0.0 1.2.0 1.2.3 1.2.4 1.3.0 1.9.9
        1                1.0.0 1.2.0 1.2.3 1.2.4 1.3.0 1.9.9
        1.2              1.2.0 1.2.3 1.2.4
        1.2.3            1.2.3
        v1.2.3           1.2.3
        =1.2.3           1.2.3
        *                0.0.3 0.2.3 0.3.0 1.0.0 1.2.0 1.2.3 1.2.4 1.3.0 1.9.9 2.0.0 3.1.0
        ^1.2             1.2.0 1.2.3 1.2.4 1.3.0 1.9.9
        ^0.2             0.2.3
        ^0.0.3           0.0.3
        ^0               0.0.3 0.2.3 0.3.0
        ~1.2.3           1.2.3 1.2.4
        ~1.2             1.2.0 1.2.3 1.2.4
        ~1               1.0.0 1.2.0 1.2.3 1.2.4 1.3.0 1.9.9
        >1.2             1.3.0 1.9.9 2.0.0 3.1.0
        >1.2.3           1.2.4 1.3.0 1.9.9 2.0.0 3.1.0
        <=1.2            0.0.3 0.2.3 0.3.0 1.0.0 1.2.0 1.2.3 1.2.4
        !=1.2            0.0.3 0.2.3 0.3.0 1.0.0 1.3.0 1.9.9 2.0.0 3.1.0
        1.2 - 1.3        1.2.0 1.2.3 1.2.4 1.3.0
        1.2.3 - 2        1.2.3 1.2.4 1.3.0 1.9.9 2.0.0
        <1 || >=3        0.0.3 0.2.3 0.3.0 3.1.0
        >=1.0.0-0        1.0.0-rc.1 1.0.0 1.2.0 1.2.3 1.2.4 1.3.0-beta 1.3.0 1.9.9 2.0.0-rc.1 2.0.0 3.1.0
        >=1.0.0-0 <2.0.0-0 1.0.0-rc.1 1.0.0 1.2.0 1.2.3 1.2.4 1.3.0-beta 1.3.0 1.9.9
        ^1.0.0-0         1.0.0-rc.1 1.0.0 1.2.0 1.2.3 1.2.4 1.3.0-beta 1.3.0 1.9.9
        ~1.3.0-0         1.3.0-beta 1.3.0
        1.2.3-           `1.2.3-` is no version
        ");
    }

    #[test]
    fn what_is_no_range_is_told() {
        let all = [
            "",
            "  ",
            ">=",
            "main",
            "1.2.3.4",
            "1.x.2",
            "01.2.3",
            ">>1",
            "1.2 -",
            "- 1.2",
            "1-rc",
            "^99999999999999999999",
            "||",
        ];
        insta::assert_snapshot!(all.map(of).join("\n"), @"
                         there is no version in it
                         there is no version in it
        >=               no version stands after `>=`
        main             `main` is no version
        1.2.3.4          `1.2.3.4` is no version
        1.x.2            `1.x.2` is no version
        01.2.3           `01.2.3` is no version
        >>1              `>>` is no operator
        1.2 -            no version stands after `-`
        - 1.2            `-` is no version
        1-rc             `1-rc` is no version
        ^99999999999999999999 `99999999999999999999` is no version
        ||               there is no version in it
        ");
        assert!(Range::parse(&"1 ".repeat(1000)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-0-9xv.*<>=!~^|, a-c+]{0,30}") {
            if let Ok(range) = Range::parse(&text) {
                for version in VERSIONS {
                    range.matches(&Version::parse(version).unwrap());
                }
            }
        }

        #[test]
        fn a_caret_lies_between_its_own_version_and_the_next_major(major in 1_u64..9, minor in 0_u64..9, patch in 0_u64..9, other in (0_u64..12, 0_u64..12, 0_u64..12)) {
            let range = Range::parse(&format!("^{major}.{minor}.{patch}")).unwrap();
            let version = Version::new(other.0, other.1, other.2);
            prop_assert_eq!(range.matches(&version), version.major == major && version >= Version::new(major, minor, patch));
        }
    }
}

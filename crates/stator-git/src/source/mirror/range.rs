//! Ranges of versions, as users of Flux and Helm write them.
//!
//! The rules are those of `github.com/Masterminds/semver`: spaces and commas join, `||` chooses, a version with parts
//! left out stands for all that begin so, and prereleases count only where the range names one.

use semver::{Prerelease, Version};

/// Characters of a range that are read.
const MAX_RANGE_LENGTH: usize = 256;

/// A range of versions.
#[derive(Debug)]
pub(super) struct VersionRange {
    any: Vec<Vec<VersionComparator>>,
}

#[derive(Debug)]
struct VersionComparator {
    test: VersionTest,
    prerelease: bool,
}

#[derive(Debug)]
enum VersionTest {
    /// From the first to below the second.
    In(VersionBound, VersionBound),
    /// All but from the first to below the second.
    NotIn(VersionBound, VersionBound),
}

/// An end of a range.
#[derive(Debug)]
enum VersionBound {
    Open,
    /// At it, or above.
    From(Version),
    /// Above it only.
    Above(Version),
    /// Up to it, without it.
    Below(Version),
    /// Up to it, and it.
    UpTo(Version),
}

impl VersionBound {
    fn admits(&self, version: &Version) -> bool {
        match self {
            Self::Open => true,
            Self::From(bound) => version.cmp_precedence(bound).is_ge(),
            Self::Above(bound) => version.cmp_precedence(bound).is_gt(),
            Self::Below(bound) => version.cmp_precedence(bound).is_lt(),
            Self::UpTo(bound) => version.cmp_precedence(bound).is_le(),
        }
    }
}

/// A version with parts left out.
struct PartialVersion {
    version: Version,
    /// How many parts are given: 0 for `*`.
    parts: u8,
}

impl VersionRange {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_RANGE_LENGTH {
            return Err(format!("it is longer than {MAX_RANGE_LENGTH} characters"));
        }
        let any: Result<Vec<_>, _> = text.split("||").map(parse_comparators).collect();
        Ok(Self { any: any? })
    }

    pub(super) fn matches(&self, version: &Version) -> bool {
        self.any.iter().any(|all| {
            // As with `npm` and Helm: `>=1.0.0` is not meant to take in 2.0.0-alpha.
            let prerelease = version.pre.is_empty() || all.iter().any(|comparator| comparator.prerelease);
            prerelease
                && all.iter().all(|comparator| match &comparator.test {
                    VersionTest::In(from, to) => from.admits(version) && to.admits(version),
                    VersionTest::NotIn(from, to) => !(from.admits(version) && to.admits(version)),
                })
        })
    }
}

fn parse_comparators(text: &str) -> Result<Vec<VersionComparator>, String> {
    let mut words = text.split([' ', ',', '\t']).filter(|word| !word.is_empty()).peekable();
    let mut all = Vec::new();
    while let Some(word) = words.next() {
        let operator = word.trim_start_matches(['<', '>', '=', '!', '~', '^']).len();
        let (operator, version) = word.split_at(word.len() - operator);
        let version = if version.is_empty() {
            words.next().ok_or_else(|| format!("there is no version after `{operator}`"))?
        } else {
            version
        };
        if operator.is_empty() && words.peek() == Some(&"-") {
            words.next();
            let upper = words.next().ok_or("there is no version after `-`")?;
            let (lower, upper) = (parse_partial_version(version)?, parse_partial_version(upper)?);
            let prerelease = !lower.version.pre.is_empty() || !upper.version.pre.is_empty();
            all.push(VersionComparator {
                test: VersionTest::In(VersionBound::From(lower.version.clone()), upper_bound(&upper)),
                prerelease,
            });
            continue;
        }
        all.push(build_comparator(operator, &parse_partial_version(version)?)?);
    }
    if all.is_empty() { Err("there is no version in it".to_owned()) } else { Ok(all) }
}

fn build_comparator(operator: &str, given: &PartialVersion) -> Result<VersionComparator, String> {
    let version = || given.version.clone();
    let test = match operator {
        "" | "=" | "==" => VersionTest::In(VersionBound::From(version()), upper_bound(given)),
        "!=" => VersionTest::NotIn(VersionBound::From(version()), upper_bound(given)),
        ">" if given.parts == 3 => VersionTest::In(VersionBound::Above(version()), VersionBound::Open),
        ">" => VersionTest::NotIn(VersionBound::Open, upper_bound(given)),
        ">=" | "=>" => VersionTest::In(VersionBound::From(version()), VersionBound::Open),
        "<" => VersionTest::In(VersionBound::Open, VersionBound::Below(version())),
        "<=" | "=<" => VersionTest::In(VersionBound::Open, upper_bound(given)),
        "~" | "~>" => VersionTest::In(VersionBound::From(version()), bound_before_next(given, given.parts.min(2))),
        "^" => {
            let leading = match (version().major, version().minor) {
                (1.., _) => 1,
                (0, 1..) => 2,
                (0, 0) => 3,
            };
            VersionTest::In(VersionBound::From(version()), bound_before_next(given, given.parts.min(leading)))
        }
        _ => return Err(format!("`{operator}` is not an operator")),
    };
    Ok(VersionComparator { test, prerelease: !given.version.pre.is_empty() })
}

/// The end of all versions that begin as the given one does.
fn upper_bound(given: &PartialVersion) -> VersionBound {
    if given.parts == 3 { VersionBound::UpTo(given.version.clone()) } else { bound_before_next(given, given.parts) }
}

/// Below the next version that differs in the given number of parts; prereleases of that next one are beyond it.
fn bound_before_next(given: &PartialVersion, parts: u8) -> VersionBound {
    let Version { major, minor, patch, .. } = given.version;
    let mut next = match parts {
        0 => return VersionBound::Open,
        1 => Version::new(major.saturating_add(1), 0, 0),
        2 => Version::new(major, minor.saturating_add(1), 0),
        _ => Version::new(major, minor, patch.saturating_add(1)),
    };
    if let Ok(lowest) = Prerelease::new("0") {
        next.pre = lowest;
    }
    VersionBound::Below(next)
}

fn parse_partial_version(text: &str) -> Result<PartialVersion, String> {
    let odd = || format!("`{text}` is not a version");
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
    Ok(PartialVersion { version, parts: u8::try_from(count).unwrap_or(3) })
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
        let parsed = match VersionRange::parse(range) {
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
        1.2.3-           `1.2.3-` is not a version
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
        >=               there is no version after `>=`
        main             `main` is not a version
        1.2.3.4          `1.2.3.4` is not a version
        1.x.2            `1.x.2` is not a version
        01.2.3           `01.2.3` is not a version
        >>1              `>>` is not an operator
        1.2 -            there is no version after `-`
        - 1.2            `-` is not a version
        1-rc             `1-rc` is not a version
        ^99999999999999999999 `99999999999999999999` is not a version
        ||               there is no version in it
        ");
        assert!(VersionRange::parse(&"1 ".repeat(1000)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-0-9xv.*<>=!~^|, a-c+]{0,30}") {
            if let Ok(range) = VersionRange::parse(&text) {
                for version in VERSIONS {
                    range.matches(&Version::parse(version).unwrap());
                }
            }
        }

        #[test]
        fn a_caret_lies_between_its_own_version_and_the_next_major(major in 1_u64..9, minor in 0_u64..9, patch in 0_u64..9, other in (0_u64..12, 0_u64..12, 0_u64..12)) {
            let range = VersionRange::parse(&format!("^{major}.{minor}.{patch}")).unwrap();
            let version = Version::new(other.0, other.1, other.2);
            prop_assert_eq!(range.matches(&version), version.major == major && version >= Version::new(major, minor, patch));
        }
    }
}

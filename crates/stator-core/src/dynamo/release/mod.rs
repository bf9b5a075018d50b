//! The releases of Dynamo that stator knows: what each changed ([`CHANGES`]), and what the definitions of each accept
//! ([`Definitions`]).
//!
//! Every rule that holds from a release on asks [`Release::has`], and nothing else tells releases apart. Source of the
//! table: the definitions and the release notes of 1.2 to 1.5, and the verdicts of both operators under
//! `tests/data/dynamo/`.

mod definitions;
mod table;
#[cfg(test)]
mod tests;

pub use definitions::{Definitions, DefinitionsError};
pub use table::{Behaviour, CHANGES, Change, RESTART_UNSET_ON_CREATE, ReleaseChange, release_of_field};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A release of Dynamo, by its first two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// 1.2, of May 2026: the oldest that serves graphs at v1beta1.
    V1_2,
    /// 1.3, of July 2026.
    V1_3,
    /// 1.4, of August 2026.
    V1_4,
    /// 1.5.
    V1_5,
    /// Newer than those that stator knows: what it refuses of such a release is a warning, and the cluster decides.
    Newer,
}

impl Release {
    /// The releases that stator knows, from the oldest on.
    pub const KNOWN: [Self; 4] = [Self::V1_2, Self::V1_3, Self::V1_4, Self::V1_5];
    /// The release that is assumed where neither a cluster nor an environment says one: today's stable one.
    pub const STABLE: Self = Self::V1_4;

    /// `1.4`; `newer than 1.5` for [`Release::Newer`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
            Self::V1_4 => "1.4",
            Self::V1_5 => "1.5",
            Self::Newer => "newer than 1.5",
        }
    }

    /// Whether a change of the table holds: it came with this release or with one before.
    pub fn has(self, behaviour: Behaviour) -> bool {
        self >= behaviour.since()
    }

    /// The known release that this one is judged by: the newest, where it is newer than that.
    pub fn nearest_known(self) -> Self {
        match self {
            Self::Newer => Self::V1_5,
            Self::V1_2 | Self::V1_3 | Self::V1_4 | Self::V1_5 => self,
        }
    }
}

impl Default for Release {
    fn default() -> Self {
        Self::STABLE
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a text names no release that stator works with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// Not of the form `1.4` or `1.4.1`.
    #[error("`{0}` is not a release of Dynamo; write two numbers, such as \"1.4\"")]
    Malformed(String),
    /// Before 1.2.
    #[error("Dynamo {0} is not supported; the oldest release that stator works with is 1.2")]
    TooOld(String),
}

impl FromStr for Release {
    type Err = ReleaseError;

    /// Reads `1.4`, `v1.4` or `1.4.1`. What is newer than the newest known release is [`Release::Newer`].
    fn from_str(text: &str) -> Result<Self, ReleaseError> {
        let malformed = || ReleaseError::Malformed(text.to_owned());
        let numbers: Vec<u32> = text
            .strip_prefix('v')
            .unwrap_or(text)
            .split('.')
            .map(|number| {
                let digits = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
                number.parse().ok().filter(|_| digits).ok_or_else(malformed)
            })
            .collect::<Result<_, _>>()?;
        let ([major, minor] | [major, minor, _]) = numbers[..] else { return Err(malformed()) };
        match (major, minor) {
            (1, 2) => Ok(Self::V1_2),
            (1, 3) => Ok(Self::V1_3),
            (1, 4) => Ok(Self::V1_4),
            (1, 5) => Ok(Self::V1_5),
            (0, _) | (1, 0 | 1) => Err(ReleaseError::TooOld(text.to_owned())),
            _ => Ok(Self::Newer),
        }
    }
}

impl Serialize for Release {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Release {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Release {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Release")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A release of Dynamo: two numbers in quotes, such as \"1.4\".",
            "type": "string",
            "pattern": "^v?[0-9]+\\.[0-9]+(\\.[0-9]+)?$",
        })
    }
}

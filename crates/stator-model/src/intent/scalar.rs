//! Scalars with a grammar: names, quantities, durations, images. Parsed once, then trusted.
//!
//! Each type's rule feeds `FromStr`, `Deserialize` and the JSON Schema alike.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;

/// Declares a type with a grammar: its JSON Schema pattern, a check in Rust, an example, and its words.
macro_rules! text_grammar {
    ($(#[$doc:meta])* $name:ident, pattern = $pattern:expr, max = $max:expr, example = $example:expr, expected = $expected:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The JSON Schema pattern.
            pub const PATTERN: &'static str = $pattern;
            /// The most characters.
            pub const MAX: usize = $max;
            /// A value that passes.
            pub const EXAMPLE: &'static str = $example;
            /// What is allowed, in words.
            pub const EXPECTED: &'static str = $expected;

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                static PATTERN: std::sync::LazyLock<Option<regex::Regex>> =
                    std::sync::LazyLock::new(|| regex::Regex::new($pattern).ok());
                let fits = PATTERN.as_ref().is_some_and(|pattern| pattern.is_match(text));
                if fits && text.chars().count() <= Self::MAX {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(format!("expected {}", Self::EXPECTED))
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// Declares a string type: one with a grammar that is always written as text.
macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, pattern = $pattern:expr, max = $max:expr, example = $example:expr, expected = $expected:expr) => {
        text_grammar!($(#[$doc])* $name, pattern = $pattern, max = $max, example = $example, expected = $expected);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "pattern": Self::PATTERN,
                    "maxLength": Self::MAX,
                    "examples": [Self::EXAMPLE],
                    "x-stator-expected": Self::EXPECTED,
                })
            }
        }
    };
}

pub(crate) use {text_grammar, text_type};

text_type!(
    /// The name of a model, a repository or an environment: an RFC 1035 label, so that it also names a Service.
    ModelName,
    pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$",
    max = 63,
    example = "llama-3-70b",
    expected = "lower-case letters, digits and `-`, starting with a letter, at most 63 characters"
);
text_type!(
    /// The name of a Kubernetes object: an RFC 1123 subdomain.
    DnsName,
    pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    max = 253,
    example = "hf-token-secret",
    expected = "lower-case letters, digits, `-` and `.`, starting and ending with a letter or digit, at most 253 characters"
);
text_type!(
    /// A host of a route: a name, or `*.` and a name.
    Hostname,
    pattern = "^(\\*\\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    max = 253,
    example = "chat.example.com",
    expected = "a host name in lower-case letters, or `*.` and one, without scheme and port, at most 253 characters"
);
text_type!(
    /// What the paths of a route's requests begin with.
    RoutePath,
    pattern = "^/[-A-Za-z0-9/._~!$&'()*+,;=:@%]*$",
    max = 1024,
    example = "/v1",
    expected = "a path that begins with `/`, without `?` and `#`, at most 1024 characters"
);
text_type!(
    /// How long a request of a route may take, as the Gateway API writes durations.
    RouteTimeout,
    pattern = "^([0-9]{1,5}(h|m|s|ms)){1,4}$",
    max = 32,
    example = "300s",
    expected = "a duration such as `300s` or `1h30m`"
);
text_type!(
    /// The name of a volume in a pod: an RFC 1123 label.
    VolumeName,
    pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    max = 63,
    example = "model-cache",
    expected = "lower-case letters, digits and `-`, starting and ending with a letter or digit, at most 63 characters"
);
text_type!(
    /// The name of a file that pods mount: part of its ConfigMap's name and of its volume's.
    FileName,
    pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    max = 40,
    example = "engine",
    expected = "lower-case letters, digits and `-`, starting and ending with a letter or digit, at most 40 characters"
);
text_type!(
    /// Where a file is mounted. Its last part is the file's key in the ConfigMap.
    MountPath,
    pattern = "^(/[-._A-Za-z0-9]+)+$",
    max = 1024,
    example = "/engine_configs/decode.yaml",
    expected = "an absolute path of letters, digits, `-`, `_` and `.`, such as `/engine_configs/decode.yaml`"
);
text_type!(
    /// Where a model's weights are. What each scheme asks for is [`super::model::WeightsSource`]'s to say.
    WeightsUri,
    pattern = "^[a-z0-9]+://[^\\s]+$",
    max = 1024,
    example = "hf://openai/gpt-oss-120b@b5c939de8f754692c1647ca79fbf85e8c1e70f8a",
    expected = "`hf://ORG/NAME@REVISION`, `s3://…`, `gs://…` or `oci://…`"
);
text_type!(
    /// A pattern of file names, as `hf download --include` takes it. It is an argument of the download, so that nothing a
    /// shell or Kubernetes would expand is in it.
    FilePattern,
    pattern = "^[A-Za-z0-9*?._/\\[\\]][-A-Za-z0-9*?._/\\[\\]]*$",
    max = 256,
    example = "*.safetensors",
    expected = "a pattern of letters, digits, `*`, `?`, `[`, `]`, `-`, `_`, `.` and `/`, such as `*.safetensors`"
);
text_type!(
    /// A folder of a volume, from its root.
    VolumeFolder,
    pattern = "^[A-Za-z0-9_][-._A-Za-z0-9]*(/[A-Za-z0-9_][-._A-Za-z0-9]*)*$",
    max = 512,
    example = "models/base",
    expected = "a path below the volume's root of letters, digits, `-`, `_` and `.`, such as `models/base`"
);
text_type!(
    /// How long a download may take: whole minutes or hours.
    DownloadDeadline,
    pattern = "^[1-9][0-9]{0,3}[mh]$",
    max = 5,
    example = "2h",
    expected = "whole minutes or hours, such as `90m` or `2h`"
);

impl DownloadDeadline {
    /// In seconds.
    pub fn seconds(&self) -> u64 {
        let (number, unit) = self.0.split_at(self.0.len().saturating_sub(1));
        // The pattern lets four digits through at most.
        number.parse::<u64>().unwrap_or_default() * if unit == "h" { 3600 } else { 60 }
    }
}

text_type!(
    /// The name of a graph's component (Dynamo's CRD, `spec.components[].name`).
    ComponentName,
    pattern = "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$",
    max = 63,
    example = "planner",
    expected = "letters, digits and `-`, starting and ending with a letter or digit, at most 63 characters"
);
text_type!(
    /// The path of a field below `spec`, with dots between the names.
    FieldPathText,
    pattern = "^[^\\s.\\[\\]]+(\\.[^\\s.\\[\\]]+)*$",
    max = 512,
    example = "serving.worker.args",
    expected = "names of fields with dots between them, such as `serving.worker.args`"
);
text_type!(
    /// The name of an environment variable.
    EnvName,
    pattern = "^[A-Za-z_][A-Za-z0-9_.-]*$",
    max = 253,
    example = "LOG_LEVEL",
    expected = "letters, digits, `_`, `.` and `-`, not starting with a digit"
);
text_type!(
    /// The value of a Kubernetes label.
    LabelValue,
    pattern = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
    max = 63,
    example = "team-search",
    expected = "letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit, at most 63 characters"
);
text_type!(
    /// A version of Dynamo's runtime: `x.y.z`, which Dynamo's admission from 1.4 on can read from the image tag.
    RuntimeVersion,
    pattern = "^[0-9]+\\.[0-9]+\\.[0-9]+(-[0-9A-Za-z.-]+)?$",
    max = 64,
    example = "1.2.0",
    expected = "a version such as `1.2.0`"
);
text_type!(
    /// The version of Dynamo that is in an image: three numbers, as Dynamo's `runtimeVersionOverride` has it.
    DynamoVersion,
    pattern = "^(0|[1-9][0-9]{0,3})\\.(0|[1-9][0-9]{0,3})\\.(0|[1-9][0-9]{0,3})$",
    max = 14,
    example = "1.4.0",
    expected = "three numbers without leading zeros, such as `1.4.0`"
);
text_type!(
    /// An image with its tag or digest: `registry/name:tag`.
    ImageReference,
    pattern = "^[A-Za-z0-9][A-Za-z0-9._/:-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})$",
    max = 512,
    example = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0",
    expected = "an image with a tag or a digest, such as `nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.0`"
);
text_type!(
    /// Where images are: a registry, and the path in it.
    ImageRegistry,
    pattern = "^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$",
    max = 255,
    example = "registry.example.com/dynamo",
    expected = "a registry and a path in it, such as `registry.example.com/dynamo`"
);
text_type!(
    /// Where an adapter's weights are: the schemes that Dynamo's admission takes, `file:///` from 1.3 on.
    AdapterUri,
    pattern = "^((s3|hf)://|file:///)[^\\s]+$",
    max = 2048,
    example = "s3://adapters/sql-assist-v4",
    expected = "`s3://…`, `hf://…`, or from Dynamo 1.3 on `file:///…`"
);
text_type!(
    /// A path to a field of a rendered object: names after dots, items of lists by their key (`[name=main]`), and names
    /// that hold dots as `["nvidia.com/gpu"]`. What it may be exactly is [`stator_core::object::FieldPath`]'s to say.
    RemovedPath,
    pattern = "^(spec|metadata)[.\\[].+$",
    max = 1024,
    example = "spec.components[name=worker].podTemplate.spec.nodeSelector",
    expected = "a path below `spec` or `metadata`, such as `spec.components[name=worker].podTemplate.spec.nodeSelector`"
);
text_grammar!(
    /// A Kubernetes quantity that is not negative, written as text or, as `kubectl` takes it, as a number.
    Quantity,
    pattern = "^\\+?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]+|[KMGTPE]i|[munkMGTPE])?$",
    max = 64,
    example = "500Gi",
    expected = "a quantity such as `500Gi`, `2` or `500m`"
);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum RawQuantity {
            Whole(u64),
            Fraction(f64),
            Text(String),
        }
        let text = match RawQuantity::deserialize(deserializer)? {
            RawQuantity::Whole(number) => number.to_string(),
            RawQuantity::Fraction(number) => number.to_string(),
            RawQuantity::Text(text) => text,
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                {"type": "string", "pattern": Self::PATTERN, "maxLength": Self::MAX, "examples": [Self::EXAMPLE]},
                {"type": "number", "minimum": 0},
            ],
            "x-stator-expected": Self::EXPECTED,
        })
    }
}

/// A duration in whole milliseconds, written `300ms`, `1.5s` or `2m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// The JSON Schema pattern.
    pub const PATTERN: &'static str = "^[0-9]+(\\.[0-9]+)?(ms|s|m)$";
    const EXPECTED: &'static str = "a duration such as `300ms`, `1.5s` or `2m`, in whole milliseconds above 0";
}

impl std::str::FromStr for Millis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("expected {}", Self::EXPECTED);
        let (number, unit) = match text {
            _ if text.ends_with("ms") => (&text[..text.len() - 2], 1.0),
            _ if text.ends_with('s') => (&text[..text.len() - 1], 1_000.0),
            _ if text.ends_with('m') => (&text[..text.len() - 1], 60_000.0),
            _ => return Err(refuse()),
        };
        if !number.starts_with(|c: char| c.is_ascii_digit()) || !number.chars().all(|c| c.is_ascii_digit() || c == '.')
        {
            return Err(refuse());
        }
        let millis = number.parse::<f64>().map_err(|_| refuse())? * unit;
        // Above 2^53 a float is no longer exact; a day is far below.
        if millis.fract() == 0.0 && (1.0..=86_400_000.0).contains(&millis) {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole, and within 1..=86 400 000"
            )]
            Ok(Self(millis as u64))
        } else {
            Err(refuse())
        }
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) { write!(f, "{}s", self.0 / 1000) } else { write!(f, "{}ms", self.0) }
    }
}

impl Serialize for Millis {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Millis {
    fn schema_name() -> Cow<'static, str> {
        "Millis".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": Self::PATTERN, "examples": ["300ms"], "x-stator-expected": Self::EXPECTED})
    }
}

impl CountOrPercent {
    /// The JSON Schema pattern of a share.
    pub const PATTERN: &'static str = "^(100|[0-9]{1,2})%$";
}

/// A count, or a share in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CountOrPercent {
    /// A count.
    Count(u32),
    /// A share, 0 to 100.
    Percent(u32),
}

impl fmt::Display for CountOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(share) => write!(f, "{share}%"),
        }
    }
}

impl Serialize for CountOrPercent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u32(*count),
            Self::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for CountOrPercent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum RawCountOrPercent {
            Count(u32),
            Text(String),
        }
        match RawCountOrPercent::deserialize(deserializer)? {
            RawCountOrPercent::Count(count) => Ok(Self::Count(count)),
            RawCountOrPercent::Text(text) => text
                .strip_suffix('%')
                .and_then(|share| share.parse().ok())
                .filter(|share| *share <= 100)
                .map(Self::Percent)
                .ok_or_else(|| serde::de::Error::custom("expected a count such as `1` or a share such as `25%`")),
        }
    }
}

impl JsonSchema for CountOrPercent {
    fn schema_name() -> Cow<'static, str> {
        "CountOrPercent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                {"type": "integer", "minimum": 0, "maximum": 10000},
                {"type": "string", "pattern": Self::PATTERN, "examples": ["25%"]},
            ],
            "examples": [1, "25%"],
            "x-stator-expected": "a count such as `1` or a share such as `25%`",
        })
    }
}

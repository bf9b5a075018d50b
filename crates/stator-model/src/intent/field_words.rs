//! Words for fields: what an engine, Kubernetes or Dynamo calls a field of stator's.
//!
//! An engine's words are those of its table ([`crate::engine_tables`]). Where no engine has a flag, the field's type says
//! what Kubernetes and Dynamo call it (`x-stator-synonyms` in its schema).

use crate::engine_tables;
use serde_json::Value;
use std::collections::BTreeSet;

/// A name without its spelling: `maxModelLen`, `max_model_len` and `--max-model-len` are `maxmodellen`.
pub(super) fn normalize(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The words of a name, in lower case: `max`, `model` and `len` of `maxModelLen`.
pub(super) fn words(name: &str) -> BTreeSet<String> {
    let mut spaced = String::with_capacity(name.len());
    let mut was_upper = true;
    for c in name.chars() {
        if c.is_uppercase() && !was_upper {
            spaced.push(' ');
        }
        was_upper = c.is_uppercase();
        if c.is_alphanumeric() { spaced.extend(c.to_lowercase()) } else { spaced.push(' ') }
    }
    spaced.split_whitespace().map(str::to_owned).collect()
}

/// What others call a field, normalized, by the field's name and its schema.
pub(super) fn synonyms(field: &str, schema: &Value) -> BTreeSet<String> {
    let declared = schema.get("x-stator-synonyms").and_then(Value::as_array).into_iter().flatten();
    let of_engines = engine_tables::ALL.into_iter().flat_map(engine_tables::EngineTable::words);
    let of_engines = of_engines.filter(|(setting, _)| setting.field() == Some(field)).map(|(_, word)| word);
    declared.filter_map(Value::as_str).chain(of_engines).map(normalize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_however_its_words_are_joined() {
        for name in ["maxModelLen", "max_model_len", "--max-model-len", "MaxModelLen", "MAX_MODEL_LEN"] {
            assert_eq!(normalize(name), "maxmodellen", "{name}");
        }
        for name in ["maxModelLen", "max_model_len", "--max-model-len", "MAX_MODEL_LEN"] {
            assert_eq!(words(name).into_iter().collect::<Vec<_>>(), ["len", "max", "model"], "{name}");
        }
    }

    /// Every word of an engine leads to a field, so that a table cannot name what the intent does not have.
    #[test]
    fn engines_words_are_synonyms_of_the_field_that_they_carry() {
        let none = Value::Null;
        assert!(synonyms("maxLength", &none).contains("maxmodellen"), "vLLM");
        assert!(synonyms("maxLength", &none).contains("contextlength"), "SGLang");
        assert!(synonyms("maxLength", &none).contains("maxseqlen"), "TensorRT-LLM");
        assert!(synonyms("maxRank", &none).contains("maxlorarank"));
        assert!(synonyms("replicas", &none).is_empty());
    }
}

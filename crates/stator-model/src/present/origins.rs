//! A model as it is after all layers, each value with the place where it was written.

use super::escape;
use crate::intent::Intent;
use crate::intent::format::format_document;
use crate::intent::model::Model;
use crate::intent::yaml::{self, YamlNode, YamlValue};
use serde::Serialize;
use stator_core::finding::Location;

/// The widest line that the column of places moves to the right for.
const MAX_VALUE_COLUMN: usize = 64;

/// A merged model that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the merged model cannot be written as YAML: {0}")]
pub struct UnwritableModel(String);

/// What `render --show-origins -o json` prints.
#[derive(Debug, Serialize)]
pub struct OriginReport {
    /// The models, in the order given.
    pub models: Vec<ModelOrigins>,
}

/// A merged model, and where its values are from.
#[derive(Debug, Serialize)]
pub struct ModelOrigins {
    /// The model's name.
    pub name: String,
    /// Path of its `model.yaml`.
    pub source: String,
    /// Its values, in the order of the text.
    pub fields: Vec<FieldOrigin>,
    #[serde(skip)]
    text: String,
    #[serde(skip)]
    lines: Vec<u32>,
}

/// Where a value is from.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct FieldOrigin {
    /// Dotted path of the field: `spec.serving.worker.gpus`.
    pub path: String,
    /// The file that decided on it, from the repository's root.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl ModelOrigins {
    /// Looks up every value of a merged model.
    ///
    /// # Errors
    /// When the model cannot be written as YAML.
    pub fn of(intent: &Intent) -> Result<Self, UnwritableModel> {
        let text = write_model(&intent.model)?;
        let mut leaves = Vec::new();
        if let Some(root) = yaml::parse_yaml(text.as_bytes(), 0, &intent.source).root {
            collect_leaves(&root, String::new(), root.span.line, &mut leaves);
        }
        let (mut fields, mut lines) = (Vec::new(), Vec::new());
        for (path, number) in leaves {
            let Location { file, line, column, .. } = intent.origins.locate(&path);
            fields.push(FieldOrigin { path, file, line, column });
            lines.push(number);
        }
        Ok(Self { name: intent.model.metadata.name.to_string(), source: intent.source.clone(), fields, text, lines })
    }

    /// The model as a YAML document, with a comment behind each value.
    pub fn yaml(&self) -> String {
        let longest = self.text.lines().map(escape::display_width).filter(|width| *width <= MAX_VALUE_COLUMN).max();
        let column = longest.unwrap_or_default();
        let mut origins = self.lines.iter().zip(&self.fields).peekable();
        let mut out = String::new();
        for (number, line) in (1_u32..).zip(self.text.lines()) {
            let mut places = Vec::new();
            while let Some((_, field)) = origins.next_if(|(at, _)| **at <= number) {
                places.push(format!("{}:{}", escape::line(&field.file), field.line));
            }
            places.dedup();
            let padding = " ".repeat(column.saturating_sub(escape::display_width(line)));
            match places.is_empty() {
                true => out.push_str(line),
                false => out.push_str(&format!("{line}{padding}  # {}", places.join(", "))),
            }
            out.push('\n');
        }
        out
    }
}

fn write_model(model: &Model) -> Result<String, UnwritableModel> {
    // Long lines are not folded: a comment in the middle of a text would be part of it.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: true, folded_wrap_chars: 100_000, compact_list_indent: false };
    let text =
        serde_saphyr::to_string_with_options(model, options).map_err(|error| UnwritableModel(error.to_string()))?;
    // A style that cannot be set is no reason to show nothing.
    Ok(format_document(&text).unwrap_or(text))
}

/// The values below a node, with their paths and the lines that they begin on, in the order of the text.
fn collect_leaves(node: &YamlNode, path: String, line: u32, leaves: &mut Vec<(String, u32)>) {
    match &node.value {
        YamlValue::Map(entries) if !entries.is_empty() => {
            for entry in entries {
                let dot = if path.is_empty() { "" } else { "." };
                collect_leaves(&entry.value, format!("{path}{dot}{}", entry.key), entry.key_span.line, leaves);
            }
        }
        YamlValue::List(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                collect_leaves(item, format!("{path}[{index}]"), item.span.line, leaves);
            }
        }
        YamlValue::Map(_)
        | YamlValue::List(_)
        | YamlValue::Invalid
        | YamlValue::Bool(_)
        | YamlValue::Number(_)
        | YamlValue::Text(_) => leaves.push((path, line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::{SourceFile, SourceTree, Workspace};
    use crate::render::tests::strategy;
    use proptest::prelude::*;

    fn resolve(files: &[(&str, &str)]) -> Intent {
        let files = files
            .iter()
            .map(|(path, text)| SourceFile { path: (*path).to_owned(), content: Ok(text.as_bytes().into()) });
        let tree = SourceTree { files: files.collect(), ..SourceTree::default() };
        let environment = Workspace::parse(&tree).resolve_environment(Some("prod")).unwrap();
        assert!(environment.findings.is_empty(), "{:?}", environment.findings);
        environment.intents[0].load().unwrap()
    }

    #[test]
    fn each_value_names_the_layer_that_it_is_from() {
        let root = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: shop}\nspec:\n  defaults:\n    runtime: 1.2.0\n    serving:\n      worker: {gpus: 1}\n  environments:\n    prod: {namespace: models}\n";
        let model = "apiVersion: stator.dev/v1alpha1\nkind: Model\nmetadata: {name: chat}\nspec:\n  model: a/b\n  engine: vllm\n  serving:\n    frontend: {}\n    worker:\n      replicas: 1\n      args: [--x, 'y # z']\n";
        let overlay =
            "apiVersion: stator.dev/v1alpha1\nkind: Model\nspec:\n  serving:\n    worker:\n      replicas: 4\n";
        let intent =
            resolve(&[("models/model.prod.yaml", overlay), ("models/model.yaml", model), ("stator.yaml", root)]);
        insta::assert_snapshot!(ModelOrigins::of(&intent).unwrap().yaml(), @r#"
        apiVersion: stator.dev/v1alpha1  # models/model.prod.yaml:1
        kind: Model                      # models/model.prod.yaml:2
        metadata:
          name: chat                     # models/model.yaml:3
        spec:
          model: a/b                     # models/model.yaml:5
          engine: vllm                   # models/model.yaml:6
          runtime: "1.2.0"               # stator.yaml:6
          serving:
            frontend: {}                 # models/model.yaml:8
            worker:
              replicas: 4                # models/model.prod.yaml:6
              gpus: 1                    # stator.yaml:8
              args:
                - --x                    # models/model.yaml:11
                - "y # z"                # models/model.yaml:11
        "#);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn comments_change_no_value_and_every_value_has_a_place(model in strategy::valid()) {
            let intent = crate::render::tests::of_model(model.clone());
            let origins = ModelOrigins::of(&intent).unwrap();
            let commented: serde_json::Value = serde_saphyr::from_str(&origins.yaml()).unwrap();
            prop_assert_eq!(commented, serde_saphyr::from_str::<serde_json::Value>(&write_model(&model).unwrap()).unwrap());
            let last = u32::try_from(origins.text.lines().count()).unwrap();
            prop_assert!(origins.lines.iter().all(|line| *line <= last) && origins.lines.is_sorted());
        }
    }
}

//! What is rendered against the schemas of an API server, and what is written against what is read.

use super::{manifest_file, of_model, strategy, target};
use crate::intent::model::Model;
use crate::intent::{SourceFile, SourceTree, Workspace, named_files};
use crate::render::render;
use proptest::prelude::*;
use stator_core::dynamo::release::RESTART_UNSET_ON_CREATE;
use stator_core::fields;
use stator_core::object::Object;

/// What an API server says of an object: fields that its schema does not know, then its schema and its rules.
fn refused(object: &Object) -> Vec<String> {
    let schema = fields::bundled_schema(object.api_version(), object.kind()).expect("a schema for every rendered kind");
    let mut value = object.value().clone();
    let mut faults: Vec<String> =
        fields::undeclared_fields(schema, &value).iter().map(|fault| format!("{fault:?}")).collect();
    faults.extend(fields::typing_errors(schema, &value).iter().map(|fault| format!("{fault:?}")));
    fields::apply_defaults(schema, &mut value);
    // A plan leaves it out where it creates a graph.
    let found = fields::violations_except(schema, &value, None, &[RESTART_UNSET_ON_CREATE]);
    faults.extend(found.into_iter().map(|fault| format!("{}: {}", fault.path, fault.message)));
    faults
}

/// A model through its file: written, and read as a repository of nothing else.
fn reread(model: &Model) -> Result<Model, String> {
    let text = serde_saphyr::to_string(model).map_err(|error| error.to_string())?;
    let file = SourceFile { path: "model.yaml".into(), content: Ok(text.as_bytes().into()) };
    let mut tree = SourceTree { files: vec![file], ..SourceTree::default() };
    for (folder, paths) in named_files(&tree) {
        let there = |path: String| match path.as_str() {
            strategy::MANIFEST_FILE => manifest_file(""),
            _ => SourceFile { path, content: Ok(b"a: 1".as_slice().into()) },
        };
        tree.mounted_files.insert(folder, paths.into_iter().map(there).collect());
    }
    let workspace = Workspace::parse(&tree);
    let selection = workspace.resolve_environment(None).map_err(|error| error.to_string())?;
    match selection.intents.as_slice() {
        [intent] => Ok(intent.load().unwrap().model),
        _ => Err(format!("{:#?}\n{text}", selection.findings)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 2))]

    #[test]
    fn a_valid_model_renders_to_what_an_api_server_takes(model in strategy::valid()) {
        let rendered = render(&of_model(model), &target());
        let faults: Vec<_> = rendered.findings.iter().filter(|finding| finding.is_error()).collect();
        prop_assert!(faults.is_empty(), "{:#?}", faults);
        prop_assert!(!rendered.objects.is_empty());
        for desired in &rendered.objects {
            for object in [&desired.object, &desired.with_initial_replicas()] {
                prop_assert_eq!(refused(object), Vec::<String>::new(), "{:#}", object.value());
            }
        }
    }

    #[test]
    fn a_valid_model_reads_back_from_its_file(mut model in strategy::valid()) {
        let read = reread(&model);
        // It has had its effect once layers are merged.
        model.spec.unset.clear();
        prop_assert_eq!(read.as_ref(), Ok(&model), "{:?}", read.as_ref().err());
    }
}

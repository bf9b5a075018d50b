//! Laws that hold for every model.

use super::{of_model, strategy, target};
use crate::render::{emit, render, render_all};
use proptest::prelude::*;
use serde_json::Value;
use stator_core::dynamo::admission::{self, AdmissionOutcome, Platform};
use stator_core::dynamo::kinds;
use stator_core::dynamo::replica_intent::{ReplicaIntents, scaled_components};
use stator_core::dynamo::v1beta1::GraphSpec;

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(map) => map.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 2))]

    #[test]
    fn a_model_renders_alike_every_time_and_holds_what_every_object_holds(model in strategy::model()) {
        let intent = of_model(model);
        let first = render(&intent, &target());
        let again = render_all(std::slice::from_ref(&intent), &target());
        prop_assert_eq!(&first.objects, &again[0].objects);
        prop_assert_eq!(&first.findings, &again[0].findings);
        prop_assert_eq!(first.objects.is_empty(), first.findings.iter().any(|finding| finding.is_error()));
        for pair in first.objects.windows(2) {
            prop_assert!(pair[0].stage <= pair[1].stage);
        }
        for desired in &first.objects {
            let object = &desired.object;
            prop_assert!(!has_null(object.value()), "{:#}", object.value());
            prop_assert!(object.status().is_null());
            let labels = object.labels();
            prop_assert_eq!(labels.get(kinds::LABEL_MODEL), Some(&intent.model.metadata.name.as_str()));
            prop_assert_eq!(labels.get(kinds::LABEL_MANAGED_BY), Some(&kinds::FIELD_MANAGER));
            prop_assert!(admission::check_object(object, &Platform::default()).iter().all(|refusal| refusal.outcome != AdmissionOutcome::Denied || refusal.rule == admission::rules::RESTART_ON_CREATE));
        }
    }

    #[test]
    fn delegated_replicas_are_never_rendered_and_all_others_are(model in strategy::model()) {
        for desired in render(&of_model(model), &target()).objects {
            if desired.object.kind() != kinds::GRAPH.kind {
                prop_assert_eq!(&desired.replicas, &ReplicaIntents::default());
                continue;
            }
            let spec = GraphSpec::from_value(desired.object.spec()).unwrap();
            let delegated = scaled_components(desired.object.spec()["components"].as_array().unwrap());
            let initial_replicas = desired.replicas.seeds();
            for component in &spec.components {
                let name = component.name.as_str();
                prop_assert_eq!(delegated.contains(name), component.replicas.is_none());
                prop_assert_eq!(delegated.contains(name), initial_replicas.contains_key(name));
            }
            let seeded = GraphSpec::from_value(desired.with_initial_replicas().spec()).unwrap();
            prop_assert!(seeded.components.iter().all(|component| component.replicas.is_some()));
        }
    }

    #[test]
    fn what_is_written_reads_back_the_same(model in strategy::model()) {
        for desired in render(&of_model(model), &target()).objects {
            let text = emit::object_yaml(&desired.object).unwrap();
            let back: Value = serde_saphyr::from_str(&text).unwrap();
            prop_assert_eq!(&back, desired.object.value(), "{}", text);
            // As a reader of YAML 1.1 sees it: `yes` is true, `010` is eight.
            let legacy = serde_saphyr::options! { legacy_octal_numbers: true, strict_booleans: false };
            let back: Value = serde_saphyr::from_str_with_options(&text, legacy).unwrap();
            prop_assert_eq!(&back, desired.object.value(), "{}", text);
        }
    }
}

//! A cluster whose definitions change while a controller runs, so that it would drop what is written to it.

use super::objects::{Stage, hosted, spec};
use super::{head, scale};
use crate::testbed::{self, ControlPlane, Programs, until};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

const PLACE: &str = "unfit";

/// Stores graphs at this version, with no conversion between versions: what a webhook that went leaves.
fn store_graphs_as(stage: &Stage<'_>, stored: &str) {
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let name = "dynamographdeployments.nvidia.com";
    let mut definition = stage.runtime.block_on(definitions.get(name)).unwrap();
    for version in &mut definition.spec.versions {
        version.storage = version.name == stored;
    }
    let patch = Patch::Merge(json!({"spec": {"versions": definition.spec.versions}}));
    stage.runtime.block_on(definitions.patch(name, &PatchParams::default(), &patch)).unwrap();
}

/// Row E4 of the review: the definitions were judged at the start only, and a conversion webhook that goes later prunes fields.
#[test]
fn a_cluster_that_would_drop_fields_later_is_not_written_to_until_it_would_not() {
    // The definitions are those of everybody on a server.
    let plane = match Programs::find().and_then(|programs| ControlPlane::start(&programs)) {
        Ok(plane) => plane,
        Err(reason) if testbed::required() => panic!("{reason}"),
        Err(reason) => return testbed::say(&format!("SKIPPED: {reason}")),
    };
    let stage = Stage::on(&plane);
    stage.namespace(PLACE);
    let (bench, git) = hosted(1);
    stage.declare(PLACE, "models", spec(&git, &json!({"targetNamespace": PLACE})));
    let arguments = ["--watch-namespace", PLACE, "--lease-namespace", PLACE];
    let mut controller = stage.run(&bench, "controller", "controller", &arguments);
    until("the graph is there", || stage.graphs(PLACE) == ["mock-0"]);
    let before = stage.replicas(PLACE, "mock-0");
    assert!(before.contains("\"replicas\":2"), "{before}");

    store_graphs_as(&stage, "v1alpha1");
    let second = scale(&bench, 0, 4);
    assert_eq!(second, head(&bench));
    controller.hears(&["nothing is written: the cluster stores DynamoGraphDeployment as v1alpha1", "dynamo-platform"]);

    store_graphs_as(&stage, "v1beta1");
    assert_eq!(stage.replicas(PLACE, "mock-0"), before, "nothing was written meanwhile");
    scale(&bench, 0, 5);
    until("what is written is kept", || stage.replicas(PLACE, "mock-0").contains("\"replicas\":5"));
    assert_eq!(controller.end().code(), Some(0));
}

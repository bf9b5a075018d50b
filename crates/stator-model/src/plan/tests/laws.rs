//! What holds whatever is changed.

use super::world::*;
use crate::plan::HoldKind;
use crate::render::RenderedModel;
use proptest::prelude::*;
use serde_json::json;

/// A model with anything about it that a revision may change in place or by replacement.
fn model(name: &'static str) -> impl Strategy<Value = RenderedModel> {
    (1_u64..4, 0_u64..3, 0_u8..3, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        move |(replicas, gpus, image, split, scaled, adapter)| {
            let image = format!("vllm:1.2.{image}");
            let mut decode = worker("decode", replicas, gpus, &image);
            if scaled {
                decode["scalingAdapter"] = json!({});
                decode.as_object_mut().unwrap().remove("replicas");
            }
            let mut workers = vec![decode];
            if split {
                workers.insert(0, worker("prefill", 1, gpus, &image));
            }
            let mut rendered = graph(name, workers);
            if scaled {
                rendered.objects[0].initial_replicas = [("decode".to_owned(), replicas)].into();
            }
            if adapter { with_adapter(rendered, &format!("{name}-sql")) } else { rendered }
        },
    )
}

fn repository() -> impl Strategy<Value = Vec<RenderedModel>> {
    // One model always stays: an empty render never prunes.
    (model("always"), proptest::option::of(model("a")), proptest::option::of(model("b")))
        .prop_map(|(always, a, b)| [Some(always), a, b].into_iter().flatten().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    /// A plan that was carried out leaves nothing to do, through any history of revisions and drift.
    #[test]
    fn carrying_a_plan_out_leaves_nothing_to_do(
        revisions in proptest::collection::vec(repository(), 1..4),
        drift in any::<bool>(),
    ) {
        let mut story = PlanScenario::of([]);
        story.allow = vec![HoldKind::Replace, HoldKind::MassDelete];
        for revision in revisions {
            story.rendered = revision;
            if drift && !story.live.is_empty() && story.live.values().any(|one| one.name() == "always") {
                story.tamper("DynamoGraphDeployment", "always", |value| value["spec"]["components"][0]["replicas"] = json!(9));
            }
            story.sync();
            let writes = story.writes;
            let plan = story.plan();
            story.carry_out(&plan);
            prop_assert_eq!(story.writes, writes);
            prop_assert!(plan.changes.iter().all(|change| change.action == crate::plan::Action::Keep));
        }
    }
}

//! Plans that the tests of every face share.

use crate::plan::{
    Action, Change, ChangeReason, Cost, Disruption, FieldChange, GpuTotals, Hold, HoldKind, Plan, PlanOwnership,
    Summary,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use stator_core::dynamo::disruption::DisruptionNote;
use stator_core::finding::{Finding, Location, Rule};
use stator_core::object::{FieldPath, ObjectRef, PathSegment};
use std::collections::BTreeMap;

/// The rule of the sample's warning.
pub const CAPACITY: Rule = Rule { id: "plan/capacity", summary: "A rollout fits into the GPUs there are." };

/// A change of one object, with nothing in it.
pub fn change(model: &str, kind: &str, name: &str, action: Action) -> Change {
    let object = ObjectRef {
        api_version: "nvidia.com/v1beta1".into(),
        kind: kind.into(),
        namespace: "prod".into(),
        name: name.into(),
    };
    Change { action, ..Change::new(model, &format!("models/{model}/model.yaml"), object) }
}

/// A plan with these changes and nothing else.
pub fn of(changes: Vec<Change>) -> Plan {
    let number = |action| changes.iter().filter(|change| change.action == action).count();
    let summary = Summary {
        create: number(Action::Create),
        update: number(Action::Update),
        replace: number(Action::Replace),
        delete: number(Action::Delete),
        deleting: number(Action::Deleting),
        left_behind: number(Action::LeftBehind),
        adopt: number(Action::Adopt),
        keep: number(Action::Keep),
        blocked: number(Action::Blocked),
        ..Summary::default()
    };
    Plan {
        api_version: "stator.dev/v1alpha1",
        kind: "Plan",
        repository: "models".into(),
        environment: "prod".into(),
        revision: "3f2a91c0000000000000000000000000000000ab".into(),
        base: "live".into(),
        digest: "9b1e44aa00112233".into(),
        summary,
        changes,
        holds: Vec::new(),
        held: crate::plan::HeldChanges::default(),
        retired: Vec::new(),
        renames: BTreeMap::new(),
        upgrade: None,
        elsewhere: Vec::new(),
        folder: None,
        ownership: PlanOwnership::default(),
        intents: BTreeMap::new(),
        findings: Vec::new(),
    }
}

fn cost(before: f64, after: f64, unpriced: &[&str]) -> Cost {
    Cost {
        currency: "$".into(),
        before_hour: before,
        after_hour: after,
        delta_hour: after - before,
        delta_month: (after - before) * 730.0,
        unpriced: unpriced.iter().map(|sku| (*sku).to_owned()).collect(),
    }
}

/// An update that rolls workers, a new adapter, a deletion that is held back, and an unchanged object.
pub fn plan() -> Plan {
    let decode = FieldPath::from_fields(["spec", "components"]).join(PathSegment::Key(BTreeMap::from([(
        "name".to_owned(),
        stator_core::object::KeyValue::new(&json!("decode")),
    )])));
    let field =
        |path: FieldPath, old: Value, new: Value, owner: &str| FieldChange { path, old, new, owner: owner.into() };
    let update = Change {
        disruption: Disruption::ManagedRoll,
        fields: vec![
            field(decode.field("image"), json!("vllm-runtime:1.1.0"), json!("vllm-runtime:1.1.1"), "stator"),
            field(decode.field("replicas"), json!(2), json!(3), "kubectl-edit"),
        ],
        gpus: GpuTotals { before: 12, after: 16, peak: 22 },
        gpu_sku: Some("h200_sxm".into()),
        gpus_by_sku: BTreeMap::from([("h200_sxm".to_owned(), GpuTotals { before: 12, after: 16, peak: 22 })]),
        gpu_range: Some(crate::plan::GpuRange { min: 8, max: 32 }),
        cost: Some(cost(42.0, 56.0, &[])),
        reasons: vec![ChangeReason::Disrupts(DisruptionNote::WorkersRoll {
            components: vec!["decode".to_owned(), "prefill".to_owned()],
        })],
        before: Some(json!({"spec": {"components": [{"name": "decode", "replicas": 2}]}}).into()),
        after: Some(json!({"spec": {"components": [{"name": "decode", "replicas": 3}]}}).into()),
        ..change("llama-3-70b", "DynamoGraphDeployment", "llama-3-70b", Action::Update)
    };
    let adapter = Change {
        disruption: Disruption::AdapterOnly,
        after: Some(json!({"spec": {"baseModelName": "Qwen/Qwen3-8B"}}).into()),
        ..change("qwen3-8b", "DynamoModel", "qwen3-8b-sql-assist-v4", Action::Create)
    };
    let gone = Change {
        disruption: Disruption::Delete,
        gpus: GpuTotals { before: 8, after: 0, peak: 8 },
        gpu_sku: Some("h100_sxm".into()),
        gpus_by_sku: BTreeMap::from([("h100_sxm".to_owned(), GpuTotals { before: 8, after: 0, peak: 8 })]),
        before: Some(json!({"spec": {}}).into()),
        ..change("old", "DynamoGraphDeployment", "old", Action::Delete)
    };
    let mut plan = of(vec![update, adapter, change("tiny", "DynamoGraphDeployment", "tiny", Action::Keep), gone]);
    plan.summary.gpus = GpuTotals { before: 21, after: 17, peak: 31 };
    plan.summary.gpus_by_sku = BTreeMap::from([
        ("h200_sxm".to_owned(), GpuTotals { before: 12, after: 16, peak: 22 }),
        ("h100_sxm".to_owned(), GpuTotals { before: 8, after: 0, peak: 8 }),
        ("unknown".to_owned(), GpuTotals { before: 1, after: 1, peak: 1 }),
    ]);
    plan.summary.cost = Some(cost(42.0, 56.0, &["l40s"]));
    plan.holds.push(Hold {
        kind: HoldKind::MassDelete,
        message: "1 of 4 objects would be deleted, 0 are let through".into(),
        help: "pass `--allow mass-delete` once you are sure".into(),
        allowed: false,
    });
    plan.findings.push(Finding::warning(
        CAPACITY,
        Location { file: "models/llama-3-70b/model.yaml".into(), line: 9, column: 5, length: 3 },
        "peak needs 22 H200, 20 are allowed",
        "set rollout {maxSurge: 0, maxUnavailable: 1}",
    ));
    plan
}

/// A plan in which nothing changes.
pub fn unchanged() -> Plan {
    of(vec![
        change("a", "DynamoGraphDeployment", "a", Action::Keep),
        change("b", "DynamoGraphDeployment", "b", Action::Keep),
    ])
}

/// Texts that try to break out of whatever they are shown in.
pub fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[`\n|<>@ ]{0,40}",
        Just("\n```\n</details><script>".to_owned()),
        Just("````\n\u{1b}[2J\r\n".to_owned()),
        Just("a\\| b <img src=x> @team #1 !2 [x](https://e.vil) ![y](z) www.e.vil -->".to_owned()),
        Just("\\`| `</summary></details>\n\n# x\n\n| a |\n|-|\n".to_owned()),
        (1usize..20_000).prop_map(|length| "`x@\n".repeat(length / 4)),
    ]
}

/// A plan all of whose words are hostile.
pub fn hostile_plan() -> impl Strategy<Value = Plan> {
    let texts = proptest::collection::vec(hostile(), 10);
    let action = prop_oneof![Just(Action::Update), Just(Action::Delete), Just(Action::Create), Just(Action::Blocked)];
    (texts, action, 1usize..6).prop_map(|(texts, action, copies)| {
        let mut change = change(&texts[0], &texts[1], &texts[2], action);
        change.source = texts[3].clone();
        change.reasons = vec![ChangeReason::RequestFailed { message: texts[4].clone() }];
        change.fields = vec![FieldChange {
            path: FieldPath::from_fields([texts[5].clone()]),
            old: json!(texts[6]),
            new: json!({texts[7].clone(): texts[8].clone()}),
            owner: texts[9].clone(),
        }];
        change.gpu_sku = Some(texts[1].clone());
        change.before = Some(json!({"a": texts[6], texts[5].clone(): 1}).into());
        change.after = Some(json!({"a": texts[8]}).into());
        let mut plan = of(vec![change; copies]);
        plan.environment = texts[2].clone();
        plan.repository = texts[1].clone();
        plan.base = texts[3].clone();
        plan.revision = texts[4].clone();
        plan.holds.push(Hold {
            kind: HoldKind::Replace,
            message: texts[0].clone(),
            help: texts[9].clone(),
            allowed: false,
        });
        plan.findings =
            vec![Finding::error(CAPACITY, Location::file(texts[3].clone()), texts[7].clone(), texts[8].clone())];
        plan
    })
}

//! What happens to fields and their owners when people, an operator and stator write the same object.

use crate::fields::{ApplyError, ApplyInput, apply, bundled_schema, diff, managers, owners_of, restrict_to, update};
use crate::object::{FieldPath, Object};
use serde_json::{Value, json};

/// One graph in a cluster, and a clock that moves with every write.
struct Scene {
    live: Option<Value>,
    minute: u32,
}

impl Scene {
    fn new() -> Self {
        Self { live: None, minute: 0 }
    }

    fn schema() -> &'static crate::fields::StructuralSchema {
        bundled_schema("nvidia.com/v1beta1", "DynamoGraphDeployment").expect("bundled")
    }

    fn tick(&mut self) -> String {
        self.minute += 1;
        format!("2026-01-01T00:{:02}:00Z", self.minute)
    }

    fn send(&mut self, manager: &str, config: Value, force: bool, status: bool) -> String {
        let now = self.tick();
        let (schema, live) = (Self::schema(), self.live.as_ref());
        match apply(&ApplyInput { schema, live, config: &config, manager, force, status, now: &now }) {
            Ok(result) => {
                self.live = Some(result.object);
                if result.changed { "written".to_owned() } else { "unchanged".to_owned() }
            }
            Err(fault) => fault.to_string(),
        }
    }

    fn apply(&mut self, manager: &str, spec: Value) -> String {
        self.send(manager, graph(spec), false, false)
    }

    fn force(&mut self, manager: &str, spec: Value) -> String {
        self.send(manager, graph(spec), true, false)
    }

    /// A plain write of the whole object, as an editor or an operator does it.
    fn edit(&mut self, manager: &str, status: bool, change: impl FnOnce(&mut Value)) {
        let now = self.tick();
        let mut new = self.live.clone().expect("an object");
        change(&mut new);
        self.live = Some(update(Self::schema(), self.live.as_ref().expect("an object"), new, manager, status, &now));
    }

    fn spec(&self) -> String {
        self.live.as_ref().expect("an object")["spec"].to_string()
    }

    /// Every manager with its time and fields, in the order they are written.
    fn owners(&self) -> String {
        let object = Object::from_value(self.live.clone().expect("an object")).expect("an object");
        let lines = managers(&object).expect("readable owners").into_iter().map(|manager| {
            let fields: Vec<String> = manager.fields.leaves().map(|path| path.to_string()).collect();
            let of = manager.subresource.as_deref().map(|name| format!("/{name}")).unwrap_or_default();
            let time = manager.time.as_deref().and_then(|time| time.get(14..16)).unwrap_or("-");
            format!("{}{of} {} {time}: {}", manager.name, manager.operation.name(), fields.join(" "))
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn graph(spec: Value) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": "llama", "namespace": "prod"}, "spec": spec,
    })
}

fn decode(fields: Value) -> Value {
    let mut item = json!({"name": "decode"});
    item.as_object_mut().expect("a map").extend(fields.as_object().expect("a map").clone());
    json!({"components": [item]})
}

#[test]
fn an_autoscaler_takes_the_replicas_and_keeps_them() {
    let mut scene = Scene::new();
    assert_eq!(scene.apply("stator", decode(json!({"type": "decode", "replicas": 2}))), "written");
    scene.edit("planner", false, |graph| graph["spec"]["components"][0]["replicas"] = json!(5));
    insta::assert_snapshot!(scene.owners(), @"
    stator Apply 01: spec.components[name=decode].name spec.components[name=decode].type
    planner Update 02: spec.components[name=decode].replicas
    ");

    let refused = scene.apply("stator", decode(json!({"type": "decode", "replicas": 2})));
    insta::assert_snapshot!(refused, @"1 field would change and other managers own them: spec.components[name=decode].replicas (planner)");
    assert_eq!(scene.apply("stator", decode(json!({"type": "decode"}))), "unchanged");
    insta::assert_snapshot!(scene.spec(), @r#"{"components":[{"name":"decode","replicas":5,"type":"decode"}]}"#);

    // The same value is no dispute: both own it then.
    assert_eq!(scene.apply("stator", decode(json!({"type": "decode", "replicas": 5}))), "written");
    insta::assert_snapshot!(scene.owners(), @"
    stator Apply 01: spec.components[name=decode].name spec.components[name=decode].replicas spec.components[name=decode].type
    planner Update 02: spec.components[name=decode].replicas
    ");
    assert_eq!(scene.force("stator", decode(json!({"type": "decode", "replicas": 3}))), "written");
    insta::assert_snapshot!(scene.owners(), @"stator Apply 06: spec.components[name=decode].name spec.components[name=decode].replicas spec.components[name=decode].type");
}

#[test]
fn replicas_are_handed_over_without_a_gap() {
    let mut scene = Scene::new();
    scene.apply("stator", decode(json!({"type": "decode", "replicas": 4})));
    scene.apply("stator-initial-replicas", decode(json!({"replicas": 4})));
    assert_eq!(scene.apply("stator", decode(json!({"type": "decode"}))), "written");
    insta::assert_snapshot!(scene.spec(), @r#"{"components":[{"name":"decode","replicas":4,"type":"decode"}]}"#);
    // Under one manager the value would have gone with the field.
    scene.apply("stator-initial-replicas", decode(json!({})));
    insta::assert_snapshot!(scene.spec(), @r#"{"components":[{"name":"decode","type":"decode"}]}"#);
}

#[test]
fn an_omitted_component_goes_with_what_others_put_into_it_unless_they_apply_it_too() {
    let mut scene = Scene::new();
    let both = json!({"components": [{"name": "frontend", "replicas": 1}, {"name": "decode", "replicas": 1}]});
    scene.apply("stator", both.clone());
    scene.apply("stator", json!({"components": [{"name": "frontend", "replicas": 1}]}));
    insta::assert_snapshot!(scene.spec(), @r#"{"components":[{"name":"frontend","replicas":1}]}"#);

    scene.apply("stator", both.clone());
    scene.edit("kubectl-edit", false, |graph| graph["spec"]["components"][1]["type"] = json!("decode"));
    scene.apply("stator", json!({"components": [{"name": "frontend", "replicas": 1}]}));
    insta::assert_snapshot!(scene.spec(), @r#"{"components":[{"name":"frontend","replicas":1}]}"#);

    scene.apply("stator", both.clone());
    scene.apply("team", decode(json!({"type": "decode"})));
    scene.apply("stator", json!({"components": [{"name": "frontend", "replicas": 1}]}));
    insta::assert_snapshot!(scene.spec(), @r#"{"components":[{"name":"frontend","replicas":1},{"name":"decode","type":"decode"}]}"#);
}

#[test]
fn an_edit_takes_an_atomic_list_as_a_whole() {
    let mut scene = Scene::new();
    let args = |args: Value| decode(json!({"podTemplate": {"spec": {"containers": [{"name": "main", "args": args}]}}}));
    scene.apply("stator", args(json!(["--tp", "8"])));
    scene.edit("kubectl-edit", false, |graph| {
        graph["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]["args"] = json!(["--tp", "4"]);
    });
    let object = Object::from_value(scene.live.clone().expect("an object")).expect("an object");
    let owners = managers(&object).expect("readable owners");
    let mine = owners.iter().find(|manager| manager.name == "stator").expect("stator still owns the rest");
    insta::assert_snapshot!(restrict_to(Scene::schema(), object.value(), &mine.fields), @r#"{"spec":{"components":[{"name":"decode","podTemplate":{"spec":{"containers":[{"name":"main"}]}}}]}}"#);
    let desired = graph(args(json!(["--tp", "8"])));
    let found = diff(Scene::schema(), &object.value()["spec"], &desired["spec"]);
    assert!(!found.is_empty());
    let found = diff(Scene::schema(), object.value(), &desired);
    let changed = found.iter().find(|difference| difference.path.last_field() == Some("args")).expect("the drift");
    insta::assert_snapshot!(changed.path, @"spec.components[name=decode].podTemplate.spec.containers[name=main].args");
    assert_eq!(owners_of(&owners, &changed.path), ["kubectl-edit"]);
    assert_eq!(changed.old, Some(json!(["--tp", "4"])));
}

#[test]
fn the_operator_owns_status_and_nothing_else_can_write_it() {
    let mut scene = Scene::new();
    let mut config = graph(decode(json!({})));
    config["status"] = json!({"state": "successful"});
    scene.send("stator", config, false, false);
    assert_eq!(scene.live.as_ref().expect("an object").get("status"), None);

    scene.edit("manager", true, |graph| {
        graph["status"] = json!({"state": "pending", "observedGeneration": 1});
        graph["spec"] = json!({});
    });
    insta::assert_snapshot!(scene.spec(), @r#"{"components":[{"name":"decode"}]}"#);
    insta::assert_snapshot!(scene.owners(), @"
    stator Apply 01: spec.components[name=decode].name
    manager/status Update 02: status.observedGeneration status.state
    ");
    // An apply of the main resource neither owns nor moves status.
    scene.apply("stator", decode(json!({"replicas": 2})));
    assert_eq!(scene.live.as_ref().expect("an object")["status"]["state"], "pending");
    let mut status = graph(json!({}));
    status["status"] = json!({"state": "failed"});
    insta::assert_snapshot!(scene.send("stator", status, false, true), @"1 field would change and other managers own them: status.state (manager)");
}

#[test]
fn an_object_from_before_server_side_apply_belongs_to_its_past() {
    let mut scene = Scene { live: Some(graph(decode(json!({"replicas": 2})))), minute: 0 };
    insta::assert_snapshot!(scene.apply("stator", decode(json!({"replicas": 3}))), @"1 field would change and other managers own them: spec.components[name=decode].replicas (before-first-apply)");
    assert_eq!(scene.apply("stator", decode(json!({"replicas": 2}))), "written");
    insta::assert_snapshot!(scene.owners(), @"
    stator Apply -: spec.components[name=decode].name spec.components[name=decode].replicas
    before-first-apply Update 02: spec.components[name=decode].name spec.components[name=decode].replicas
    ");
}

#[test]
fn the_names_of_an_object_belong_to_nobody() {
    let mut scene = Scene::new();
    let mut config = graph(decode(json!({})));
    config["metadata"]["labels"] = json!({"stator.dev/model": "llama"});
    config["metadata"]["uid"] = json!("u");
    scene.send("stator", config, false, false);
    insta::assert_snapshot!(scene.owners(), @r#"stator Apply 01: metadata.labels["stator.dev/model"] spec.components[name=decode].name"#);
}

#[test]
fn more_than_ten_editors_become_ancient_changes() {
    let mut scene = Scene::new();
    scene.apply("stator", decode(json!({})));
    for number in 0..12 {
        scene.edit(&format!("editor-{number:02}"), false, |graph| {
            graph["metadata"]["labels"][format!("l{number:02}")] = json!("x");
        });
    }
    let owners = scene.owners();
    assert_eq!(owners.lines().filter(|line| line.contains(" Update ")).count(), 10);
    insta::assert_snapshot!(owners.lines().nth(1).unwrap_or_default(), @"ancient-changes Update 04: metadata.labels.l00 metadata.labels.l01 metadata.labels.l02");
}

#[test]
fn damaged_ownership_records_are_named_and_never_guessed_at() {
    let mut scene = Scene::new();
    scene.apply("stator", decode(json!({})));
    if let Some(live) = &mut scene.live {
        live["metadata"]["managedFields"][0]["fieldsV1"] = json!({"f:spec": {"q": {}}});
    }
    insta::assert_snapshot!(scene.apply("stator", decode(json!({"replicas": 1}))), @"metadata.managedFields[0]: `q` is not a field of a `fieldsV1`");
}

#[test]
fn what_does_not_fit_the_schema_is_named_before_anything_is_merged() {
    let mut scene = Scene::new();
    let answer = scene.apply("stator", json!({"components": [{"name": "a", "replica": 1}, {"name": "a"}], "x": {}}));
    insta::assert_snapshot!(answer, @"failed to create typed patch object: spec.components[name=a]: duplicate entries for key [name=\"a\"]; spec.components[name=a].replica: field not declared in schema; spec.x: field not declared in schema");
    let mut config = graph(json!({}));
    config["metadata"]["managedFields"] = json!([]);
    insta::assert_snapshot!(scene.send("stator", config, false, false), @"failed to create typed patch object: metadata.managedFields: metadata.managedFields must be nil");
    let mut deep = json!(1);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let refused = scene.apply("stator", json!({"components": [deep]}));
    assert!(refused.contains("components"), "{refused}");
    assert!(matches!(
        apply(&ApplyInput {
            schema: Scene::schema(),
            live: None,
            config: &graph(json!({})),
            manager: "stator",
            force: false,
            status: true,
            now: "2026-01-01T00:00:00Z",
        }),
        Err(ApplyError::ObjectNotFound)
    ));
}

#[test]
fn a_new_order_is_a_difference_and_a_number_is_its_value() {
    let graph = |components: Value| graph(json!({"components": components}));
    let found = |a: Value, b: Value| {
        let found = diff(Scene::schema(), &graph(a), &graph(b));
        found.iter().map(|difference| difference.path.to_string()).collect::<Vec<_>>().join(" ")
    };
    let a = || json!({"name": "a", "replicas": 1});
    let b = || json!({"name": "b"});
    assert_eq!(found(json!([a(), b()]), json!([b(), a()])), "spec.components");
    assert_eq!(found(json!([a(), b()]), json!([b()])), "spec.components[name=a]");
    assert_eq!(found(json!([a()]), json!([{"name": "a", "replicas": 1.0}])), "");
    assert_eq!(found(json!([a()]), json!([{"name": "a", "replicas": 2}])), "spec.components[name=a].replicas");
    assert!(owners_of(&[], &FieldPath::from_fields(["spec"])).is_empty());
}

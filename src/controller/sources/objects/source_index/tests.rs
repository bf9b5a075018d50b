use super::*;
use serde_json::{Value, json};
use stator_core::object::Object;

/// A namespace that is somebody else's, and sources that run elsewhere.
#[derive(Default)]
struct Mine {
    not_ours: BTreeSet<String>,
    elsewhere: BTreeSet<String>,
}

impl SourceScope for Mine {
    fn covers_namespace(&self, namespace: &str) -> bool {
        !self.not_ours.contains(namespace)
    }

    fn runs_source(&self, key: &SourceKey) -> bool {
        !self.elsewhere.contains(&key.to_string())
    }
}

/// An index, a clock, and the secrets of a cluster.
struct Scene {
    index: SourceIndex,
    mine: Mine,
    now: Instant,
    secrets: BTreeMap<String, SecretReadResult>,
    reads: usize,
    made: i64,
}

impl Scene {
    fn new() -> Self {
        Self::of(ControllerRole::Controller)
    }

    fn of(role: ControllerRole) -> Self {
        let index = SourceIndex::new(role, TenancyPolicy::default(), true);
        let secrets = BTreeMap::new();
        Self { index, mine: Mine::default(), now: Instant::now(), secrets, reads: 0, made: 0 }
    }

    fn secret(&mut self, name: &str, value: &str) {
        let key = name.rsplit('/').next().unwrap();
        let values = [("bearerToken".to_owned(), value.into()), ("token".to_owned(), value.into())];
        self.secrets.insert(name.to_owned(), SecretReadResult::Values(SecretValues::new(key, values)));
    }

    fn resource(&mut self, name: &str, spec: Value) -> ModelSourceObject {
        self.made += 1;
        let (namespace, name) = name.split_once('/').unwrap();
        let mut whole = json!({"url": "https://h/a/b.git", "ref": {"branch": "main"}, "environment": name});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let created = format!("2026-01-01T00:00:{:02}Z", self.made);
        let metadata = json!({
            "name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"), "generation": self.made,
            "creationTimestamp": created, "resourceVersion": self.made.to_string(),
        });
        let value =
            json!({"apiVersion": "stator.dev/v1alpha1", "kind": "ModelSource", "metadata": metadata, "spec": whole});
        ModelSourceObject::new(Object::from_value(value).unwrap())
    }

    fn set(&mut self, name: &str, spec: Value) {
        let resource = self.resource(name, spec);
        assert!(self.index.apply_object(resource).is_empty());
    }

    fn annotate(&mut self, name: &str, annotation: &str, value: &str) -> usize {
        let (namespace, own) = name.split_once('/').unwrap();
        let known = &self.index.known[&SourceKey::new(namespace, own)];
        let mut resource = (*known.resource).clone();
        resource.annotations.insert(annotation.to_owned(), value.to_owned());
        self.index.apply_object(resource).len()
    }

    /// Reads the secrets that are to be read, and says what is wanted then.
    fn settled(&mut self) -> String {
        let (needs, _) = self.index.take_due_reads(&self.mine, self.now);
        for need in needs {
            let of = |name: &String| {
                let found = self
                    .secrets
                    .get(&format!("{}/{name}", need.key.namespace))
                    .cloned()
                    .unwrap_or(SecretReadResult::Missing);
                (name.clone(), found)
            };
            self.reads += need.version.names.len();
            let found = need.version.names.iter().map(of).collect();
            self.index.record_read(&need, found, self.now);
        }
        let wanted = self.index.resolve_sources(&self.mine);
        let mut lines: Vec<String> = wanted.sources.iter().map(|source| format!("{} runs", source.key)).collect();
        lines.extend(
            wanted
                .rejected
                .iter()
                .map(|(key, held)| format!("{key} is held, {}: {}", held.reason.as_str(), held.message)),
        );
        lines.extend(wanted.remarks.iter().map(|(key, remarks)| format!("{key} is told: {}", remarks.join(" | "))));
        lines.extend(wanted.relayed.iter().map(|one| format!("{} is relayed", one.key)));
        lines.sort();
        lines.join("\n")
    }

    fn later(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

#[test]
fn one_that_cannot_be_read_stops_nothing_else() {
    let mut scene = Scene::new();
    scene.set("a/fine", json!({}));
    scene.set("a/hostile", json!({"url": {"x": 1}, "ref": []}));
    scene.set("a/later", json!({"fromAFutureVersion": true}));
    scene.set("b/grasping", json!({"targetNamespace": "a"}));
    insta::assert_snapshot!(scene.settled(), @"
    a/fine runs
    a/hostile is held, InvalidSpec: spec.ref: `spec.ref` is a list; expected `{branch}`, or `{tag}`, or `{commit}`, or `{semver}`. Use one of these formats. spec.url: `spec.url` is a map; expected text. Write text instead of a map.
    a/later is held, InvalidSpec: spec.fromAFutureVersion: unknown field `fromAFutureVersion` in `spec`; allowed: `allowInsecure`, `allowLocal`, `environment`, `forge`, `guards`, `interval`, `notifications`, `path`, `previewForks`, `previewLimit`, `previews`, `prune`, `ref`, `schedule`, `secretRef`, `selfHeal`, `serviceAccountName`, `statusPerModel`, `suspend`, `targetNamespace`, `timeZone`, `timeout`, `url`, `verify`, `webhook`, `windows`. Remove it, or move it to where it belongs: check the indentation.
    b/grasping is held, AccessDenied: it is for namespace `a`, but this source may use only its own, `b`; set `spec.serviceAccountName` to an account that has rights there, or `spec.targetNamespace` to the source's own namespace
    ");
    // Mended, it runs; broken again, it ends.
    scene.set("a/later", json!({}));
    assert!(scene.settled().contains("a/later runs"));
    scene.set("a/fine", json!({"interval": "soon"}));
    assert!(scene.settled().contains("a/fine is held, InvalidSpec"));
}

#[test]
fn a_missing_secret_holds_its_source_only_and_is_looked_for_again() {
    let mut scene = Scene::new();
    scene.set("a/one", json!({"secretRef": {"name": "git"}}));
    scene.set("a/two", json!({}));
    insta::assert_snapshot!(scene.settled(), @r#"
        a/one is held, SecretMissing: there is no secret `git` in namespace `a`; create it, or correct the name
        a/two runs
        "#);
    scene.secret("a/git", "canary");
    // Not at once, and not oftener than once a minute.
    assert!(!scene.settled().contains("a/one runs"));
    assert_eq!(scene.reads, 1);
    scene.later(80);
    assert!(scene.settled().contains("a/one runs"));
    assert_eq!(scene.reads, 2);
    // And then no more.
    scene.later(10_000);
    scene.settled();
    assert_eq!(scene.reads, 2);
}

#[test]
fn secrets_are_read_again_when_somebody_asks_or_when_they_may_be_what_fails() {
    let mut scene = Scene::new();
    scene.secret("a/git", "first");
    scene.set("a/one", json!({"secretRef": {"name": "git"}}));
    assert_eq!(scene.settled(), "a/one runs");
    let first = scene.index.last_sources.values().next().unwrap().clone();
    scene.secret("a/git", "second");
    scene.later(1000);
    scene.settled();
    assert!(first.is_same_as(scene.index.last_sources.values().next().unwrap()), "a steady state reads nothing");
    assert_eq!(scene.reads, 1);

    scene.annotate("a/one", manual_requests::REQUESTED_AT_ANNOTATION, "now");
    scene.settled();
    let second = scene.index.last_sources.values().next().unwrap().clone();
    assert!(!first.is_same_as(&second), "another secret makes it another source");

    // The login is refused: once now, as the last time is long ago, and then once a minute.
    scene.later(1000);
    for _ in 0..5 {
        scene.index.schedule_rereads(&[SourceKey::new("a", "one")], scene.now);
        scene.settled();
    }
    assert_eq!(scene.reads, 3);
    scene.later(80);
    scene.settled();
    assert_eq!(scene.reads, 4);
}

#[test]
fn while_secrets_are_read_and_when_nobody_answers_what_ran_goes_on() {
    let mut scene = Scene::new();
    scene.secret("a/git", "first");
    scene.set("a/one", json!({"secretRef": {"name": "git"}}));
    assert_eq!(scene.settled(), "a/one runs");
    scene.later(5);
    scene.secrets.insert("a/git".to_owned(), SecretReadResult::Unanswered("the API server does not answer".to_owned()));
    scene.set("a/one", json!({"secretRef": {"name": "git"}, "interval": "9m"}));
    let wanted = scene.index.resolve_sources(&scene.mine);
    assert_eq!(wanted.sources[0].spec.interval, None, "until its secrets are read the old version goes on");
    assert_eq!(scene.settled(), "a/one runs");
    // One that never ran says what it waits for.
    scene.set("a/two", json!({"secretRef": {"name": "git"}}));
    insta::assert_snapshot!(scene.settled(), @r#"
        a/one runs
        a/two is held, SecretUnread: the API server does not answer
        "#);
    scene.secret("a/git", "second");
    scene.later(60);
    insta::assert_snapshot!(scene.settled(), @r#"
        a/one runs
        a/two runs
        "#);
}

#[test]
fn of_two_that_sync_the_same_the_older_works() {
    let mut scene = Scene::new();
    let same = json!({"environment": "prod"});
    scene.set("a/old", same.clone());
    scene.set("a/young", same.clone());
    // Another tenant's source goes to another namespace, so nobody is in anybody's way.
    scene.set("b/other", same);
    insta::assert_snapshot!(scene.settled(), @r#"
        a/old is told: `young` of the same target is rejected, because this one is older
        a/old runs
        a/young is held, Duplicate: `old` syncs the same environment of the same repository into the same namespace, and is older; keep one of them, because each would undo the changes of the other
        b/other runs
        "#);
    scene.index.remove_object(&SourceKey::new("a", "old"), "another one of that name");
    assert!(scene.settled().contains("a/old runs"));
    scene.index.remove_object(&SourceKey::new("a", "old"), "a-old");
    assert!(scene.settled().contains("a/young runs"));
}

#[test]
fn whoever_lives_in_a_namespace_is_not_kept_from_it_by_a_neighbour() {
    let mut scene = Scene::new();
    let into = json!({"environment": "prod", "targetNamespace": "victim", "serviceAccountName": "own"});
    scene.set("squatter/first", into.clone());
    scene.set("victim/models", into);
    insta::assert_snapshot!(scene.settled(), @r#"
        squatter/first is held, Duplicate: another source syncs the same environment of the same repository into namespace `victim`; each would undo the changes of the other
        victim/models runs
        "#);
    // Where the repository says which namespace, nothing is known of the other's, and nothing is said.
    let mut scene = Scene::new();
    let spec = json!({"environment": "prod", "serviceAccountName": "own"});
    scene.set("squatter/first", spec.clone());
    scene.set("victim/models", spec);
    assert_eq!(scene.settled(), "squatter/first runs\nvictim/models runs");
}

#[test]
fn sources_of_others_are_left_alone_and_their_webhooks_are_taken() {
    let mut scene = Scene::new();
    scene.secret("a/hook", "canary");
    let hook =
        json!({"secretRef": {"name": "git"}, "forge": {"type": "gitea"}, "webhook": {"secretRef": {"name": "hook"}}});
    scene.set("a/elsewhere", hook.clone());
    scene.set("shut/one", hook.clone());
    scene.mine.elsewhere.insert("a/elsewhere".to_owned());
    scene.mine.not_ours.insert("shut".to_owned());
    assert_eq!(scene.settled(), "a/elsewhere is relayed");
    assert_eq!(scene.reads, 1, "no secret but the webhook's");
    // It comes here: now all its secrets are read.
    scene.mine.elsewhere.clear();
    scene.secret("a/git", "canary");
    scene.later(2);
    assert_eq!(scene.settled(), "a/elsewhere runs");
    scene.mine.not_ours.clear();
    scene.secret("shut/hook", "canary");
    scene.secret("shut/git", "canary");
    assert_eq!(scene.settled(), "a/elsewhere runs\nshut/one runs");

    let mut server = Scene::of(ControllerRole::Server);
    server.secret("a/hook", "canary");
    server.set("a/one", hook);
    server.set("a/two", json!({}));
    assert_eq!((server.settled().as_str(), server.reads), ("a/one is relayed", 1));
}

#[test]
fn hints_are_told_once_and_those_from_before_the_start_not_at_all() {
    let mut scene = Scene::new();
    let batch = |id: &str| {
        let refs = crate::controller::sources::hints::DrainedHints {
            items: BTreeSet::from(["refs/heads/main".to_owned()]),
            everything: false,
        };
        HintBatch::new(id.to_owned(), jiff::Timestamp::now(), refs, Default::default()).unwrap()
    };
    let first = HintAnnotation::default().append_batch(batch("1"));
    let mut old = scene.resource("a/one", json!({}));
    old.annotations.insert(manual_requests::HINTS_ANNOTATION.to_owned(), first.clone());
    assert!(scene.index.apply_object(old).is_empty());
    let second = HintAnnotation::parse(&first).append_batch(batch("2"));
    assert_eq!(scene.annotate("a/one", manual_requests::HINTS_ANNOTATION, &second), 1);
    assert_eq!(scene.annotate("a/one", manual_requests::HINTS_ANNOTATION, &second), 0);
    // A watch that was lost misses versions, and finds what was in them.
    let mut resource = (*scene.index.known.values().next().unwrap().resource).clone();
    resource
        .annotations
        .insert(manual_requests::HINTS_ANNOTATION.to_owned(), HintAnnotation::parse(&second).append_batch(batch("3")));
    assert_eq!(scene.index.replace_all(None, vec![resource]).len(), 1);
}

#[test]
fn what_people_ask_wrongly_is_told() {
    let mut scene = Scene::new();
    scene.set("a/one", json!({}));
    scene.annotate("a/one", manual_requests::ALLOW, "everything");
    insta::assert_snapshot!(scene.settled(), @r#"
        a/one is told: the annotation `stator.dev/allow` names `everything`; known: replace, delete, adopt, move, mass-delete, max-gpus and rollback | the annotation `stator.dev/allow` names no commit and plan in full: write `mass-delete,replace@<commit>:<plan>` as `status.held` has both, or use `stator sync --source`
        a/one runs
        "#);
}

#[test]
fn a_thousand_sources_are_settled_at_once() {
    let mut scene = Scene::new();
    for number in 0..1000 {
        scene.set(&format!("ns-{}/one-{number}", number % 50), json!({"secretRef": {"name": "git"}}));
    }
    (0..50).for_each(|number| scene.secret(&format!("ns-{number}/git"), "canary"));
    assert_eq!(scene.settled().lines().count(), 1000);
    // A list that comes back without some of them ends those, in the namespace that was listed.
    assert!(scene.index.replace_all(Some("ns-7"), Vec::new()).is_empty());
    assert_eq!(scene.settled().lines().count(), 980);
}

/// Whoever runs it, and whatever is wrong with it: an object counts where policies limit how many there may be.
#[test]
fn all_objects_are_in_the_order_of_their_creation() {
    let mut scene = Scene::new();
    scene.mine.elsewhere.insert("a/m-second".to_owned());
    scene.mine.not_ours.insert("b".to_owned());
    scene.set("a/z-first", json!({}));
    scene.set("a/m-second", json!({}));
    scene.set("a/c-third", json!({"interval": "never"}));
    scene.set("b/foreign", json!({}));
    let mut same = scene.resource("a/d-third", json!({}));
    same.created = scene.index.known[&SourceKey::new("a", "c-third")].resource.created;
    scene.index.apply_object(same);
    let mut untimed = scene.resource("a/a-last", json!({}));
    untimed.created = None;
    scene.index.apply_object(untimed);
    let order = scene.index.resolve_sources(&scene.mine).order;
    let shown: Vec<String> = order.iter().map(|(key, destination)| format!("{key} {destination:?}")).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    a/z-first Some("a")
    a/m-second Some("a")
    a/c-third None
    a/d-third Some("a")
    a/a-last Some("a")
    "#);
}

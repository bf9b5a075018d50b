//! Pages as a browser gets them.

use super::*;
use crate::draft::tests::{MODEL, judged};
use crate::facts::{CommitFacts, ModelFacts, ProposalAccess, RevisionFacts};
use crate::form::FormSubmission;
use crate::models::ModelQuery;
use crate::observation::FleetObservation;
use crate::problem::{KINDS, ProblemDetails, ProblemKind, RequestFault};
use crate::samples::{self, fleet, llama, model, now, observation};
use proptest::prelude::*;
use serde_json::json;
use stator_core::dynamo::health::Health;
use stator_core::object::FieldPath;
use stator_model::plan::{Change, FieldChange, FieldDrift, SyncState};
use std::sync::Arc;

/// The texts of a page, without its markup, a line for each line that has any.
fn text_of(html: &str) -> String {
    let main = html.split("<main").nth(1).unwrap().split("</main>").next().unwrap();
    let (mut text, mut inside) = (String::new(), true);
    for c in main.chars() {
        match c {
            '<' => inside = true,
            '>' => {
                inside = false;
                text.push(' ');
            }
            c if !inside => text.push(c),
            _ => {}
        }
    }
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_list_says_what_is_wrong_and_since_when() {
    insta::assert_snapshot!(text_of(&models_page(&fleet(), "", now()).unwrap()), @"
    Models
    Updated 0s ago .
    ✔ 1 Healthy
    ‖ 1 Suspended
    ◌ 1 Progressing
    ? 1 Unknown
    ▲ 1 Degraded
    ✖ 1 Failed
    = 3 Synced
    ? 1 Unknown
    ≠ 1 OutOfSync
    ⊘ 1 Blocked
    ≠ 1 drifted
    Source
    all
    team/fleet
    Namespace
    all
    prod
    GPU
    all
    h200_sxm
    Sort
    worst first
    name
    namespace
    most GPUs first
    most expensive first
    newest change first
    Show
    Clear
    JSON
    1–6 of 6
    Model Health Sync GPUs Rollout Revision Since What to know
    broken ✖ Failed ⊘ Blocked 0 – 3f2a91c 10m all components are ready
    weak ▲ Degraded = Synced 0 – 3f2a91c 10m all components are ready
    mist ? Unknown ? Unknown 0 – 3f2a91c 10m all components are ready
    llama ◌ Progressing 1/2 ≠ OutOfSync (1 field) 12 h200_sxm decode 2/3 3f2a91c 10m waiting for decode (2 of 3 ready): its pods are not available yet
    asleep ‖ Suspended = Synced 0 – 3f2a91c 10m all components are ready
    fine ✔ Healthy = Synced 0 – 3f2a91c 10m all components are ready
    GPUs now: 12 h200_sxm. Cost now: $45.60/h
    ");
    let page = models_page(&fleet(), "q=nobody", now()).unwrap();
    assert!(page.contains("No model matches the filters; there are 6.") && page.contains("value=\"nobody\""), "{page}");
}

#[test]
fn a_model_is_told_on_one_page() {
    insta::assert_snapshot!(text_of(&model_page(&fleet(), "prod", "llama", now()).unwrap()), @"
    prod/llama
    Updated 0s ago .
    Models / prod / llama
    Edit model.yaml Its source Objects down to pods Logs
    ◌ Progressing and OutOfSync for 10m : waiting for decode (2 of 3 ready): its pods are not available yet
    Components 1 of 2 ready
    GPUs 12 h200_sxm
    Cost $45.60/h
    Source team/fleet
    Environment prod
    File models/llama/model.yaml
    Revision 3f2a91c0000000000000000000000000000000ab
    Last sync Succeeded 10m ago
    Created 3d ago (2026-01-01T00:00:00Z)
    Recorded for fleet / prod
    Endpoints
    No route and no frontend is there.
    Components
    Component Graph Ready Rollout GPUs Scale
    frontend llama 1 of 1 ready 1 of 1 0 Propose
    decode llama 2 of 3 ready 2 of 3 12 unknown Propose
    Next sync
    3f2a91c Scale llama to two replicas by Grace Hopper
    1 object would change.
    GPUs 12 now, 8 after, at most 12 during the rollout
    Disruption scale
    Object Change Disruption GPUs Why
    DynamoGraphDeployment prod/llama update scale 12 → 8 drifted: changed in the cluster, not in git spec.components[name=decode].replicas : 3 → 2
    Drift
    Object Field Git has The cluster has Changed by Since
    DynamoGraphDeployment prod/llama spec.components[name=decode].replicas 2 3 kubectl-edit 40m
    Objects
    Object Next sync Health Age Message
    DynamoGraphDeployment llama update ◌ Progressing 3d waiting for decode (2 of 3 ready): its pods are not available yet
    History
    When Result Revision Changes
    10m ago Succeeded 3f2a91c Scale llama to two replicas by Grace Hopper all objects are applied create DynamoGraphDeployment prod/llama
    Events
    When Reason Object Message
    2m ▲ BackOff Pod llama-decode-0 Back-off pulling image (7 times)
    Record
    Status when the record was last written
    Condition Status Reason Since Message
    Ready True Healthy 2d all components are ready
    Commands
    All details of the model
    stator describe llama -e prod
    The results of the last syncs
    stator history llama -e prod
    Its record
    kubectl get models.stator.dev llama -n prod -o yaml
    DynamoGraphDeployment prod/llama
    kubectl describe dynamographdeployments.nvidia.com llama -n prod
    Live objects
    Values that look like secrets are hidden. JSON
    DynamoGraphDeployment prod/llama
    apiVersion: nvidia.com/v1beta1
    kind: DynamoGraphDeployment
    metadata:
    creationTimestamp: &#34;2026-01-01T00:00:00Z&#34;
    name: llama
    namespace: prod
    uid: &#34;7&#34;
    spec:
    components:
    - name: frontend
    - name: decode
    podTemplate:
    spec:
    containers:
    - env:
    - name: HF_TOKEN
    value: &#34;***&#34;
    name: main
    resources:
    limits:
    nvidia.com/gpu: &#34;4&#34;
    replicas: 3
    status:
    components:
    decode:
    readyReplicas: 2
    frontend:
    readyReplicas: 1
    ");
    assert_eq!(model_page(&fleet(), "prod", "nobody", now()).unwrap_err().of, ProblemKind::NotFound);
}

#[test]
fn sources_capacity_and_problems_have_pages() {
    insta::assert_snapshot!(text_of(&sources_page(&fleet(), now())), @"
    Sources
    Updated 0s ago .
    Source Environment Phase Seen Attempted Applied Models Changes What to know
    team/fleet https://git.example.com/team/models.git prod Idle 3f2a91c Scale llama to two replicas by Grace Hopper 20m 3f2a91c Scale llama to two replicas by Grace Hopper 15m – 6 1 llama: Failed: worker-0 is in CrashLoopBackOff
    ");
    insta::assert_snapshot!(text_of(&capacity_page(&fleet(), now())), @"
    Capacity
    Updated 0s ago .
    GPUs by SKU
    SKU Used Peak of pending changes Added by pull requests Allocatable Models What to know
    h200_sxm 12 12 0 – 1 not known: no node names this SKU, or stator may not list nodes; and platform.gpus in stator.yaml does not say
    Cost now: $45.60/h
    ");
    let problem = ModelQuery::parse("helth=Failed").unwrap_err();
    insta::assert_snapshot!(text_of(&problem_page(&problem)), @"
    A parameter is not allowed
    there is no parameter `helth`; allowed: q , health , sync , namespace , source , gpu , drift , pending , commit , sort , limit , continue ; did you mean `health`?
    Correct the named parameter, or omit it.
    ");
    for kind in KINDS.iter().copied() {
        assert!(problem_kind_page(kind.slug()).unwrap().contains(kind.title()));
        assert_eq!(ProblemDetails::new(kind).kind, format!("/problems/{}", kind.slug()));
    }
    assert_eq!(problem_kind_page("other"), None);
    assert!(api_page().contains("GET /api/v1/models/{namespace}/{name}/drift"));
}

/// Who looks may hang, and the page would go on to say what was.
#[test]
fn what_was_read_long_ago_is_not_shown_as_now() {
    let later = now() + jiff::SignedDuration::from_mins(12);
    let described = text_of(&sources_page(&fleet(), later));
    assert!(described.contains("▲ Last updated 12m ago."), "{described}");
    assert!(!text_of(&sources_page(&fleet(), now())).contains("Last updated"));
}

/// An observation in which every text that anybody may choose is this one.
fn hostile(text: &str) -> FleetObservation {
    let mut facts = llama();
    let status = &mut facts.status;
    for field in
        [&mut status.name, &mut status.namespace, &mut status.source, &mut status.message, &mut status.revision]
    {
        *field = text.to_owned();
    }
    status.drift = vec![FieldDrift {
        object: text.into(),
        path: text.into(),
        want: json!({text: text}),
        have: json!(text),
        owner: text.into(),
    }];
    for object in &mut status.objects {
        object.message = text.to_owned();
    }
    for event in &mut facts.events {
        for field in [&mut event.time, &mut event.object, &mut event.reason, &mut event.message] {
            *field = text.to_owned();
        }
    }
    let change = Change {
        model: text.into(),
        source: text.into(),
        fields: vec![FieldChange {
            path: FieldPath::root(),
            old: json!(text),
            new: json!({text: text}),
            owner: text.into(),
        }],
        ..facts.pending[0].clone()
    };
    facts.pending = Arc::new([change]);
    facts.changed_by = Some(text.to_owned());
    facts.gpus = [(text.to_owned(), 3)].into();
    if let Some(record) = &mut facts.record {
        record.repository = text.to_owned();
        for entry in &mut record.history {
            for field in [&mut entry.message, &mut entry.result, &mut entry.revision, &mut entry.time] {
                *field = text.to_owned();
            }
            entry.changes = vec![text.to_owned()];
        }
    }
    let mut observation = observation(vec![facts]);
    let mut source = (*observation.facts.sources[0]).clone();
    for field in [&mut source.name, &mut source.namespace, &mut source.origin, &mut source.phase] {
        *field = text.to_owned();
    }
    source.environment = Some(text.to_owned());
    source.problems = vec![text.to_owned()];
    source.unread = Some(text.to_owned());
    source.seen = Some(RevisionFacts { commit: text.to_owned(), at: None });
    source.command_options = vec![text.to_owned()];
    let page = Some(format!("javascript:{text}"));
    let commit = CommitFacts { author: text.into(), title: text.into(), time: now(), page };
    source.commits = Arc::new([(text.to_owned(), commit)].into());
    source.proposals = ProposalAccess::Open { base: text.into(), host: text.into() };
    observation.facts.sources = vec![Arc::new(source)];
    FleetObservation::new(1, now(), observation.facts)
}

fn all_pages(observation: &FleetObservation, name: &str) -> Vec<String> {
    let mut query = ModelQuery::default();
    query.filter.search = Some(name.to_owned());
    vec![
        models_page(observation, "", now()).unwrap(),
        models_page(observation, query.address("").trim_start_matches('?'), now()).unwrap(),
        model_page(observation, name, name, now()).unwrap(),
        sources_page(observation, now()),
        changes_page(observation, "", now()).unwrap(),
        capacity_page(observation, now()),
        problem_page(&ProblemDetails::new(ProblemKind::NotFound).with_detail(name)),
        tree_page(observation, &observation.model(name, name).unwrap(), &samples::forest(name), now()),
        log_of(observation, name),
    ]
}

/// The page of what a container wrote.
fn log_of(observation: &FleetObservation, text: &str) -> String {
    log_page(observation, &observation.model(text, text).unwrap(), &samples::log(text))
}

#[test]
fn hostile_text_is_text_everywhere() {
    let text =
        "</td><script>alert(1)</script><img src=x onerror=alert(1)> \"'` javascript:x \u{202e}evil\u{200b}\u{1b}[2J";
    for page in all_pages(&hostile(text), text) {
        assert!(!page.contains("<script>") && !page.contains("<img"), "{page}");
        assert!(!page.contains(['\u{202e}', '\u{200b}', '\u{1b}']), "{page}");
        assert!(!page.contains("href=\"javascript:"), "{page}");
        assert!(page.contains(r"\u{202e}evil\u{200b}\u{1b}[2J"), "{page}");
    }
}

/// The form for a draft of that text, with a field and a finding that say the same.
fn form_of(text: &str, yaml: &str) -> String {
    let observation = hostile(text);
    let source = &observation.facts.sources[0];
    let mut judged = judged(yaml, Some(yaml));
    judged.source = text.to_owned();
    let sent = FormSubmission { file: text.to_owned(), yaml: yaml.to_owned(), ..FormSubmission::default() };
    let fault = RequestFault {
        pointer: format!("#{text}"),
        detail: text.to_owned(),
        file: Some(text.to_owned()),
        found: Some(text.to_owned()),
        allowed: vec![text.to_owned()],
        help: Some(text.to_owned()),
        ..RequestFault::default()
    };
    let on_field = RequestFault { pointer: "#/spec/engine".to_owned(), ..fault.clone() };
    let faults = [fault, on_field];
    let input = FormInput {
        place: FormPlace::New,
        source,
        sent: &sent,
        judged: &judged,
        faults: &faults,
        notices: &[],
        is_sent: true,
        is_unwritten: false,
        own_text: None,
    };
    form_page(&observation, &input)
}

#[test]
fn a_form_shows_hostile_text_as_text() {
    let text = "</textarea></option><script>alert(1)</script>\"'` \u{202e}evil";
    let yaml = MODEL.replace("vllm", &serde_json::to_string("</textarea><script>x</script>").unwrap());
    for yaml in [yaml, format!("# {text}\n"), text.to_owned()] {
        let page = form_of(text, &yaml);
        assert!(!page.contains("<script>") && !page.contains('\u{202e}'), "{page}");
        // Each one that opens is closed by the template.
        assert_eq!(page.matches("<textarea").count(), page.matches("</textarea>").count());
    }
}

#[test]
fn the_form_says_what_a_model_is() {
    let observation = fleet();
    let sent = FormSubmission::default();
    let judged = judged(MODEL, Some(&MODEL.replace("replicas: 2", "replicas: 1")));
    let place = FormPlace::Edit { namespace: "prod", name: "llama" };
    let input = FormInput {
        place,
        source: &observation.facts.sources[0],
        sent: &sent,
        judged: &judged,
        faults: &[],
        notices: &[],
        is_sent: true,
        is_unwritten: false,
        own_text: None,
    };
    let page = form_page(&observation, &input);
    assert_eq!(page.matches("<h1>").count(), 1);
    assert!(page.contains("action=\"/models/prod/llama/edit\"") && page.contains("There is an error"), "{page}");
    let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(ids.len(), ids.iter().collect::<std::collections::BTreeSet<_>>().len(), "each id is there once");
}

#[test]
fn a_pull_request_that_was_opened_says_what_is_next() {
    let proposal = crate::pull_requests::ProposalView {
        number: 7,
        url: "https://git.example.com/team/models/pulls/7".into(),
        title: "Change <llama>".into(),
        branch: "stator/llama-1-2".into(),
        base: "main".into(),
        host: "Gitea at git.example.com".into(),
        file: "models/llama/model.yaml".into(),
        is_new: true,
    };
    insta::assert_snapshot!(text_of(&proposed_page(&proposal, Some("/models/prod/llama"))), @"
    Pull request 7 is open
    Change &#60;llama&#62;
    File models/llama/model.yaml
    Branch stator/llama-1-2 into main
    Host Gitea at git.example.com
    Nothing has changed in the cluster. When the pull request is merged, stator syncs it. Follow it on the page of the model .
    ");
    let elsewhere =
        proposed_page(&crate::pull_requests::ProposalView { url: "javascript:alert(1)".into(), ..proposal }, None);
    assert!(!elsewhere.contains("href=\"javascript:"), "{elsewhere}");
}

#[test]
fn what_is_about_to_change_is_on_one_page() {
    insta::assert_snapshot!(text_of(&changes_page(&fleet(), "", now()).unwrap()), @"
    Changes
    Updated 0s ago .
    What the next sync does, and drift that it repairs.
    Source
    all
    team/fleet
    Commit
    Show
    Clear
    JSON
    1–1 of 1
    prod/llama
    ≠ OutOfSync (1 field) · 3f2a91c Scale llama to two replicas by Grace Hopper
    1 object would change.
    GPUs 12 now, 8 after, at most 12 during the rollout
    Disruption scale
    Object Change Disruption GPUs Why
    DynamoGraphDeployment prod/llama update scale 12 → 8 drifted: changed in the cluster, not in git spec.components[name=decode].replicas : 3 → 2
    ");
    assert!(changes_page(&fleet(), "commit=3f2a91c", now()).unwrap().contains("prod/llama"));
    assert!(!changes_page(&fleet(), "commit=000000", now()).unwrap().contains("prod/llama"));
    assert_eq!(changes_page(&fleet(), "commit=xyz", now()).unwrap_err().of, ProblemKind::InvalidParameter);
    let quiet = observation(vec![model("fine", Health::Healthy, SyncState::Synced)]);
    assert!(changes_page(&quiet, "", now()).unwrap().contains("No model has pending changes."));
}

#[test]
fn no_template_lets_text_through_as_markup() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/templates")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("safe") && !text.contains("style=") && !text.contains("onclick"), "{}", path.display());
    }
}

/// What is wider than a small screen scrolls by itself, and a keyboard gets there (axe: `scrollable-region-focusable`).
#[test]
fn what_scrolls_is_reached_by_a_keyboard_and_has_a_name() {
    let pages = all_pages(&hostile("a"), "a");
    let tags = pages.iter().flat_map(|page| page.split('<')).filter(|tag| tag.contains("class=\"scroll\""));
    let tags: Vec<&str> = tags.filter_map(|tag| tag.split('>').next()).collect();
    assert!(tags.len() > 8, "{tags:?}");
    for tag in tags {
        assert!(
            tag.contains("tabindex=\"0\"") && tag.contains("aria-label=\"") && tag.contains("role=\"region\""),
            "{tag}"
        );
    }
}

#[test]
fn assets_are_small_and_every_page_names_them() {
    assert!(SCRIPT.text.len() <= 12 << 10 && STYLE.text.len() <= 16 << 10);
    assert!(FORM_SCRIPT.text.len() <= 12 << 10);
    let pages = sources_page(&fleet(), now()) + &form_of("x", MODEL) + &log_of(&hostile("a"), "a");
    for asset in ASSETS {
        assert!(pages.contains(&asset.path) && find_asset(&asset.path).is_some());
    }
    assert!(!problem_page(&ProblemDetails::new(ProblemKind::SignInRequired)).contains(&SCRIPT.path));
}

#[test]
fn a_page_has_a_hundred_rows_at_most() {
    let models: Vec<ModelFacts> =
        (0..10_000).map(|number| model(&format!("m{number:05}"), Health::Healthy, SyncState::Synced)).collect();
    let page = models_page(&observation(models), "", now()).unwrap();
    assert_eq!(page.matches("<tr id=").count(), 100);
    assert!(page.contains("1–100 of 10,000") && page.len() < 120 << 10, "{}", page.len());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    /// Whatever text is, it opens no element: a page of it has as many as a page of plain words.
    #[test]
    fn no_text_becomes_markup(text in "[<>&\"'/ a-z=\\-!\\[\\]{}%\u{202e}]{1,40}") {
        let count = |pages: Vec<String>| pages.iter().map(|page| page.matches('<').count()).collect::<Vec<_>>();
        let plain = "x".to_owned();
        prop_assert_eq!(count(all_pages(&hostile(&text), &text)), count(all_pages(&hostile(&plain), &plain)));
    }
}

use super::*;
use crate::controller::sources::registry::RegisteredSource;
use proptest::prelude::*;

fn key(name: &str) -> SourceKey {
    SourceKey::new("team", name)
}

/// Everything that can be counted, once, for a source.
fn everything(metrics: &Metrics, source: &SourceKey) {
    let second = Duration::from_secs(1);
    PollOutcome::ALL.iter().for_each(|look| metrics.record_poll(source, *look));
    OutcomeClass::ALL.iter().for_each(|class| metrics.record_sync(source, *class, 2, second));
    SyncStage::ALL.iter().for_each(|stage| metrics.record_stage(*stage, second));
    ObjectWriteKind::ALL.iter().for_each(|apply| metrics.record_apply("DynamoModel", *apply));
    for operation in MirrorOperation::ALL {
        metrics.record_git_operation(source, *operation, true, second, 100);
    }
    DeliveryOutcome::ALL.iter().for_each(|delivery| metrics.record_delivery(ForgeKind::Gitea, *delivery, second));
    PreviewOutcome::ALL.iter().for_each(|ending| metrics.record_preview(*ending, second));
    TrialResult::ALL.iter().for_each(|result| metrics.record_trial(*result));
    NotificationResult::ALL.iter().for_each(|ending| metrics.record_notification(NotificationKind::Slack, *ending));
    metrics.set_next_poll(source, Timestamp::UNIX_EPOCH);
    metrics.record_success(source, Timestamp::UNIX_EPOCH);
    metrics.record_commit_applied(source, second);
    metrics.record_commit_healthy(source, second);
    metrics.record_drift(source);
    metrics.record_drift_repair(source);
    metrics.record_restart(source);
    metrics.set_model_health(source, &BTreeMap::from([(Health::Healthy, 3)]));
    metrics.set_gpus(
        source,
        [
            ("h200_sxm", GpuCountKind::Live, 8),
            ("my-label", GpuCountKind::Desired, 4),
            ("unknown", GpuCountKind::Peak, 1),
        ],
    );
    metrics.set_deprecated_uses(source, &BTreeMap::from([(Some("1.5"), 2), (None, 1)]));
    metrics.record_reload(true);
    metrics.record_kube_request("apply", 200, second);
    metrics.record_kube_request("get", 0, second);
    metrics.record_forge_request("git.example.com", 201, second, Some(42));
    metrics.set_shards(8, 3, 2);
    metrics.record_lease_renewal(true);
    metrics.record_fenced_write();
    metrics.set_ready(true);
}

fn served(metrics: &Metrics, sources: &[&SourceKey]) -> String {
    let board = SourceRegistry::default();
    for key in sources {
        let (_, standing) = tokio::sync::watch::channel(Default::default());
        board.register(RegisteredSource {
            key: (*key).clone(),
            forge: None,
            webhook: None,
            hints: Default::default(),
            state: standing,
            fence: None,
        });
    }
    metrics.render(&board, ExpositionFormat::Prometheus).unwrap()
}

#[test]
fn what_is_served_is_what_is_described() {
    let metrics = Metrics::default();
    let source = key("models");
    everything(&metrics, &source);
    let text = served(&metrics, &[&source]);
    let mut missing: BTreeMap<&str, &MetricDefinition> =
        ALL.iter().flat_map(|group| group.families).map(|family| (family.name, family)).collect();
    let mut now: Option<&MetricDefinition> = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            let family = missing.remove(name).unwrap_or_else(|| panic!("{name} is served twice, or not described"));
            assert_eq!(help, format!("{}.", family.meaning));
            now = Some(family);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert_eq!(rest, format!("{} {}", now.unwrap().name, now.unwrap().kind.as_str()));
        } else {
            let family = now.unwrap();
            let (name, labels) = line.split_once('{').unwrap_or((line.split(' ').next().unwrap(), ""));
            assert!(name.starts_with(family.name), "{line}");
            let labels = labels.rsplit_once('}').map_or("", |(labels, _)| labels);
            let names: Vec<&str> = labels.split(',').filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
            let names: Vec<&str> = names.into_iter().filter(|name| *name != "le").collect();
            assert_eq!(names, family.labels.iter().map(|label| label.name).collect::<Vec<_>>(), "{line}");
        }
    }
    // A process on another system than Linux says less of itself, and nothing of traces without a collector.
    missing.retain(|name, _| cfg!(target_os = "linux") || !name.starts_with("process_"));
    missing.remove("stator_trace_exports_total");
    assert!(missing.is_empty(), "described and never served: {:?}", missing.keys());
}

#[test]
fn the_series_of_a_source_go_with_it_and_no_others() {
    let metrics = Metrics::default();
    let (gone, stays) = (key("gone"), key("stays"));
    everything(&metrics, &gone);
    everything(&metrics, &stays);
    let of =
        |text: &str, source: &str| text.lines().filter(|line| line.contains(&format!("source=\"{source}\""))).count();
    let before = served(&metrics, &[&gone, &stays]);
    assert_eq!(of(&before, "gone"), of(&before, "stays"));
    metrics.remove_source(&gone);
    let after = served(&metrics, &[&stays]);
    assert_eq!((of(&after, "gone"), of(&after, "stays")), (0, of(&before, "stays")));
}

#[test]
fn what_others_choose_makes_no_series_without_end() {
    let metrics = Metrics::default();
    for number in 0..1000_u16 {
        metrics.record_forge_request(&format!("host-{number}"), number, Duration::ZERO, None);
        metrics.record_kube_request("get", 40_000 + number, Duration::ZERO);
        metrics.set_gpus(&key("models"), [(format!("label-{number}").as_str(), GpuCountKind::Live, 1)]);
    }
    let text = served(&metrics, &[]);
    let series = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(series("stator_forge_requests_total{host=\"host-"), 200);
    assert!(text.contains("stator_forge_requests_total{host=\"other\",code=\"599\"} 1"));
    insta::assert_snapshot!(text.lines().filter(|line| line.starts_with("stator_kube_requests") || line.starts_with("stator_model_gpus")).collect::<Vec<_>>().join("\n"), @r#"
    stator_model_gpus{namespace="team",source="models",gpu="other",state="live"} 1
    stator_kube_requests_total{verb="get",code="none"} 1000
    "#);
}

#[test]
fn what_is_no_longer_deprecated_anywhere_is_no_longer_counted() {
    let metrics = Metrics::default();
    let shown = |by_removal: &[(Option<&'static str>, usize)]| {
        metrics.set_deprecated_uses(&key("models"), &by_removal.iter().copied().collect());
        let text = served(&metrics, &[]);
        text.lines().filter(|line| line.starts_with("stator_deprecated_uses{")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        shown(&[(Some("1.5"), 2), (None, 1)]),
        [
            r#"stator_deprecated_uses{namespace="team",source="models",removed_in="1.5"} 2"#,
            r#"stator_deprecated_uses{namespace="team",source="models",removed_in="none"} 1"#,
        ]
    );
    assert_eq!(
        shown(&[(None, 3)]),
        [r#"stator_deprecated_uses{namespace="team",source="models",removed_in="none"} 3"#]
    );
    assert_eq!(shown(&[]), Vec::<String>::new());
}

#[test]
fn a_queue_is_counted_for_as_long_as_it_is_there() {
    let metrics = Metrics::default();
    let lengths = std::sync::Arc::new(3_usize);
    for _ in 0..2 {
        let weak = std::sync::Arc::downgrade(&lengths);
        metrics.add_queue_probe(QueueKind::Statuses, move || weak.upgrade().map(|length| *length));
    }
    assert!(served(&metrics, &[]).contains("stator_queue_length{queue=\"statuses\"} 6\n"));
    drop(lengths);
    assert!(served(&metrics, &[]).contains("stator_queue_length{queue=\"statuses\"} 0\n"));
}

proptest! {
    /// A value of a label is what somebody wrote: it never ends the line, or the label.
    #[test]
    fn any_value_is_one_value(name in any::<String>()) {
        let metrics = Metrics::default();
        metrics.record_restart(&key(&name));
        for form in [ExpositionFormat::Prometheus, ExpositionFormat::OpenMetrics] {
            let text = metrics.render(&SourceRegistry::default(), form).unwrap();
            let line = text.split('\n').find(|line| line.starts_with("stator_source_restarts_total{")).unwrap();
            let value = name.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
            prop_assert_eq!(line, format!("stator_source_restarts_total{{namespace=\"team\",source=\"{value}\"}} 1"));
        }
    }
}

use super::*;
use crate::fleet_policy::{FleetPolicies, JudgedSource, SourcePolicies, read_policies};
use crate::intent::TreeSize;
use crate::intent::tests::report;

const KEY: &str = "ssh-ed25519 AAAA admin@example.com";

fn policies(spec: &str) -> FleetPolicies {
    let text =
        format!("apiVersion: stator.dev/v1alpha1\nkind: FleetPolicy\nmetadata: {{name: tenants}}\nspec: {spec}\n");
    let read = read_policies("policies.yaml", text.as_bytes());
    FleetPolicies::new(read.unwrap_or_else(|findings| panic!("{}", report(&findings))), Vec::new())
}

fn refused(spec: &str, source: JudgedSource) -> String {
    report(&policies(spec).bind(&source, "team-a").refusals())
}

fn verdict(key: &str, refusal: Option<&str>) -> KeyVerdict {
    KeyVerdict { keys: vec![key.to_owned()], refusal: refusal.map(str::to_owned) }
}

/// Row N9 of the threats: a source that named its own key passed.
#[test]
fn keys_that_a_policy_does_not_name_never_satisfy_it() {
    let signed = |verdicts: Vec<KeyVerdict>| JudgedSource { signatures: Some(verdicts), ..JudgedSource::default() };
    let spec = format!("{{signatures: {{required: true, keys: [{KEY}]}}}}");
    assert_eq!(refused(&spec, signed(vec![verdict("ssh-ed25519 BBBB", None), verdict(KEY, None)])), "");
    insta::assert_snapshot!(refused(&spec, signed(vec![verdict(KEY, Some("commit 4b825dc642cb is not signed"))])), @r#"
    stator.yaml:0:0 error fleet/signature: fleet policy `tenants`: the commit is not signed by a key of the policy: commit 4b825dc642cb is not signed
      help: Sign the commit with one of these keys (`git commit -S`) and push again, or ask an administrator to add the key to `signatures.keys` of the policy.
    "#);
    // Other keys, and none, prove nothing.
    insta::assert_snapshot!(refused(&spec, signed(vec![verdict("ssh-ed25519 BBBB", None)])), @r#"
    stator.yaml:0:0 error fleet/signature: fleet policy `tenants`: the commit is not signed by a key of the policy: its signature was not verified
      help: Sign the commit with one of these keys (`git commit -S`) and push again, or ask an administrator to add the key to `signatures.keys` of the policy.
    "#);
    assert_eq!(refused(&spec, signed(Vec::new())), refused(&spec, signed(vec![verdict("ssh-ed25519 BBBB", None)])));
    // Where nobody looked at a commit, as on the command line, nothing is said of it.
    assert_eq!(refused(&spec, JudgedSource::default()), "");
    assert_eq!(refused("{signatures: {required: false}}", signed(Vec::new())), "");
    let keyless = "{signatures: {required: true}}";
    insta::assert_snapshot!(refused(keyless, signed(Vec::new())), @r#"
    stator.yaml:0:0 error fleet/signature: fleet policy `tenants`: signatures are required, but the policy names no keys
      help: Ask an administrator to add the public keys that may sign to `signatures.keys` of the policy; keys that a source names for itself do not count.
    "#);
    assert_eq!(refused(keyless, JudgedSource::default()), refused(keyless, signed(vec![verdict(KEY, None)])));
    assert_eq!(policies(keyless).signing_keys().len(), 0);
    assert_eq!(policies(&spec).signing_keys().into_iter().flatten().collect::<Vec<_>>(), [KEY]);
}

#[test]
fn the_windows_of_every_policy_are_asked() {
    let nights = "{windows: [{kind: allow, schedule: '0 22 * * *', duration: 6h}]}";
    let weekdays = "{windows: [{kind: deny, schedule: '0 0 * * 6', duration: 48h, timeZone: Europe/Zurich}]}";
    let both = policies(nights).and(policies(weekdays));
    let described = |now: &str| {
        let now: Timestamp = now.parse().unwrap();
        match both.bind(&JudgedSource::default(), "team-a").closed_windows(now) {
            None => format!("{now}: open"),
            Some(ClosedWindows { policy, opens }) => format!("{now}: {policy} until {opens:?}"),
        }
    };
    let all = ["2026-11-18T23:00:00Z", "2026-11-18T12:00:00Z", "2026-11-20T23:30:00Z", "2026-11-21T12:00:00Z"];
    insta::assert_snapshot!(all.map(described).join("\n"), @r#"
    2026-11-18T23:00:00Z: open
    2026-11-18T12:00:00Z: tenants until Some(2026-11-18T22:00:00Z)
    2026-11-20T23:30:00Z: tenants until Some(2026-11-22T23:00:00Z)
    2026-11-21T12:00:00Z: tenants until Some(2026-11-22T23:00:00Z)
    "#);
    assert_eq!(policies("{}").bind(&JudgedSource::default(), "a").closed_windows(Timestamp::UNIX_EPOCH), None);

    let at = |now: &str| JudgedSource { written_at: Some(now.parse().unwrap()), ..JudgedSource::default() };
    assert_eq!(refused(nights, at("2026-11-18T23:00:00Z")), "");
    assert_eq!(refused(nights, JudgedSource::default()), "");
    insta::assert_snapshot!(refused(nights, at("2026-11-18T12:00:00Z")), @r#"
    stator.yaml:0:0 error fleet/window: fleet policy `tenants`: no sync window of the policy is open; the next one opens at 2026-11-18T22:00:00Z
      help: Wait until then, or ask an administrator to change `windows` of the policy.
    "#);
    let never = "{windows: [{kind: deny, schedule: '* * * * *', duration: 1h}]}";
    insta::assert_snapshot!(refused(never, at("2026-11-18T12:00:00Z")), @r#"
    stator.yaml:0:0 error fleet/window: fleet policy `tenants`: no sync window of the policy is open; none will open
      help: Ask an administrator to correct `windows` of the policy.
    "#);
}

#[test]
fn a_window_that_is_none_is_told_with_its_place() {
    let text = "apiVersion: stator.dev/v1alpha1
kind: FleetPolicy
metadata: {name: one}
spec:
  windows:
    - {kind: allow, schedule: '0 25 * * *', duration: 1h}
    - {kind: deny, schedule: '0 12 * * *', duration: -1h}
    - {kind: deny, schedule: '0 12 * * *', duration: 1h, timeZone: Mars/Base}
    - {kind: never, schedule: '0 12 * * *', duration: 1h}
";
    insta::assert_snapshot!(report(&read_policies("p.yaml", text.as_bytes()).unwrap_err()), @r#"
    p.yaml:6:31 error fleet/document: `25` is not a valid hour: write 0 to 23, `*`, `*/2`, `8-18` or a list of these
      help: Correct it: `0 22 * * *` means every evening at ten.
    p.yaml:7:54 error fleet/document: `duration` is `-1h`; expected a duration from one second to a year
      help: Write it as `30s`, `5m` or `1h30m`.
    p.yaml:8:68 error fleet/document: `Mars/Base` is not a time zone: write its IANA name, such as `Europe/Zurich` or `UTC`
      help: Correct it: `0 22 * * *` means every evening at ten.
    p.yaml:9:14 error schema/unknown-word: `spec.windows[3].kind` is `never`; expected one of `allow`, `deny`
      help: Use one of these values.
    "#);
}

#[test]
fn of_too_many_sources_those_created_last_are_refused() {
    let earlier = |name: &str, destination: Option<&str>| EarlierSource {
        name: name.to_owned(),
        destination: destination.map(str::to_owned),
    };
    let source = |earlier: Vec<EarlierSource>| JudgedSource {
        namespace: Some("team-a".to_owned()),
        name: Some("third".to_owned()),
        earlier: Some(earlier),
        ..JudgedSource::default()
    };
    let two = || vec![earlier("first", None), earlier("second", Some("elsewhere"))];
    assert_eq!(refused("{quotas: {sources: 3}}", source(two())), "");
    insta::assert_snapshot!(refused("{quotas: {sources: 2}}", source(two())), @r#"
    stator.yaml:0:0 error fleet/quota: fleet policy `tenants`: namespace `team-a` has 2 sources before this one; allowed: at most 2
      help: Remove a source of the namespace, or ask an administrator for more.
    "#);
    // Those that the policy does not bind do not count.
    assert_eq!(refused("{appliesTo: {sources: ['*/third']}, quotas: {sources: 1}}", source(two())), "");
    // One that does not say where it syncs to may sync to where this one does.
    let bound = |quota: u32| {
        let spec = format!("{{appliesTo: {{namespaces: [prod]}}, quotas: {{sources: {quota}}}}}");
        !policies(&spec).bind(&source(two()), "prod").refusals().is_empty()
    };
    assert_eq!([bound(0), bound(1), bound(2)], [true, true, false]);
    // What is no source of a cluster or a file has no rank.
    assert_eq!(refused("{quotas: {sources: 0}}", JudgedSource::default()), "");
}

#[test]
fn a_commit_that_is_larger_than_allowed_is_refused_whole() {
    let held = "{quotas: {files: 1000, filesSize: 1Mi}}";
    let of = |files, bytes| JudgedSource { size: Some(TreeSize { files, bytes }), ..JudgedSource::default() };
    assert_eq!(refused(held, of(1000, 1 << 20)), "");
    assert_eq!(refused(held, JudgedSource::default()), "");
    insta::assert_snapshot!(refused(held, of(1001, 1)), @r#"
    stator.yaml:0:0 error fleet/quota: fleet policy `tenants`: the commit has 1001 files to read; allowed: at most 1000
      help: Split the repository, or ask an administrator for more.
    "#);
    insta::assert_snapshot!(refused(held, of(1, (1 << 20) + 1)), @r#"
    stator.yaml:0:0 error fleet/quota: fleet policy `tenants`: the commit has 1048577 bytes of files to read; allowed: at most 1Mi
      help: Split the repository, or ask an administrator for more.
    "#);
    // Which size it is says nothing as long as it is allowed: nothing is planned anew for it.
    let digest = |files| SourcePolicies { policies: policies(held), source: of(files, 1) }.digest();
    assert_eq!(digest(1), digest(1000));
    assert_ne!(digest(1), digest(1001));
}

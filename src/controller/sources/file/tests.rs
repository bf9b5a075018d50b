use super::*;
use proptest::prelude::*;
use stator_model::present::TerminalOptions;
use stator_model::present::findings::{concise, with_snippets};

const PLAIN: TerminalOptions = TerminalOptions { color: false, width: None, verbose: false, rows_only: false };

const WHOLE: &str = r"
apiVersion: stator.dev/v1alpha1
kind: ModelSource
metadata: {name: models, namespace: default}
spec:
  url: https://git.example.com/team/models.git
  ref: {branch: main}
  path: ./clusters/prod/
  environment: staging
  interval: 1m
  schedule: '*/5 * * * *'
  timeZone: Europe/Zurich
  secretRef: {name: git}
  forge: {type: gitea, secretRef: {name: forge}}
  webhook: {secretRef: {name: hook}}
  previews: true
  verify: {mode: Head, secretRef: {name: keys}}
  targetNamespace: models
  windows: [{kind: deny, schedule: '0 18 * * 5', duration: 62h, timeZone: Europe/Zurich}]
  timeout: 10m
--- # what it names
apiVersion: v1
kind: Secret
metadata: {name: git}
stringData: {username: me, password: canary-1}
---
apiVersion: v1
kind: Secret
metadata: {name: forge, labels: {team: search}}
type: Opaque
data: {token: Y2FuYXJ5LTI=}
---
apiVersion: v1
kind: Secret
metadata: {name: hook}
stringData: {token: canary-3}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData:
  me.sshpub: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINNTMKx+ipEELLIhmTFZ6ZQAwR1ZUuaqjB9CPXHglR95 canary-4
---
";

fn findings_of(text: &str) -> String {
    let read = parse_file("sources.yaml", text.as_bytes());
    let shown = with_snippets(&read.findings, &|_| Some(read.redacted_text.clone()), &PLAIN);
    assert!(!shown.contains("canary"), "{shown}");
    assert!(!format!("{read:?}").contains("canary"), "{read:?}");
    concise(&read.findings, &PLAIN)
}

#[test]
fn a_whole_file_is_read() {
    let read = parse_file("sources.yaml", WHOLE.as_bytes());
    assert!(read.findings.is_empty(), "{:?}", read.findings);
    let [source] = read.sources.as_slice() else { panic!("{:?}", read.sources) };
    insta::assert_snapshot!(format!(
        "{} {} {} {} every {:?}, at {}, windows {}, timeout {:?}",
        source.key.namespace, source.key.name, source.url, source.folder, source.interval.unwrap(),
        source.schedule.as_ref().unwrap(), source.windows.len(), source.timeout.unwrap()
    ), @"default models https://git.example.com/team/models.git clusters/prod every 60s, at */5 * * * * (Europe/Zurich), windows 1, timeout 600s");
    assert_eq!(source.secrets.git.as_ref().unwrap().get("password"), Some(&b"canary-1"[..]));
    assert_eq!(source.secrets.forge.as_ref().unwrap().get("token"), Some(&b"canary-2"[..]));
    assert!(source.is_same_as(&source.clone()));
    assert!(!read.redacted_text.contains("canary"), "{}", read.redacted_text);
    assert_eq!(read.redacted_text.lines().count(), WHOLE.lines().count());
}

#[test]
fn a_source_of_four_lines_will_do() {
    let text = "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {name: models}\nspec: {url: 'https://h/a/b.git', ref: {branch: main}}\n";
    let read = parse_file("s.yaml", text.as_bytes());
    assert!(read.findings.is_empty(), "{:?}", read.findings);
    assert_eq!(read.sources[0].interval, Some(spec::DEFAULT_INTERVAL));
    assert_eq!(read.sources[0].folder, "");
}

#[test]
fn the_keys_of_verify_are_read_beforehand() {
    let tagged =
        WHOLE.replace("ref: {branch: main}", "ref: {tag: v1.0.0}").replace("previews: true", "previews: false");
    assert!(tagged.contains("tag: v1.0.0") && tagged.contains("previews: false"), "{tagged}");
    for mode in ["Head", "HEAD", "Tag", "TagAndHead", "TagAndHEAD"] {
        let text = tagged.replace("mode: Head", &format!("mode: {mode}"));
        assert_eq!(findings_of(&text), "", "{mode}");
    }
    insta::assert_snapshot!(findings_of(&WHOLE.replace("mode: Head", "mode: Tag")), @"sources.yaml:17:18: error[source/ref] `verify` requires a signed tag, but `ref` does not follow a tag (Write `ref.tag` or `ref.semver`, or `mode: Head`.)");
    insta::assert_snapshot!(findings_of(&WHOLE.replace("mode: Head", "mode: head")), @"sources.yaml:17:18: error[schema/unknown-word] `spec.verify.mode` is `head`; expected one of `Head`, `Tag`, `TagAndHead`, `HEAD`, `TagAndHEAD` (Did you mean `HEAD`?)");
    insta::assert_snapshot!(findings_of(&WHOLE.replace("me.sshpub", "me.pub")), @"sources.yaml:17:24: error[source/secret] secret `keys` has no public key to verify signatures with (add OpenPGP keys under `NAME.asc`, SSH keys under `NAME.sshpub` or `allowed_signers`)");
    insta::assert_snapshot!(findings_of(&WHOLE.replace("AAAA", "AAAB")), @"sources.yaml:17:24: error[source/secret] secret `keys`: `me.sshpub` line 1 is not a public key: length invalid (fix or remove them; until then no signature is accepted, because one of them may be a revocation)");
    insta::assert_snapshot!(findings_of(&WHOLE.replace("secretRef: {name: keys}", "secretRef: {name: kees}")), @"sources.yaml:17:42: error[source/secret] there is no secret `kees` in the file (Add the `Secret` document to this file, or correct the name.)");
}

#[test]
fn every_fault_is_told_at_once_with_its_place() {
    let text = "
apiVersion: stator.dev/v1alpha1
kind: ModelSource
metadata: {name: one}
spec:
  url: https://me:canary@git.example.com/team/models.git
  ref: {branch: main, tag: v1}
  path: ../elsewhere
  intervall: 1m
  interval: soon
  schedule: '0 0 30 2 *'
  timeZone: Europe/Zürich
  secretRef: {name: git}
  webhook: {secretRef: {name: hook}}
  previews: true
  windows: [{kind: deny, schedule: '* *', duration: 1h}]
---
apiVersion: stator.dev/v1alpha1
kind: ModelSource
metadata: {name: two}
spec:
  url: git@git.example.com:team/models.git
  ref: {branch: -upload}
  timeZone: UTC
  forge: {type: svn, targetUrl: 'javascript:alert(1)'}
---
apiVersion: v1
kind: Secret
metadata: {name: hook}
stringData: {tocken: canary, number: 12345}
---
kind: Secret
apiVersion: v1
metadata: {name: hook, namespace: other}
data: {token: canary!}
---
kind: ConfigMap
";
    insta::assert_snapshot!(findings_of(text), @"
    sources.yaml:6:8: error[source/url] credentials do not belong in the address; put them into the secret that `secretRef` names (Name a secret with `username` and `password` under `secretRef`.)
    sources.yaml:7:3: error[source/ref] `ref` takes exactly one of `branch`, `tag`, `commit` and `semver`; found `branch` and `tag` (Keep the one that the source should follow.)
    sources.yaml:8:9: error[source/path] `path` leaves the repository, or points into `.git` (Write a folder from the repository's root, as `clusters/prod`.)
    sources.yaml:9:3: error[schema/unknown-field] unknown field `intervall` in `spec` (Did you mean `interval`?)
    sources.yaml:10:13: error[source/duration] `interval` is `soon`; expected a duration from one second to a year (Write it as `30s`, `5m` or `1h30m`.)
    sources.yaml:12:13: error[source/schedule] `Europe/Zürich` is not a time zone: write its IANA name, such as `Europe/Zurich` or `UTC` (Correct it: `*/5 * * * *` means every five minutes.)
    sources.yaml:13:21: error[source/secret] there is no secret `git` in the file (Add the `Secret` document to this file, or correct the name.)
    sources.yaml:14:3: error[source/forge] `webhook` without `forge.type`: the host that signs the calls is unknown (Add `forge: {type: …}`.)
    sources.yaml:14:31: error[source/secret] there is no secret `hook` in the file (Add the `Secret` document to this file, or correct the name.)
    sources.yaml:15:13: error[source/forge] `previews` without `forge`: there is no git host to comment on (Add `forge`, or remove `previews`.)
    sources.yaml:16:36: error[schema/length] `spec.windows[0].schedule` has 3 characters; at least 6 are allowed (Set a value, or omit the field.)
    sources.yaml:16:36: error[source/schedule] `* *` has 2 fields; a schedule has five: minute, hour, day of the month, month, day of the week (Correct it: `*/5 * * * *` means every five minutes.)
    sources.yaml:22:8: error[source/secret] an SSH address needs `secretRef` with a secret that has `identity` and `known_hosts`; for a public repository write the `https://` address (Correct the secret, or the address.)
    sources.yaml:23:17: error[source/ref] `-upload` is not a valid branch name: write it as `git branch` does (Correct the name.)
    sources.yaml:24:13: error[source/schedule] `timeZone` without a `schedule` (Add the schedule, or remove the time zone.)
    sources.yaml:25:17: error[schema/unknown-word] `spec.forge.type` is `svn`; expected one of `github`, `gitlab`, `gitea`, `bitbucket`, `azure` (Use one of these values.)
    sources.yaml:25:33: error[source/forge] `forge.targetUrl` is not an `https://` or `http://` address, or contains credentials (Write the whole address of a page.)
    sources.yaml:30:30: error[source/secret] secret `hook`: the value of `number` is not text; put it into quotes (Correct the secret.)
    sources.yaml:35:8: error[source/secret] secret `hook`: the value of `token` under `data` is not base64; move it to `stringData`, which takes text (Correct the secret.)
    sources.yaml:37:1: error[source/document] the document is neither a `ModelSource` nor a `Secret` (Write `kind: ModelSource` or `kind: Secret`; put other objects into another file.)
    ");
}

#[test]
fn sources_that_would_fight_are_refused() {
    let one = |name: &str, more: &str| {
        format!(
            "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: {name}}}\nspec: {{url: 'https://h/a/b.git', ref: {{branch: main}}{more}}}\n---\n"
        )
    };
    let text = [one("a", ""), one("a", ", path: x"), one("b", ", path: ./"), one("c", ", environment: prod")].concat();
    insta::assert_snapshot!(findings_of(&text), @"
    sources.yaml:6:1: error[source/duplicate] a second source `a`; the first is in line 1 (Rename one of them.)
    sources.yaml:11:1: error[source/duplicate] `a` and `b` sync the same environment of one repository (Keep one of them: each would undo the changes of the other.)
    ");
}

/// What a file takes, an object in a cluster takes as well, and the other way round.
#[test]
fn a_duration_is_written_as_kubernetes_writes_it() {
    let judge = |text: &str| {
        let text = WHOLE.replace("interval: 1m", &format!("interval: {text}"));
        assert_ne!(text, WHOLE.replace("interval: 1m", "interval: 61m"));
        findings_of(&text).is_empty()
    };
    for fine in ["30s", "5m", "1h30m", "1h30m5s", "1500ms", "1.5h", "8784h"] {
        assert!(judge(fine), "{fine}");
    }
    for not in
        ["5 minutes", "1 hour", "PT1H", "1d", "1h 30m", "5m ago", "999ms", "8785h", "1.5h30m", "30m1h", "-5m", "5µs"]
    {
        assert!(!judge(not), "{not}");
    }
}

#[test]
fn a_range_that_is_none_is_told_before_anything_is_fetched() {
    let one = |name: &str, more: &str| {
        format!(
            "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: {name}}}\nspec: {{url: 'https://h/a/{name}.git', {more}}}\n---\n"
        )
    };
    let fine = ["'>=1.0.0 <2.0.0'", "1.x", "^1.2 || ~2.0.1", "'*'"];
    let fine =
        fine.iter().enumerate().map(|(at, range)| one(&format!("fine-{at}"), &format!("ref: {{semver: {range}}}")));
    let previews = one("c", "ref: {semver: 1.x}, forge: {type: github}, previews: true");
    let text = [one("a", "ref: {semver: main}"), one("b", "ref: {semver: '>= 1.0.0 <'}"), previews].concat();
    insta::assert_snapshot!(findings_of(&(text + &fine.collect::<String>())), @"
    sources.yaml:4:48: error[source/ref] `main` is not a valid version range: `main` is not a version (Write it as in `>=1.0.0 <2.0.0`, `1.x`, `^1.2` or `~1.2.3`.)
    sources.yaml:9:48: error[source/ref] `>= 1.0.0 <` is not a valid version range: there is no version after `<` (Write it as in `>=1.0.0 <2.0.0`, `1.x`, `^1.2` or `~1.2.3`.)
    sources.yaml:14:87: error[source/forge] `previews` without `forge.secretRef`: comments need a token (Add `forge.secretRef`, or remove `previews`.)
    sources.yaml:14:87: error[source/forge] `previews` without `ref.branch`: pull requests need a base branch (Follow a branch, or remove `previews`.)
    ");
}

#[test]
fn what_may_be_a_secret_is_never_quoted() {
    for text in [
        "kind: Secret\napiVersion: v1\nmetadata: {name: a}\nstringData: {token: &canary x}\n",
        "kind: Secret\napiVersion: v1\nmetadata: {name: a}\nstringData: {token: *canary}\n",
        "kind: Secret\napiVersion: v1\nmetadata: {name: a}\nstringData: {token: !canary x}\n",
        "kind: Secret\napiVersion: v1\nmetadata: {name: a}\nstringData: canary\n",
        "kind: Secret\napiVersion: v1\nmetadata: {name: a}\nstringData: [canary]\n",
        "kind: Secret\napiVersion: v1\nmetadata: {name: a}\nstringData: {token: {canary: canary}}\n",
        "kind: Secret\napiVersion: v1\nmetadata: {name: a}\nstringData:\n  token: \"canary\n",
        "kind: secret\nstringData: {token: canary}\n",
        "kind: ModelSource\n--- a# b\nkind: Secret\nstringData: {token: canary}\n",
        "kind: ModelSource\n...\nkind: Secret\nstringData: {token: canary}\n",
        "kind: Model\nspec: {canary: canary}\n",
        "kind: [canary]\n",
        "canary\n",
        "token: canary: canary\n",
        "\u{feff}canary: \u{feff}canary\n",
    ] {
        assert!(!findings_of(text).is_empty(), "{text}");
    }
    insta::assert_snapshot!(findings_of("kind: Secret\nstringData: {token: &canary 1, b: 012345}\n"), @"
    sources.yaml:1:1: error[source/secret] a `Secret` has `apiVersion: v1` (Write `apiVersion: v1`.)
    sources.yaml:2:21: error[yaml/anchor] A file has no anchors, aliases or merge keys. The value may be a secret and is not shown. (Correct the document.)
    sources.yaml:2:35: warning[yaml/leading-zero] A number has no leading zero, which some readers take for octal. The value may be a secret and is not shown. (Correct the document.)
    ");
}

#[test]
fn a_file_without_sources_is_a_fault() {
    insta::assert_snapshot!(findings_of(""), @"sources.yaml: error[source/document] there is no `ModelSource` in the file (Write one as `stator schema source` describes it; docs/how-to/run-the-controller.md has an example.)");
    insta::assert_snapshot!(findings_of("# nothing\n---\n...\n"), @"sources.yaml: error[source/document] there is no `ModelSource` in the file (Write one as `stator schema source` describes it; docs/how-to/run-the-controller.md has an example.)");
}

proptest! {
    #[test]
    fn no_bytes_stop_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let read = parse_file("s.yaml", &bytes);
        prop_assert!(read.sources.is_empty() && !read.findings.is_empty());
    }

    /// A whole file with something put in somewhere.
    #[test]
    fn a_damaged_file_is_refused_or_read(at in 0..WHOLE.len(), junk in "\\PC{0,12}") {
        prop_assert_eq!(leaks(at, &junk), None);
    }
}

/// What YAML gives a meaning to, put in where lines begin and end.
#[test]
fn no_mark_of_yaml_makes_a_secret_readable() {
    let marks = [
        "#", " #", "-", "- ", "---", "...", ":", ": ", "?", "\n", "\n  ", "  ", "{", "}", "[", "]", ",", "'", "\"",
        "|", ">", "&a ", "*a", "!!str ", "%", "\\",
    ];
    let ends = WHOLE.match_indices('\n').map(|(end, _)| end);
    let places: Vec<usize> = ends.flat_map(|end| [end, end + 1, end + 2]).collect();
    let found = marks.iter().flat_map(|mark| places.iter().filter_map(|at| leaks(*at, mark))).next();
    assert_eq!(found, None);
}

/// What is seen of a secret in the whole file with something put in somewhere.
fn leaks(at: usize, junk: &str) -> Option<String> {
    let mut text = WHOLE.to_owned();
    if text.is_char_boundary(at) {
        text.insert_str(at, junk);
    }
    let read = parse_file("s.yaml", text.as_bytes());
    let shown = with_snippets(&read.findings, &|_| Some(read.redacted_text.clone()), &PLAIN);
    let seen = read.redacted_text.contains("canary-1") || shown.contains("canary");
    seen.then(|| format!("`{junk}` at {at}:\n{}\n{shown}", read.redacted_text))
}

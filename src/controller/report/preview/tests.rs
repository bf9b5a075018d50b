//! Pull requests of a real repository, read by a real mirror, at a host that answers as a test wants it to.

use super::*;
use crate::controller::report::tests_forge::FakeForge;
use git2::{Repository, Signature};
use planner::PullRequestTrees;
use stator_git::forge::webhook::WebhookHint;
use stator_git::source::credentials::GitCredentials;
use stator_git::source::mirror::{Mirror, RemoteRepository};
use stator_git::source::url::{AllowedSchemes, RepositoryUrl};

const ROOT: &str = "apiVersion: stator.dev/v1alpha1
kind: Repository
metadata: {name: models}
spec: {environments: {prod: {namespace: prod}}}
";

pub(super) fn model(name: &str, replicas: u32) -> String {
    format!(
        "apiVersion: stator.dev/v1alpha1
kind: Model
metadata: {{name: {name}}}
spec:
  model: Qwen/Qwen3-8B
  engine: vllm
  runtime: 1.2.0
  hardware: {{gpu: h200_sxm}}
  serving: {{frontend: {{replicas: 1}}, worker: {{replicas: {replicas}, gpus: 2}}}}
"
    )
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Mirror>>);

impl PullRequestReader for Shared {
    async fn forget_ref(&self, name: String) {
        self.0.lock().unwrap().forget_ref(&name).unwrap();
    }

    async fn read_trees(&self, wanted: PullRequestRefs) -> Result<PullRequestTrees, PullRequestReadError> {
        let mirror = Arc::clone(&self.0);
        let read = move || {
            let mut mirror = mirror.lock().unwrap();
            let read = trees::fetch_sides(&mut mirror, &wanted)
                .and_then(|sides| trees::read_sides(&mut mirror, sides, &wanted.folder));
            read.map_err(|error| PullRequestReadError::Git(error.to_string()))
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }
}

/// A repository, its host, and the task that previews.
struct Place {
    folder: tempfile::TempDir,
    origin: Repository,
    forge: Arc<FakeForge>,
    hints: Arc<SourceHints>,
    tip: watch::Sender<Option<String>>,
    ending: CancellationToken,
    started: u32,
    writes_per_minute: usize,
    forks: bool,
    limit: usize,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = git2::RepositoryInitOptions::new();
        options.bare(true).initial_head("main").external_template(false);
        let origin = Repository::init_opts(folder.path().join("origin.git"), &options).unwrap();
        let place = Self {
            folder,
            origin,
            forge: Arc::default(),
            hints: Arc::default(),
            tip: watch::Sender::new(None),
            ending: CancellationToken::new(),
            started: 0,
            writes_per_minute: 60,
            forks: true,
            limit: DEFAULT_PREVIEW_LIMIT,
        };
        place.commit(
            "refs/heads/main",
            None,
            &[("stator.yaml", ROOT), ("a/model.yaml", &model("a", 1)), ("b/model.yaml", &model("b", 1))],
        );
        place
    }

    /// A commit with these files on a ref; on top of another ref, or of what is there.
    fn commit(&self, name: &str, on: Option<&str>, files: &[(&str, &str)]) -> String {
        let parent = self.origin.find_reference(on.unwrap_or(name)).ok().map(|found| found.peel_to_commit().unwrap());
        let mut changes = git2::build::TreeUpdateBuilder::new();
        for (path, text) in files {
            changes.upsert(*path, self.origin.blob(text.as_bytes()).unwrap(), git2::FileMode::Blob);
        }
        let empty = self.origin.treebuilder(None).unwrap().write().unwrap();
        let base = parent.as_ref().map_or(empty, git2::Commit::tree_id);
        let tree = changes.create_updated(&self.origin, &self.origin.find_tree(base).unwrap()).unwrap();
        let tree = self.origin.find_tree(tree).unwrap();
        let who = Signature::new("a", "a@example.com", &git2::Time::new(1_700_000_000, 0)).unwrap();
        let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
        let id = self.origin.commit(None, &who, &who, "change", &tree, &parents).unwrap();
        self.origin.reference(name, id, true, "test").unwrap();
        id.to_string()
    }

    fn pull(&self, number: u64, head: &str) -> PullRequest {
        PullRequest {
            number,
            title: "more".into(),
            state: PullRequestState::Open,
            base: "main".into(),
            head: head.into(),
            fetch: Some(format!("refs/pull/{number}/head")),
            branch: None,
            fork: true,
            url: format!("https://git.example.com/team/models/pulls/{number}"),
        }
    }

    /// Opens a pull request with these files, or pushes to it.
    fn push(&self, number: u64, files: &[(&str, &str)]) -> String {
        let head = self.commit(&format!("refs/pull/{number}/head"), Some("refs/heads/main"), files);
        self.forge.put(self.pull(number, &head));
        self.hints.add(WebhookHint::PullRequest { number });
        head
    }

    /// Starts the task, as a process that begins does.
    fn start(&mut self) -> tokio::task::JoinHandle<()> {
        self.started += 1;
        let url = self.folder.path().join("origin.git");
        let url = RepositoryUrl::parse(url.to_str().unwrap(), AllowedSchemes { local: true, insecure: false }).unwrap();
        let remote = RemoteRepository::new(url.clone(), GitCredentials::read(None, &url).unwrap());
        let mirror = Mirror::open(&self.folder.path().join(format!("data-{}", self.started)), remote).unwrap();
        let budget = ForgeWriteBudget::new(&[(self.writes_per_minute, Duration::from_secs(60))]);
        let poster = Arc::new(StatusPoster::start(
            Arc::clone(&self.forge),
            ForgeWriteBudget::new(&[(6_000, Duration::from_secs(60))]),
            None,
            7,
        ));
        let settings = PreviewSettings {
            scope: preview::CommentMarker::scope(["gpu-west", "default", "models", "prod"]),
            branch: "main".into(),
            folder: String::new(),
            environment: Some("prod".into()),
            namespace: None,
            prefix: "stator".into(),
            forks: self.forks,
            limit: self.limit,
            poll_interval: Duration::from_secs(300),
            fence: None,
            policies: Default::default(),
        };
        let mirror = Shared(Arc::new(Mutex::new(mirror)));
        let previews = PreviewRunner::new(Arc::clone(&self.forge), mirror, poster, budget, settings, Arc::default());
        tokio::spawn(previews.run(Arc::clone(&self.hints), self.tip.subscribe(), self.ending.clone()))
    }

    /// Long enough for all that is hinted at, and shorter than the next look.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(30)).await;
    }

    fn status(&self, commit: &str) -> String {
        let shows = self.forge.shows();
        let found = shows.iter().filter(|(key, _)| key.0 == commit);
        let line = |(key, status): (&(String, String), &CommitStatus)| {
            format!("{} {}: {}", key.1, format!("{:?}", status.state).to_lowercase(), status.description)
        };
        found.map(line).collect::<Vec<_>>().join("\n")
    }

    fn comment(&self, number: u64) -> String {
        let comments = self.forge.comments(number);
        assert_eq!(comments.len(), 1, "{comments:?}");
        comments[0].body.clone()
    }

    fn headline(&self, number: u64) -> String {
        self.comment(number).lines().nth(1).unwrap_or_default().to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_pull_request_has_one_comment_that_is_edited_with_every_push() {
    let mut place = Place::new();
    let task = place.start();
    let first = place.push(7, &[("a/model.yaml", &model("a", 3))]);
    place.settle().await;
    insta::assert_snapshot!(place.status(&first), @"stator/preview/prod success: 1 of 2 models changes: 4 → 8 h200_sxm (+4)");
    insta::assert_snapshot!(place.headline(7), @"### stator · prod · 1 of 2 models changes");
    let second = place.push(7, &[("a/model.yaml", &model("a", 5))]);
    place.settle().await;
    insta::assert_snapshot!(place.status(&second), @"stator/preview/prod success: 1 of 2 models changes: 4 → 12 h200_sxm (+8)");
    assert!(place.comment(7).contains(&format!("head={second}")));
    assert_eq!((place.forge.calls("add_comment"), place.forge.calls("edit_comment")), (1, 1));
    // Nothing new: nothing is written, by hints or by looks.
    for _ in 0..5 {
        place.hints.add(WebhookHint::PullRequest { number: 7 });
        tokio::time::sleep(Duration::from_secs(400)).await;
    }
    assert_eq!((place.forge.calls("add_comment"), place.forge.calls("edit_comment")), (1, 1));
    assert_eq!(place.forge.calls("set_status"), 2);
    place.ending.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_preview_that_waits_for_its_turn_to_write_keeps_no_process_from_ending() {
    let mut place = Place::new();
    place.writes_per_minute = 1;
    let task = place.start();
    place.push(7, &[("a/model.yaml", &model("a", 3))]);
    place.push(8, &[("a/model.yaml", &model("a", 5))]);
    place.settle().await;
    assert_eq!(place.forge.calls("add_comment"), 1);
    place.ending.cancel();
    tokio::time::timeout(Duration::from_secs(1), task).await.unwrap().unwrap();
    assert_eq!(place.forge.calls("add_comment"), 1);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_its_own_comment_is_found_and_doubles_are_emptied() {
    let mut place = Place::new();
    let task = place.start();
    place.push(7, &[("a/model.yaml", &model("a", 3))]);
    place.settle().await;
    task.abort();
    let body = place.comment(7);
    // Written twice by two that did not know of each other, and another instance's on the same account.
    place.forge.write(7, &body.replace("digest=", "digest=0"));
    place.forge.write(7, &body.replace("gpu-west", "gpu-east"));
    place.start();
    place.settle().await;
    let comments: Vec<String> = place.forge.comments(7).into_iter().map(|comment| comment.body).collect();
    assert_eq!(comments[0], body);
    assert!(comments[1].contains("This is a duplicate"), "{}", comments[1]);
    assert!(comments[2].contains("gpu-east") && comments[2].contains("1 of 2 models"));
    assert_eq!((place.forge.calls("add_comment"), place.forge.calls("edit_comment")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_pull_request_that_changes_no_model_is_left_in_peace() {
    let mut place = Place::new();
    place.start();
    let head = place.push(7, &[("README.md", "hello")]);
    place.settle().await;
    assert_eq!(place.forge.comments(7), []);
    insta::assert_snapshot!(place.status(&head), @"stator/preview/prod success: no changes");
    place.push(7, &[("a/model.yaml", &model("a", 3))]);
    place.settle().await;
    let head = place.push(7, &[("README.md", "hello again")]);
    place.settle().await;
    insta::assert_snapshot!(place.headline(7), @"### stator · prod · no changes");
    insta::assert_snapshot!(place.status(&head), @"stator/preview/prod success: no changes");
}

#[tokio::test(start_paused = true)]
async fn a_broken_model_is_a_failure_with_its_line() {
    let mut place = Place::new();
    place.start();
    let head = place.push(7, &[("a/model.yaml", &model("a", 3).replace("engine: vllm", "engine: vlm"))]);
    place.settle().await;
    insta::assert_snapshot!(place.status(&head), @"stator/preview/prod failure: a/model.yaml:6: `spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto`");
    assert!(place.comment(7).contains("`a/model.yaml:6:"), "{}", place.comment(7));
}

#[tokio::test(start_paused = true)]
async fn what_is_merged_or_closed_is_closed_out() {
    let mut place = Place::new();
    place.start();
    for (number, state) in [(7, PullRequestState::Merged), (8, PullRequestState::Closed)] {
        let head = place.push(number, &[("a/model.yaml", &model("a", 3))]);
        place.settle().await;
        place.forge.put(PullRequest { state, ..place.pull(number, &head) });
        // One by its webhook, the other by the next look.
        if number == 7 {
            place.hints.add(WebhookHint::PullRequest { number });
        }
        tokio::time::sleep(Duration::from_secs(400)).await;
    }
    insta::assert_snapshot!(format!("{}\n{}", place.headline(7), place.headline(8)), @r#"
    ### stator · prod · merged
    ### stator · prod · closed without merging
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_base_branch_that_moves_is_planned_against_and_only_news_is_written() {
    let mut place = Place::new();
    let before = place.commit("refs/heads/main", None, &[]);
    place.tip.send_replace(Some(before));
    place.start();
    let head = place.push(7, &[("a/model.yaml", &model("a", 3))]);
    place.settle().await;
    // Another model's change on main is none here.
    let tip = place.commit("refs/heads/main", None, &[("b/model.yaml", &model("b", 2))]);
    place.tip.send_replace(Some(tip));
    place.settle().await;
    assert_eq!(place.forge.calls("edit_comment"), 0);
    // A policy is.
    let strict = ROOT.replace(
        "{namespace: prod}",
        "{namespace: prod, policy: [{name: small, expression: 'gpus <= 4', message: too large}]}",
    );
    let tip = place.commit("refs/heads/main", None, &[("stator.yaml", &strict)]);
    place.tip.send_replace(Some(tip));
    place.settle().await;
    assert_eq!(place.forge.calls("edit_comment"), 1);
    insta::assert_snapshot!(place.status(&head), @"stator/preview/prod failure: a/model.yaml:3: policy `small`: too large");
}

#[tokio::test(start_paused = true)]
async fn a_host_in_trouble_is_asked_again() {
    for answer in [429, 500, 503, 409] {
        let mut place = Place::new();
        place.forge.always_all(Some(answer));
        place.push(7, &[("a/model.yaml", &model("a", 3))]);
        let task = place.start();
        tokio::time::sleep(Duration::from_secs(1_000)).await;
        assert!(place.forge.calls("open_pull_requests") < 40, "{answer}: {}", place.forge.calls("open_pull_requests"));
        place.forge.always_all(None);
        tokio::time::sleep(Duration::from_secs(2_000)).await;
        assert_eq!(place.headline(7), "### stator · prod · 1 of 2 models changes", "{answer}");
        assert!(!task.is_finished());
    }
}

/// Row D2 of the review: a host that refused once was never asked again before a restart.
#[tokio::test(start_paused = true)]
async fn a_host_that_refuses_everything_is_asked_rarely_and_for_as_long_as_it_takes() {
    for answer in [401, 403, 410] {
        let mut place = Place::new();
        place.forge.always_all(Some(answer));
        place.push(7, &[("a/model.yaml", &model("a", 3))]);
        let task = place.start();
        tokio::time::sleep(Duration::from_secs(10_000)).await;
        let asked = place.forge.calls("open_pull_requests") + place.forge.calls("pull_request");
        assert!((2..60).contains(&asked), "{answer}: {asked}");
        place.forge.always_all(None);
        tokio::time::sleep(Duration::from_secs(10_000)).await;
        assert_eq!(place.headline(7), "### stator · prod · 1 of 2 models changes", "{answer}");
        assert!(!task.is_finished());
    }
}

/// Row D2: one locked pull request ended all previews of its source until a restart.
#[tokio::test(start_paused = true)]
async fn a_locked_pull_request_keeps_no_other_from_its_preview_and_gets_its_own_when_it_is_unlocked() {
    for answer in [403, 410] {
        let mut place = Place::new();
        place.start();
        place.forge.lock(7, Some(answer));
        place.push(7, &[("a/model.yaml", &model("a", 3))]);
        place.settle().await;
        place.push(8, &[("a/model.yaml", &model("a", 5))]);
        place.settle().await;
        assert_eq!(place.headline(8), "### stator · prod · 1 of 2 models changes", "{answer}");
        tokio::time::sleep(Duration::from_secs(10_000)).await;
        let tries = place.forge.calls("add_comment");
        assert!((3..20).contains(&tries), "{answer}: {tries}");
        place.forge.lock(7, None);
        tokio::time::sleep(Duration::from_secs(4_000)).await;
        assert_eq!(place.headline(7), "### stator · prod · 1 of 2 models changes", "{answer}");
    }
}

/// Row D9 of the review: with a preview that was posted long ago, and with one that the host refuses, nothing is under way.
#[tokio::test(start_paused = true)]
async fn a_process_that_ends_waits_for_no_preview_that_waits_itself() {
    let mut place = Place::new();
    let task = place.start();
    place.push(7, &[("a/model.yaml", &model("a", 3))]);
    place.forge.lock(8, Some(403));
    place.push(8, &[("a/model.yaml", &model("a", 5))]);
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    assert_eq!(place.headline(7), "### stator · prod · 1 of 2 models changes");
    let began = Instant::now();
    place.ending.cancel();
    task.await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_open_pull_requests_are_bounded_work() {
    let mut place = Place::new();
    place.limit = 1_000;
    let heads: Vec<String> = (1..4)
        .map(|number| {
            let name = format!("refs/pull/{number}/head");
            place.commit(
                &name,
                Some("refs/heads/main"),
                &[("a/model.yaml", &model("a", 1 + u32::try_from(number).unwrap()))],
            )
        })
        .collect();
    for number in 1..=1_000 {
        let head = &heads[number % 3];
        let fetch = format!("refs/pull/{}/head", number % 3 + 1);
        let number = u64::try_from(number).unwrap();
        place.forge.put(PullRequest { fetch: Some(fetch), ..place.pull(number, head) });
    }
    place.start();
    tokio::time::sleep(Duration::from_secs(3_000)).await;
    assert_eq!((1..=1_000).filter(|number| place.forge.comments(*number).len() == 1).count(), 1_000);
    assert_eq!(place.forge.calls("add_comment"), 1_000);
    assert_eq!(place.forge.calls("own_comments"), 1_000);
    assert!(place.forge.calls("pull_request") <= 1_100, "{}", place.forge.calls("pull_request"));
    assert!(place.forge.calls("open_pull_requests") <= 12);
    assert_eq!(place.forge.calls("set_status"), 3, "three commits have a status each");
}

/// Row S1 of the review: whoever could open pull requests, of forks too, had all of them planned, and at once at a start.
#[tokio::test(start_paused = true)]
async fn pull_requests_of_forks_and_beyond_the_limit_are_left_out_and_told() {
    let mut place = Place::new();
    (place.forks, place.limit) = (false, 2);
    let heads: Vec<String> = (1..=4)
        .map(|number| place.push(number, &[("a/model.yaml", &model("a", 2 + u32::try_from(number).unwrap()))]))
        .collect();
    let fork = place.push(9, &[("a/model.yaml", &model("a", 8))]);
    for number in 1..=4 {
        place.forge.put(PullRequest { fork: false, ..place.pull(number, &heads[number as usize - 1]) });
    }
    let task = place.start();
    place.settle().await;
    insta::assert_snapshot!(place.status(&fork), @"stator/preview/prod error: not previewed: it comes from a fork; `spec.previewForks` allows them");
    insta::assert_snapshot!(place.status(&heads[1]), @"stator/preview/prod error: not previewed: 2 newer pull requests are open; `spec.previewLimit` raises the limit");
    assert_eq!([1, 2, 3, 4, 9].map(|number| place.forge.comments(number).len()), [0, 0, 1, 1, 0]);
    // A newer one is closed: there is a place for the next.
    place.forge.put(PullRequest { fork: false, state: PullRequestState::Closed, ..place.pull(4, &heads[3]) });
    tokio::time::sleep(Duration::from_secs(700)).await;
    assert_eq!([1, 2, 3].map(|number| place.forge.comments(number).len()), [0, 1, 1]);
    insta::assert_snapshot!(place.status(&heads[1]), @"stator/preview/prod success: 1 of 2 models changes: 4 → 10 h200_sxm (+6)");
    place.ending.cancel();
    task.await.unwrap();
}

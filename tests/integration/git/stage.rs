//! A story's stage: a repository on Gitea, somebody who pushes to it, and the built program that follows it.
//!
//! The controller syncs into an embedded cluster, with the operator played. Gitea's deliveries reach it by a wire that
//! keeps them. Every story ends with [`Stage::end`], which holds what must be true of all of them.

use crate::gitea::{self, BOT, Gitea, GiteaStatus, Repository, WebhookRelay, new_key};
use crate::testbed::{self, PATIENCE, ReservedPort, Supervisor};
use crate::workbench::Workbench;
use base64::Engine as _;
use regex::Regex;
use russh::keys::PrivateKey;
use russh::keys::ssh_key::{HashAlg, LineEnding};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The secret that Gitea signs its deliveries with.
pub const HOOK: &str = "canary-of-the-webhook-6f1d2c";

/// The root of the repository that is synced.
const ROOT: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Repository
metadata:
  name: fleet
spec:
  environments:
    staging:
      namespace: models
";

/// A model: it has a frontend and this many workers.
pub fn model(name: &str, workers: u32) -> String {
    format!(
        "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata:
  name: {name}
spec:
  model: Qwen/Qwen3-0.6B
  engine: mocker
  runtime: 1.2.0
  serving:
    frontend:
      replicas: 1
    worker:
      replicas: {workers}
"
    )
}

/// How the controller is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// How often it looks by itself.
    pub interval: &'static str,
    /// Whether pull requests are planned.
    pub previews: bool,
    /// Whether Gitea calls it.
    pub webhook: bool,
    /// How much faster than life the operator is played.
    pub speed: f64,
    /// Whether it fetches over SSH, with a deploy key.
    pub ssh: bool,
    /// Whether commits must be signed with [`Stage::key`].
    pub verify: bool,
}

impl Setting {
    /// Only a webhook wakes it, so that a story that ends shows that it did.
    pub const DEFAULT: Self =
        Self { interval: "1h", previews: false, webhook: true, speed: 50.0, ssh: false, verify: false };
}

/// The stage of one story.
pub struct Stage {
    /// Where people work.
    pub bench: Workbench,
    /// Where they push to.
    pub repository: Repository<'static>,
    /// What Gitea delivers.
    pub wire: WebhookRelay,
    gitea: &'static Gitea,
    controller: Supervisor,
    port: ReservedPort,
    /// The first commit of `main`.
    pub first: String,
    /// The deploy key, which also signs commits.
    pub key: PrivateKey,
    /// What was pushed to `main`, in order.
    pushed: Mutex<Vec<String>>,
    /// What pull requests were of: number and head.
    proposed: Mutex<Vec<(u64, String)>>,
}

impl Stage {
    /// A stage in the shared Gitea, with one model pushed to `main`; nothing follows it yet. `None`: skip the story.
    pub fn set(name: &str, setting: Setting) -> Option<Self> {
        gitea::shared().map(|gitea| Self::on(gitea, name, setting))
    }

    /// The same in a Gitea of its own, which the story may kill.
    pub fn alone(name: &str, setting: Setting) -> Option<Self> {
        gitea::shared()?;
        let own: &'static Gitea = Box::leak(Box::new(Gitea::start().unwrap()));
        Some(Self::on(own, name, setting))
    }

    fn on(gitea: &'static Gitea, name: &str, setting: Setting) -> Self {
        let repository = gitea.repository(name);
        let bench = Workbench::with(&[("stator.yaml", ROOT), ("models/chat/model.yaml", &model("chat", 1))]);
        let key = new_key();
        repository.deploy_key("stator", &key.public_key().to_openssh().unwrap());
        let wire = WebhookRelay::start();
        let port = ReservedPort::reserve().unwrap();
        wire.leads_to(&format!("http://{}/webhooks/gitea", port.address()));
        let prepare = |folder: &Path| {
            for name in ["home", "tmp"] {
                fs_err::create_dir(folder.join(name)).map_err(|error| error.to_string())?;
            }
            let source = source(gitea, &repository, &key, setting);
            fs_err::write(folder.join("source.yaml"), source).map_err(|error| error.to_string())?;
            let binary = env!("CARGO_BIN_EXE_stator");
            Ok(vec![
                ("BINARY", binary.into()),
                ("PORT", OsString::from(port.number().to_string())),
                ("SPEED", OsString::from(setting.speed.to_string())),
            ])
        };
        let controller = Supervisor::start(include_str!("controller.sh"), prepare, Supervisor::piped).unwrap();
        let (pushed, proposed) = (Mutex::default(), Mutex::default());
        let first = String::new();
        let mut stage = Self { bench, repository, wire, gitea, controller, port, first, key, pushed, proposed };
        stage.first = stage.push("Serve one model");
        stage.bench.switch("main");
        if setting.webhook {
            stage.repository.webhook(&stage.wire.address(), HOOK);
        }
        stage
    }

    /// The Gitea that it is set in.
    pub fn gitea(&self) -> &'static Gitea {
        self.gitea
    }

    /// Commits everything and pushes it to `main`.
    #[track_caller]
    pub fn push(&self, message: &str) -> String {
        let commit = self.bench.commit(message);
        self.push_it(&commit)
    }

    /// Notes that `main` has this commit now.
    pub fn noted(&self, commit: &str) -> String {
        self.pushed.lock().unwrap().push(commit.to_owned());
        commit.to_owned()
    }

    /// Commits everything, signed with a key, where the bench stands.
    pub fn commit_signed(&self, message: &str, key: &PrivateKey) -> String {
        let unsigned = self.bench.commit(message);
        let git = git2::Repository::open(self.bench.root()).unwrap();
        let raw = git.find_commit(git2::Oid::from_str(&unsigned).unwrap()).unwrap();
        let parents: Vec<git2::Commit<'_>> = raw.parents().collect();
        let parents: Vec<&git2::Commit<'_>> = parents.iter().collect();
        let who = raw.author();
        let buffer = git.commit_create_buffer(&who, &who, message, &raw.tree().unwrap(), &parents).unwrap();
        let signature = key.sign("git", HashAlg::Sha512, &buffer).unwrap().to_pem(LineEnding::LF).unwrap();
        let text = std::str::from_utf8(&buffer).unwrap();
        let signed = git.commit_signed(text, &signature, None).unwrap();
        git.reset(&git.find_object(signed, None).unwrap(), git2::ResetType::Soft, None).unwrap();
        signed.to_string()
    }

    /// Pushes the commit that the bench stands at to `main`.
    #[track_caller]
    pub fn push_it(&self, commit: &str) -> String {
        self.repository.push(&self.bench.root(), "main");
        self.noted(commit)
    }

    /// The same, over what is there.
    #[track_caller]
    pub fn force_push_it(&self, commit: &str) -> String {
        self.repository.force_push(&self.bench.root(), "main");
        self.noted(commit)
    }

    /// Commits everything on a branch that starts at `main`, pushes it, and gives the commit. The bench stays there.
    #[track_caller]
    pub fn push_branch(&self, branch: &str, message: &str) -> String {
        let commit = self.bench.commit(message);
        self.repository.push(&self.bench.root(), branch);
        commit
    }

    /// Opens a pull request from a branch onto `main`.
    pub fn propose(&self, branch: &str, title: &str) -> u64 {
        let number = self.repository.open_pull_request(branch, "main", title);
        self.proposed.lock().unwrap().push((number, self.repository.tip(branch)));
        number
    }

    /// Starts the controller and waits until it takes webhooks.
    #[track_caller]
    pub fn follow(&self) {
        self.controller.start_program("controller");
        self.until("the controller answers", || {
            assert!(!self.controller.ended("controller"), "the controller ended\n{}", self.log());
            self.get("/livez").is_some_and(|(code, _)| code == 200)
        });
    }

    /// Changes the source's file, which the controller watches.
    pub fn edit_source(&self, from: &str, to: &str) {
        let path = self.controller.folder().join("source.yaml");
        let text = fs_err::read_to_string(&path).unwrap();
        assert!(text.contains(from), "no {from:?} in the source");
        // As editors do: a new file in the old one's place.
        let new = path.with_extension("new");
        fs_err::write(&new, text.replace(from, to)).unwrap();
        fs_err::rename(new, path).unwrap();
    }

    /// Kills the controller, as a machine that stops does.
    pub fn kill(&self) {
        self.controller.kill_program("controller");
        self.until("the controller is gone", || self.controller.ended("controller"));
    }

    /// Takes the controller's copy of the repository away, as a pod's end does.
    pub fn lose_the_mirror(&self) {
        fs_err::remove_dir_all(self.controller.folder().join("data/mirrors")).unwrap();
    }

    /// Asks the controller to end, and gives its exit code.
    pub fn ask_to_end(&self) -> i32 {
        self.controller.ask_to_end("controller");
        self.until("the controller ends", || self.controller.ended("controller"));
        self.controller.code("controller").unwrap()
    }

    /// Everything that the controller said so far.
    pub fn log(&self) -> String {
        fs_err::read_to_string(self.controller.folder().join("controller.log")).unwrap_or_default()
    }

    /// What the controller answers on its listener.
    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        let address = format!("http://{}{path}", self.port.address());
        let ask = || {
            let client = reqwest::blocking::Client::builder().no_proxy().timeout(PATIENCE).build().ok()?;
            let answer = client.get(address).send().ok()?;
            Some((answer.status().as_u16(), answer.text().ok()?))
        };
        std::thread::scope(|scope| scope.spawn(ask).join().unwrap())
    }

    /// Waits for something, and says what was missing when it does not come.
    #[track_caller]
    pub fn until(&self, what: &str, done: impl Fn() -> bool) {
        testbed::until(what, || done().then_some(()).ok_or(|| self.log()));
    }

    /// Waits until a commit's newest status of a context is this one, and gives its description.
    #[track_caller]
    pub fn wait_for(&self, commit: &str, context: &str, state: &str) -> String {
        testbed::until(&format!("{context} of {commit} is {state}"), || match self.repository.status(commit, context) {
            Some(status) if status.state == state => Ok(status.description),
            other => {
                let found = format!("{other:?}");
                Err(move || format!("it is {found}\n{}", self.log()))
            }
        })
    }

    /// Waits until `main` at a commit is synced and healthy.
    #[track_caller]
    pub fn synced(&self, commit: &str) -> String {
        self.wait_for(commit, "stator/staging", "success")
    }

    /// stator's comments on a pull request.
    pub fn own_comments(&self, number: u64) -> Vec<gitea::GiteaComment> {
        self.repository.comments(number).into_iter().filter(|comment| comment.account == BOT).collect()
    }

    /// The statuses of an environment that a commit ever had, one line each.
    pub fn said_of(&self, commit: &str) -> String {
        let lines = self.repository.statuses(commit).into_iter();
        let lines: Vec<String> =
            lines.map(|row| format!("{} {}: {}", row.context, row.state, row.description)).collect();
        lines.join("\n")
    }

    /// A text without what changes from run to run: where Gitea is, commits, and keys.
    pub fn masked(&self, text: &str) -> String {
        let text = text.replace(&self.gitea.url(), "https://git.example.com");
        let text = Regex::new("SHA256:[A-Za-z0-9+/]+").unwrap().replace_all(&text, "[KEY]");
        Regex::new("\\b([0-9a-f]{40}|[0-9a-f]{12}|[0-9a-f]{7})\\b").unwrap().replace_all(&text, "[COMMIT]").into_owned()
    }

    /// The `replicas` of a model's workers in the cluster; `None` without the model.
    pub fn workers(&self, model: &str) -> Option<u64> {
        let file = find(&self.controller.folder().join("cluster"), &format!("{model}.yaml"))
            .into_iter()
            .find(|path| path.to_string_lossy().contains("ynamo"))?;
        let object: serde_json::Value = serde_saphyr::from_str(&fs_err::read_to_string(file).ok()?).ok()?;
        let components = object["spec"]["components"].as_array()?;
        components.iter().find(|component| component["type"] != "frontend")?["replicas"].as_u64()
    }

    /// The address in the source's file.
    fn followed_url(&self) -> String {
        let source = fs_err::read_to_string(self.controller.folder().join("source.yaml")).unwrap();
        let line = source.lines().find_map(|line| line.trim().strip_prefix("url: ").map(str::to_owned));
        line.expect("a source has an address")
    }

    /// Ends the story: the controller stops when it is asked to; a plan of `main` is empty; every commit that it said
    /// something of has one verdict; and no secret is anywhere that it wrote to.
    #[track_caller]
    pub fn end(self) {
        let pages: Vec<String> = ["/metrics", "/readyz", "/livez"]
            .into_iter()
            .map(|path| self.get(path).unwrap_or_else(|| panic!("{path} does not answer\n{}", self.log())).1)
            .collect();
        assert_eq!(self.ask_to_end(), 0, "{}", self.log());

        let here = Workbench::empty();
        self.repository.clone_into(&here.root(), "main");
        // The controller's repository is the one at the address that it follows.
        let git = git2::Repository::open(here.root()).unwrap();
        git.remote_set_url("origin", &self.followed_url()).unwrap();
        let cluster = format!("embedded:{}", self.controller.folder().join("cluster").display());
        let plan = here.run(["plan", "-e", "staging", "--exit-code", "--cluster", &cluster]);
        assert_eq!(plan.code, Some(0), "{plan}\n{}", self.log());

        let mut said = pages;
        let (pushed, proposed) = (self.pushed.lock().unwrap().clone(), self.proposed.lock().unwrap().clone());
        let heads = proposed.iter().map(|(_, head)| head);
        for commit in pushed.iter().chain(heads).collect::<BTreeSet<_>>() {
            let rows = self.repository.statuses(commit);
            let contexts: BTreeSet<String> = rows.iter().map(|row| row.context.clone()).collect();
            for context in contexts {
                let rows: Vec<GiteaStatus> = rows.iter().filter(|row| row.context == context).cloned().collect();
                let last = rows.last().unwrap();
                assert_ne!(last.state, "pending", "{commit} {rows:#?}\n{}", self.log());
                // What a pull request would do also depends on the branch that it goes into, which moves.
                // What was on its way when the controller or its source began anew may come twice.
                let ends = rows.iter().filter(|row| row.state != "pending");
                let ends: BTreeSet<_> = ends.map(|row| (&row.state, &row.description)).collect();
                assert!(ends.len() == 1 || context.starts_with("stator/preview/"), "{rows:#?}");
            }
            said.extend(rows.into_iter().map(|row| format!("{row:?}")));
        }
        for number in proposed.iter().map(|(number, _)| *number).collect::<BTreeSet<u64>>() {
            said.extend(self.own_comments(number).into_iter().map(|comment| comment.body));
        }
        self.hides_its_secrets(&said);
    }

    /// Looks for the secrets in what was said and in every file that the controller wrote.
    fn hides_its_secrets(&self, said: &[String]) {
        let token = self.gitea.bot_token();
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("{BOT}:{token}"));
        let identity = self.key.to_openssh(LineEnding::LF).unwrap();
        let identity = identity.lines().nth(2).unwrap().to_owned();
        let secrets = [token.to_owned(), HOOK.to_owned(), basic, identity];
        let leaks = |text: &[u8]| {
            secrets.iter().any(|secret| text.windows(secret.len()).any(|window| window == secret.as_bytes()))
        };
        for text in said {
            assert!(!leaks(text.as_bytes()), "a secret in {text}");
        }
        for file in find(self.controller.folder(), "") {
            if file.file_name().is_some_and(|name| name == "source.yaml") {
                continue;
            }
            let bytes = fs_err::read(&file).unwrap_or_default();
            assert!(!leaks(&bytes), "a secret in {}", file.display());
        }
    }
}

/// The source's file: the repository, and the secrets that it names.
fn source(gitea: &Gitea, repository: &Repository<'_>, key: &PrivateKey, setting: Setting) -> String {
    let Setting { interval, previews, webhook, speed: _, ssh, verify } = setting;
    let token = gitea.bot_token();
    let block = |text: &str| -> String { text.lines().map(|line| format!("\n    {line}")).collect() };
    let certificate = block(&fs_err::read_to_string(gitea.certificate()).unwrap());
    let (url, git) = if ssh {
        let identity = block(&key.to_openssh(LineEnding::LF).unwrap());
        (repository.ssh_url(), format!("  identity: |{identity}\n  known_hosts: |{}", block(&gitea.known_hosts())))
    } else {
        (repository.url(), format!("  username: {BOT}\n  password: {token}\n  caFile: |{certificate}"))
    };
    let mut more = String::new();
    if webhook {
        more.push_str("\n  webhook: {secretRef: {name: hook}}");
    }
    if verify {
        more.push_str("\n  verify: {mode: Head, secretRef: {name: keys}}");
    }
    // A commit that may not be rendered is told under the repository's name for the environment all the same.
    if !verify {
        more.push_str("\n  environment: staging");
    }
    let public = key.public_key().to_openssh().unwrap();
    let api = gitea.url();
    format!(
        "\
apiVersion: stator.dev/v1alpha1
kind: ModelSource
metadata: {{name: models}}
spec:
  url: {url}
  ref: {{branch: main}}
  interval: {interval}
  secretRef: {{name: git}}
  forge: {{type: gitea, url: {api}, secretRef: {{name: forge}}}}
  previews: {previews}{more}
---
apiVersion: v1
kind: Secret
metadata: {{name: git}}
stringData:
{git}
---
apiVersion: v1
kind: Secret
metadata: {{name: forge}}
stringData:
  token: {token}
  caFile: |{certificate}
---
apiVersion: v1
kind: Secret
metadata: {{name: hook}}
stringData:
  token: {HOOK}
---
apiVersion: v1
kind: Secret
metadata: {{name: keys}}
stringData:
  team.sshpub: {public}
"
    )
}

/// Every file below a folder whose path ends like this.
fn find(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(next) = todo.pop() {
        let Ok(entries) = fs_err::read_dir(&next) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                todo.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

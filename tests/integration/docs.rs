//! Every console block of the README and of `docs/` is run, and prints what the page says.
//!
//! A line that starts with `$ ` is run by `sh`, lines that start with `> ` continue it. The lines below it are what it
//! prints on both streams; `...` stands for any lines and `[..]` for any text in a line. A last line `? 1` is its exit
//! code, 0 when left out. The blocks of one page run one after the other in one fresh folder with a copy of `examples/`.
//!
//! A block marked `console kubernetes` runs with a kubeconfig whose current context is the tests' own API server, with the
//! namespaces of the example repository; it is skipped where there is no API server, see `tests/support/testbed`.
//!
//! A block marked `console gitea` runs beside the tests' own Gitea, as somebody who may push to it: `https://git.example.com`
//! in a command is where that is, `team/models` a repository of the page's own that holds `examples/repo-layout`, and
//! `$TOKEN` the token of stator's account.
//!
//! There, and in a block without a mark, a command that ends in ` &` runs until the page ends, and what it prints is
//! waited for. So is what `curl` prints: it is asked again until the page is right, as a reader would.
//!
//! A block marked `console install` runs with `helm` and `kubectl`, as the admin of a cluster of the page's own that has
//! nothing of stator yet; `kubectl get` and `kubectl wait` are asked again until the page is right. It has a node that runs
//! pods of the image `registry.example.com/stator`, and somebody who does what Dynamo's operator would. The git host is
//! there too.
//!
//! `STATOR_BLESS=1 cargo test --test integration docs::` writes what was printed where a page says something else.
//! `STATOR_TEST_PAGE=docs/tutorial.md` looks at one page alone. `STATOR_TEST_PROGRAM` is the path of another program to run, built by another profile: see `.ci/nightly`.

use crate::testbed::PATIENCE;
use crate::workbench::program;
use crate::{gitea, node, testbed};
use fs_err as fs;
use snapbox::IntoData as _;
use std::cell::{OnceCell, RefCell};
use std::ffi::OsString;
use std::io::{Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What a block runs against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// Nothing.
    None,
    /// A Kubernetes cluster.
    Kubernetes,
    /// A git host.
    Gitea,
    /// A Kubernetes cluster without stator, and a git host.
    Install,
}

/// One command of a page.
#[derive(Debug, PartialEq)]
struct Step {
    command: String,
    expected: String,
    code: i32,
    server: Server,
    /// The lines of the page that hold what it prints, its exit code included.
    output: std::ops::Range<usize>,
}

/// The commands of a page's console blocks, in order.
fn steps(page: &str) -> Vec<Step> {
    let lines: Vec<&str> = page.lines().collect();
    let mut steps: Vec<Step> = Vec::new();
    let mut block = None;
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("```") {
            block = match *line {
                "```console" => Some(Server::None),
                "```console kubernetes" => Some(Server::Kubernetes),
                "```console gitea" => Some(Server::Gitea),
                "```console install" => Some(Server::Install),
                _ => None,
            };
            continue;
        }
        let Some(server) = block else { continue };
        if let Some(command) = line.strip_prefix("$ ") {
            let output = at + 1..at + 1;
            steps.push(Step { command: command.to_owned(), expected: String::new(), code: 0, server, output });
            continue;
        }
        let step = steps.last_mut().unwrap_or_else(|| panic!("line {}: output before a command", at + 1));
        if step.output.is_empty()
            && let Some(more) = line.strip_prefix("> ")
        {
            step.command.push('\n');
            step.command.push_str(more);
            step.output = at + 1..at + 1;
            continue;
        }
        step.output.end = at + 1;
        match line.strip_prefix("? ").and_then(|code| code.parse().ok()) {
            Some(code) => step.code = code,
            None => {
                step.expected.push_str(line);
                step.expected.push('\n');
            }
        }
    }
    steps
}

/// A fresh folder that commands run in, and nothing of the caller's environment.
struct Place {
    folder: tempfile::TempDir,
    /// Programs that are not on the `PATH`, by their names.
    tools: tempfile::TempDir,
    host: OnceCell<Host>,
    cluster: OnceCell<Fresh>,
    running: RefCell<Vec<testbed::Supervisor>>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        copy(&root.join("examples"), &folder.path().join("examples"));
        copy(&root.join("schemas"), &folder.path().join("schemas"));
        copy(&root.join("deploy"), &folder.path().join("deploy"));
        fs::write(folder.path().join(".cwd"), folder.path().to_str().unwrap()).unwrap();
        let tools = tempfile::tempdir().unwrap();
        Self { folder, tools, host: OnceCell::new(), cluster: OnceCell::new(), running: RefCell::default() }
    }

    /// Puts a program where commands find it. Nothing where there is none, which has been said.
    fn link(&self, name: &str, program: Option<&Path>) -> Option<()> {
        let (program, link) = (program?, self.tools.path().join(name));
        if program.is_absolute() && !link.exists() {
            std::os::unix::fs::symlink(program, link).unwrap();
        }
        Some(())
    }

    /// The variables that commands see, and no others.
    fn environment(&self, kubeconfig: Option<&Path>) -> Vec<(&'static str, OsString)> {
        let (tools, own) = (self.tools.path().display(), program());
        let path = format!("{tools}:{}:{}", own.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
        let mut variables = vec![
            ("PATH", path.into()),
            ("STATE", self.folder.path().join(".cwd").into()),
            ("HOME", self.folder.path().into()),
            ("LC_ALL", "C.UTF-8".into()),
            ("TZ", "UTC".into()),
            ("KUBECONFIG", kubeconfig.unwrap_or(Path::new("")).into()),
            // A command that never ends is a failure and must not hang the suite.
            ("STATOR_TIMEOUT", "15m".into()),
        ];
        variables.extend(self.host.get().map(Host::environment).unwrap_or_default());
        variables
    }

    fn here(&self) -> String {
        fs::read_to_string(self.folder.path().join(".cwd")).unwrap().trim().to_owned()
    }

    /// A command of a page as it is run here.
    fn real(&self, command: &str) -> String {
        let command = command.replace("cargo run -- ", "stator ");
        self.host.get().map_or(command.clone(), |host| host.real(&command))
    }

    /// What was printed here as the page has it.
    fn told(&self, printed: &str) -> String {
        let printed = printed
            .replace(self.folder.path().canonicalize().unwrap().to_str().unwrap(), "/home/you")
            .replace(self.folder.path().to_str().unwrap(), "/home/you");
        self.host.get().map_or(printed.clone(), |host| host.told(&printed))
    }

    /// What a command prints and its exit code. A `cd` lasts.
    fn run(&self, command: &str, kubeconfig: Option<&Path>) -> (String, i32) {
        let script = format!("exec 2>&1\n{}\ncode=$?\npwd > \"$STATE\"\nexit $code", self.real(command));
        // Into a file: what a command leaves running may keep a pipe open for ever.
        let mut printed = tempfile::tempfile().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .current_dir(self.here())
            .env_clear()
            .envs(self.environment(kubeconfig))
            .stdin(Stdio::null())
            .stdout(printed.try_clone().unwrap())
            .process_group(0)
            .spawn()
            .unwrap();
        let start = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if start.elapsed() > PATIENCE => break None,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        if status.is_none() {
            let group = format!("-{}", child.id());
            Command::new("kill").args(["-KILL", "--", &group]).status().unwrap();
            child.wait().unwrap();
        }
        let mut bytes = Vec::new();
        printed.rewind().unwrap();
        printed.read_to_end(&mut bytes).unwrap();
        let mut said = String::from_utf8_lossy(&bytes).into_owned();
        if status.is_none() {
            said.push_str("\n(still running after 15 minutes)\n");
        }
        (self.told(&said), status.and_then(|status| status.code()).unwrap_or(-1))
    }

    /// Runs a command until the page ends. Gives a look at what it has printed so far.
    fn start(&self, command: &str) -> impl Fn() -> (String, i32) {
        let prepare = |_: &Path| {
            let line = |(name, value): (&str, OsString)| format!("{name}='{}'", value.to_str().unwrap());
            // It runs as long as the page does.
            let lasting = self.environment(None).into_iter().filter(|(name, _)| *name != "STATOR_TIMEOUT");
            let variables: Vec<String> = lasting.map(line).collect();
            let command = format!("cd '{}' && exec {}", self.here(), self.real(command));
            Ok(vec![("VARIABLES", variables.join(" ").into()), ("COMMAND", command.into())])
        };
        let script = r#"start() { eval "run it env -i $VARIABLES sh -c \"\$COMMAND\""; }"#;
        let supervisor = testbed::Supervisor::start(script, prepare, testbed::Supervisor::piped).unwrap();
        supervisor.start_program("it");
        let log = supervisor.folder().join("it.log");
        self.running.borrow_mut().push(supervisor);
        move || (self.told(&fs::read_to_string(&log).unwrap_or_default()), 0)
    }
}

/// A cluster that has nothing of stator yet.
struct Fresh {
    plane: testbed::ControlPlane,
    /// Ends before the cluster does.
    _node: node::Node,
    _operator: node::Operator,
}

impl Fresh {
    /// Says why, where there is none. The image's authorities are those of the git host.
    fn new(host: &Host) -> Option<Self> {
        // Says why there is no cluster at all.
        testbed::shared()?;
        let programs = testbed::Programs::find().unwrap();
        let plane = testbed::ControlPlane::bare(&programs, testbed::Audit::Off).unwrap();
        let setting = node::NodeSettings {
            namespaces: vec!["stator-system".to_owned()],
            images: vec![("registry.example.com/stator".to_owned(), program())],
            variables: vec![("SSL_CERT_FILE".to_owned(), host.gitea.certificate().display().to_string())],
            // The git host of the pages is on this machine.
            controller_arguments: vec!["--allow-local-addresses".to_owned()],
        };
        let node = node::Node::start(&plane, setting)?;
        let operator = node::Operator::start(&plane, &["models-staging"]);
        Some(Self { plane, _node: node, _operator: operator })
    }
}

/// The git host of a page: a repository of its own, and somebody who may push to it.
struct Host {
    gitea: &'static gitea::Gitea,
    repository: gitea::Repository<'static>,
    port: testbed::ReservedPort,
}

/// What pages call the git host.
const HOST: &str = "https://git.example.com";

impl Host {
    /// Says why, where there is none.
    fn new(folder: &Path) -> Option<Self> {
        let tools = ["curl", "jq"].into_iter().filter(|tool| !testbed::is_there(tool, "--version"));
        if let Some(missing) = tools.into_iter().next() {
            assert!(!testbed::required(), "there is no {missing}, which pages use");
            testbed::say(&format!("SKIPPED a page's commands on Gitea: there is no {missing}"));
            return None;
        }
        let gitea = gitea::shared()?;
        static PAGES: AtomicUsize = AtomicUsize::new(0);
        let repository = gitea.repository(&format!("page-{}", PAGES.fetch_add(1, Ordering::Relaxed)));
        // Readers need no token to look.
        repository.call("PATCH", "", &serde_json::json!({"private": false}));
        let models = tempfile::tempdir().unwrap();
        copy(&root().join("examples/repo-layout"), models.path());
        let git = git2::Repository::init(models.path()).unwrap();
        let mut index = git.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
        let tree = git.find_tree(index.write_tree().unwrap()).unwrap();
        let who = git2::Signature::now("You", "you@example.com").unwrap();
        git.commit(Some("HEAD"), &who, &who, "The example", &tree, &[]).unwrap();
        repository.push(models.path(), "main");
        let login = format!("://{}:{}@", gitea::OWNER, gitea.owner_token());
        fs::write(folder.join(".git-credentials"), gitea.url().replacen("://", &login, 1)).unwrap();
        let settings = "[user]\nname = You\nemail = you@example.com\n[credential]\nhelper = store\n";
        fs::write(folder.join(".gitconfig"), settings).unwrap();
        Some(Self { gitea, repository, port: testbed::ReservedPort::reserve().unwrap() })
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let certificate: OsString = self.gitea.certificate().into();
        vec![
            ("TOKEN", self.gitea.bot_token().into()),
            ("GIT_SSL_CAINFO", certificate.clone()),
            ("CURL_CA_BUNDLE", certificate.clone()),
            ("SSL_CERT_FILE", certificate),
            ("GIT_TERMINAL_PROMPT", "0".into()),
        ]
    }

    /// The pages' names, and what they stand for.
    fn names(&self) -> [(&'static str, String); 3] {
        [
            ("team/models", self.repository.path()),
            (HOST, self.gitea.url()),
            ("127.0.0.1:8080", self.port.address().to_string()),
        ]
    }

    fn real(&self, command: &str) -> String {
        let listen = format!("stator controller --listen {} ", self.port.address());
        let command = command.replace("stator controller ", &listen);
        self.names().iter().fold(command, |text, (name, real)| text.replace(name, real))
    }

    fn told(&self, printed: &str) -> String {
        self.names().iter().fold(printed.to_owned(), |text, (name, real)| text.replace(real, name))
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // What somebody tried out in the examples is not part of them.
        if entry.file_name() == ".stator" {
            continue;
        }
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// A kubeconfig of the tests' API server, with the namespaces of the example repository.
fn kubeconfig() -> Option<PathBuf> {
    static NAMESPACES: std::sync::Once = std::sync::Once::new();
    let plane = testbed::shared()?;
    NAMESPACES.call_once(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for name in ["models-staging", "models"] {
            runtime.block_on(plane.namespace(name));
        }
    });
    Some(plane.kubeconfig())
}

/// The command that `.ci/run` tests with.
const TESTS: &str = "cargo test --workspace --locked";

/// Most of a page's time is waiting.
const PAGES_AT_A_TIME: usize = 4;

/// Looks until it is what was expected, or until that takes too long.
fn until<E>(look: impl Fn() -> (String, i32), same: impl Fn(&(String, i32)) -> Result<bool, E>) -> (String, i32) {
    let start = Instant::now();
    loop {
        let found = look();
        if matches!(same(&found), Ok(true)) || start.elapsed() > PATIENCE {
            return found;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Runs a page. Gives what went wrong, and the page with what was really printed.
fn check(page: &str) -> (Vec<String>, String) {
    let place = Place::new();
    let mut wrong = Vec::new();
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    let mut replaced = Vec::new();
    for step in steps(page) {
        // The tests are this very run: it is enough that the page names the command that `.ci/run` runs.
        if step.command.starts_with("cargo test") {
            if step.command != TESTS || !step.expected.is_empty() {
                wrong
                    .push(format!("$ {}\nthe tests are run as `{TESTS}`, and their output is not shown", step.command));
            }
            continue;
        }
        // What is skipped is said loudly by the testbed, and an error in CI.
        let kubeconfig = match step.server {
            Server::None => None,
            Server::Kubernetes => match kubeconfig() {
                Some(path) => {
                    let Some(()) = place.link("kubectl", testbed::kubectl()) else { continue };
                    Some(path)
                }
                None => continue,
            },
            Server::Gitea => {
                if place.host.get().is_none() {
                    let Some(host) = Host::new(place.folder.path()) else { continue };
                    let _ = place.host.set(host);
                }
                None
            }
            Server::Install => {
                if place.host.get().is_none() {
                    let Some(host) = Host::new(place.folder.path()) else { continue };
                    let _ = place.host.set(host);
                }
                let Some(host) = place.host.get() else { continue };
                if place.cluster.get().is_none() {
                    let linked = place.link("helm", testbed::helm()).and(place.link("kubectl", testbed::kubectl()));
                    let Some(cluster) = linked.and_then(|()| Fresh::new(host)) else { continue };
                    let _ = place.cluster.set(cluster);
                }
                place.cluster.get().map(|cluster| cluster.plane.kubeconfig())
            }
        };
        let same = |(printed, code): &(String, i32)| {
            let same = snapbox::Assert::new().action(snapbox::assert::Action::Verify).try_eq(
                None,
                printed.clone().into_data(),
                step.expected.as_str().into_data(),
            );
            same.map(|()| *code == step.code)
        };
        let (printed, code) = match (step.server, step.command.strip_suffix(" &")) {
            (Server::None | Server::Gitea, Some(command)) => until(place.start(command), same),
            (Server::None | Server::Gitea, None) if step.command.starts_with("curl ") => {
                until(|| place.run(&step.command, None), same)
            }
            // What was named a moment ago is not there at once.
            (Server::Install, None)
                if ["kubectl get ", "kubectl wait "].iter().any(|it| step.command.starts_with(it)) =>
            {
                until(|| place.run(&step.command, kubeconfig.as_deref()), same)
            }
            (Server::None | Server::Kubernetes | Server::Gitea | Server::Install, _) => {
                place.run(&step.command, kubeconfig.as_deref())
            }
        };
        let same = same(&(printed.clone(), code));
        if let Err(difference) = same {
            wrong.push(format!("$ {}\n{difference}", step.command));
        } else if code != step.code {
            wrong.push(format!("$ {}\nended with {code}, the page says {}", step.command, step.code));
        } else {
            continue;
        }
        let mut output: Vec<String> = printed.lines().map(str::to_owned).collect();
        output.extend((code != 0).then(|| format!("? {code}")));
        replaced.push((step.output, output));
    }
    for (range, output) in replaced.into_iter().rev() {
        lines.splice(range, output);
    }
    (wrong, lines.join("\n") + "\n")
}

#[test]
fn every_console_block_prints_what_it_says() {
    let update = std::env::var("STATOR_BLESS").is_ok_and(|value| value == "1");
    let only = std::env::var("STATOR_TEST_PAGE").unwrap_or_default();
    let pages: Vec<PathBuf> = pages().into_iter().filter(|page| page.ends_with(&only) || only.is_empty()).collect();
    let (wrong, run) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let (next, cluster) = (AtomicUsize::new(0), Mutex::new(()));
    let check_pages = || {
        while let Some(path) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
            let page = fs::read_to_string(path).unwrap();
            let steps = steps(&page);
            run.fetch_add(steps.len(), Ordering::Relaxed);
            // They share an API server and its namespaces.
            let _alone = steps.iter().any(|step| step.server == Server::Kubernetes).then(|| cluster.lock().unwrap());
            let (faults, written) = check(&page);
            if update && !faults.is_empty() {
                fs::write(path, written).unwrap();
            }
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            let faults: Vec<String> = faults.into_iter().map(|fault| format!("{name}: {fault}")).collect();
            // Said at once, as the end of a long log is not always kept.
            faults.iter().for_each(|fault| testbed::say(fault));
            wrong.lock().unwrap().extend(faults);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..PAGES_AT_A_TIME {
            scope.spawn(check_pages);
        }
    });
    let (wrong, run) = (wrong.into_inner().unwrap(), run.into_inner());
    assert!(run >= 10 || !only.is_empty(), "only {run} commands were found");
    assert!(wrong.is_empty() || update, "{}", wrong.join("\n\n"));
}

#[test]
fn the_readme_names_the_commands_of_a_fresh_machine() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let commands: Vec<String> = steps(&readme).into_iter().map(|step| step.command).collect();
    assert!(commands.iter().any(|command| command == TESTS), "{commands:?}");
    assert!(commands.iter().any(|command| command.starts_with("cargo run -- sync ")), "{commands:?}");
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(ci.lines().any(|line| line.contains(&format!(" {TESTS} 2>&1"))), "{ci}");
}

#[test]
fn a_page_that_says_something_else_is_found() {
    let page = |command: &str, output: &str| format!("```console\n$ {command}\n{output}```\n");
    let faults = |page: String| check(&page).0.len();
    assert_eq!(faults(page("echo a; echo b", "a\nb\n")), 0);
    assert_eq!(faults(page("echo a; echo b", "...\nb\n")), 0);
    assert_eq!(faults(page("echo one two", "one [..]\n")), 0);
    assert_eq!(faults(page("echo a >&2; exit 3", "a\n? 3\n")), 0);
    assert_eq!(faults(page("echo a", "b\n")), 1);
    assert_eq!(faults(page("exit 3", "")), 1);
    assert_eq!(faults(page("cargo test --release", "")), 1);
    assert_eq!(faults(page("cargo test --workspace --locked", "")), 0);
    assert_eq!(check(&page("echo a", "b\n")).1, page("echo a", "a\n"));
    // A `cd` lasts to the next command, and blocks in other languages are left alone.
    assert_eq!(faults(page("cd examples", "$ ls\nadopt\nmanifests\nrecipes\nrepo-layout\n")), 0);
    assert_eq!(steps("```sh\n$ false\n```\n"), Vec::new());
}

#[test]
fn a_block_beside_a_git_host_prints_what_comes_in_time() {
    let gitea = "```console gitea\n$ echo come; sleep 60 &\ncome\n$ git ls-remote --heads https://git.example.com/team/models.git\n\
                 [..]\trefs/heads/main\n$ curl -s https://git.example.com/api/v1/repos/team/models | jq -r .html_url\n\
                 https://git.example.com/team/models\n```\n";
    assert_eq!(check(gitea).0, Vec::<String>::new());
}

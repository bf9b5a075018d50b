//! Schemathesis over every operation of the API: what its description promises, whatever is asked, for whoever asks.
//!
//! `.ci/run` fetches the tool from PyPI where it can. Where `CI` is set a missing one fails the test.

use super::bench;
use super::controller::{controller, source};
use super::scene::Pages;
use crate::controller::readers::for_readers;
use crate::testbed::skipped;
use stator_view::api::{ENDPOINTS, openapi};
use std::ffi::OsString;
use std::process::Command;

/// What makes the same cases of the same description.
const SEED: &str = "1";

/// The program; `None` means: skip the test, it has been said loudly.
fn tool() -> Option<OsString> {
    let program = std::env::var_os("STATOR_SCHEMATHESIS").unwrap_or_else(|| "schemathesis".into());
    if Command::new(&program).arg("--version").output().is_ok_and(|told| told.status.success()) {
        return Some(program);
    }
    skipped("there is no schemathesis: set STATOR_SCHEMATHESIS to its program; `.ci/run` fetches it from PyPI");
    None
}

/// Who asks of what.
struct Asker<'a> {
    /// The scheme of the description that lets them in, and the setting with what they have for it; nothing without rights.
    login: Option<(&'a str, String)>,
    /// A namespace and names of models that there are.
    models: (&'a str, &'a str),
    /// The namespace of the source, whose name is `fleet`.
    sources: &'a str,
    /// The source that models are sent for; empty for who sees none, to whom any name is a wrong one.
    label: &'a str,
    phases: &'a str,
    /// How many requests are made up for each operation, beside those that its description leads to.
    examples: u32,
}

impl Asker<'_> {
    /// The description as it holds for them.
    fn document(&self, pages: &Pages) -> String {
        let mut document = openapi(ENDPOINTS);
        if self.login.is_none() {
            // Who has no rights is told so, and nothing else.
            let operations = document["paths"].as_object_mut().unwrap().values_mut();
            for operation in operations.flat_map(|path| path.as_object_mut().unwrap().values_mut()) {
                operation["responses"].as_object_mut().unwrap().retain(|status, _| status == "401");
            }
        }
        let port = pages.address.rsplit(':').next().unwrap();
        document.to_string().replace("stator-PORT", &format!("stator-{port}"))
    }

    /// The settings of the tool. What a schema cannot say is refused by other words: a model by its rules (422), a place in a
    /// list of other filters (410). Coverage of a model's schema takes half a minute, so models are made up alone.
    fn settings(&self, pages: &Pages) -> String {
        let (namespace, name) = self.models;
        let login = self.login.as_ref().map(|(scheme, secret)| format!("[auth.openapi.{scheme}]\n{secret}\n"));
        format!(
            "\
max-stream-events = 1
continue-on-failure = true
warnings = false
# A stream answers at once who heard something else last.
headers = {{ Origin = 'http://{address}', Last-Event-ID = '{heard}' }}
{login}
[checks.positive_data_acceptance]
expected-statuses = ['2xx', 401, 403, 404, 409, 410]
[dictionaries]
namespaces = {{ values = ['{namespace}'] }}
models = {{ values = ['{name}'] }}
places = {{ values = ['{place}'] }}
sources = {{ values = ['fleet'] }}
[[operations]]
include-path-regex = '^/api/v1/models/'
parameters = {{ 'path.namespace' = {{ dictionary = 'namespaces', probability = 0.8 }}, 'path.name' = {{ dictionary = 'models', probability = 0.8 }} }}
[[operations]]
include-path-regex = '^/api/v1/sources/'
parameters = {{ 'path.namespace' = {{ dictionary = 'places', probability = 0.8 }}, 'path.name' = {{ dictionary = 'sources', probability = 0.8 }} }}
[[operations]]
include-path-regex = '^/api/v1/(render|plan|proposals)$'
parameters = {{ 'query.source' = '{label}' }}
phases = {{ coverage = {{ enabled = false }} }}
checks = {{ positive_data_acceptance = {{ expected-statuses = ['2xx', 401, 403, 404, 409, 422] }} }}
",
            address = pages.address,
            heard = u64::MAX,
            login = login.unwrap_or_default(),
            place = self.sources,
            label = self.label,
        )
    }

    /// Asks, and finds nothing.
    #[track_caller]
    fn finds_nothing(&self, program: &OsString, pages: &Pages, who: &str) {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("openapi.json"), self.document(pages)).unwrap();
        fs_err::write(folder.path().join("settings.toml"), self.settings(pages)).unwrap();
        let (url, examples) = (format!("http://{}", pages.address), self.examples.to_string());
        let mut command = Command::new(program);
        command.current_dir(folder.path()).args([
            "--config-file",
            "settings.toml",
            "--no-color",
            "run",
            "openapi.json",
        ]);
        command.args(["--url", &url, "--checks", "all", "--phases", self.phases]);
        command.args(["--seed", SEED, "--max-examples", &examples, "--generation-database", "none"]);
        command.args(["--workers", "1", "--request-timeout", "20"]);
        let told = command.env("NO_PROXY", "*").output().unwrap();
        let (said, more) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
        assert!(told.status.success(), "{who}:\n{said}{more}");
        let every = format!("Tested: {}", ENDPOINTS.len());
        assert!(said.contains(&every), "{who}: not every operation was tested\n{said}{more}");
    }
}

#[test]
fn the_api_of_a_file_s_sources_is_as_it_is_described() {
    let Some(program) = tool() else { return };
    let bench = bench();
    bench.commit("first");
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("sources.yaml"), source(&bench, "fleet", "")).unwrap();
    let pages = Pages::open(&mut controller(&bench, folder.path()));
    let healthy = "/api/v1/models?health=Healthy&sync=Synced";
    pages.shows(healthy, "three models", |answer| answer.json()["metadata"]["total"] == 3);
    let secret = format!("api_key = '{}'", pages.cookie.split_once('=').unwrap().1);
    let all = Asker {
        login: Some(("link", secret)),
        models: ("models", "gamma"),
        sources: "default",
        label: "default/fleet",
        phases: "examples,coverage,fuzzing,stateful",
        examples: 8,
    };
    all.finds_nothing(&program, &pages, "the holder of the link");
    let nobody = Asker { login: None, phases: "coverage,fuzzing", examples: 2, ..all };
    nobody.finds_nothing(&program, &pages, "without the link");
}

#[test]
fn the_api_of_a_cluster_s_sources_is_as_it_is_described() {
    let Some(program) = tool() else { return };
    for_readers("described", |pages, namespace, tokens| {
        let label = format!("{namespace}/fleet");
        let [all, some, none] = tokens.map(|token| Some(("token", format!("bearer = '{token}'"))));
        let askers = [
            ("with all rights", all, label.as_str()),
            ("with some rights", some, label.as_str()),
            ("with no rights", none, ""),
            ("without a token", None, ""),
        ];
        for (who, login, label) in askers {
            let models = (namespace, "mock-0");
            let phases = "coverage,fuzzing,stateful";
            let asker = Asker { login, models, sources: namespace, label, phases, examples: 2 };
            asker.finds_nothing(&program, pages, who);
        }
    });
}

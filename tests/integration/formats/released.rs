//! What each release left behind, opened by this version: nothing of it is written again, what was begun is ended, and a plan
//! that was saved is carried out. What the next release writes is read too, with fields that this one does not know.

use super::stored::{Api, KINDS, NAMESPACES, SECRETS, next_controller, stored, text};
use super::{
    FOLDER, FORGE, Marks, Place, RELEASED_HOSTS, RELEASES, VersionFixtures, ageless, copy, files, marks, untouched,
};
use crate::forge_fake::{FakeForgeHost, ForgeFlavor};
use crate::git_server::GitServer;
use crate::testbed::{self, ControlPlane, Programs, until};
use crate::workbench::Output;
use serde_json::{Value, json};
use stator_core::object::Object;
use stator_git::source::model_source::status::ModelSourceStatus;
use stator_model::plan::{Journal, Record};
use std::cell::Cell;

/// Puts fields that no version knows into an object of stator's: beside others, and into each of its lists' items. Not into the
/// spec of a record, which is what git says.
fn with_more(object: &mut Value) {
    fn grow(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.values_mut().for_each(grow);
                fields.insert("addedByTheNext".to_owned(), json!({"of": ["what", {"nobody": "knows"}]}));
            }
            Value::Array(items) => items.iter_mut().for_each(grow),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let part = if object["kind"] == "SyncJournal" { "spec" } else { "status" };
    grow(&mut object[part]);
    if let Some(Value::String(objects)) = object.pointer_mut("/metadata/annotations/stator.dev~1objects") {
        let mut listed: Value = serde_json::from_str(objects).unwrap();
        grow(&mut listed);
        *objects = listed.to_string();
    }
    object["metadata"]["annotations"]["stator.dev/added-by-the-next"] = json!("true");
}

impl Place {
    /// A checkout as it was synced from: of no git host.
    fn local(version: &'static VersionFixtures) -> Self {
        let place = Self::of(version);
        git2::Repository::open(place.bench.root()).unwrap().remote_delete("origin").unwrap();
        place
    }

    /// An embedded cluster of the fixtures, copied.
    fn embedded(&self, folder: &str) -> String {
        copy(&self.version.kept(folder), &self.beside(folder), &[]);
        format!("embedded:{}", self.beside(folder).display())
    }

    fn at(&self, cluster: &str, arguments: &[&str]) -> Output {
        self.bench.run(arguments.iter().chain(&["--cluster", cluster]))
    }
}

/// What the next version wrote is what this one would have, where both know it: records, journals and statuses of sources.
#[test]
fn fields_that_are_not_known_change_nothing_that_is_read() {
    for version in &RELEASES {
        let journals = files(&version.kept("interrupted/models/syncjournals"));
        let journals = journals.iter().map(|path| {
            let text = fs_err::read_to_string(version.kept("interrupted/models/syncjournals").join(path)).unwrap();
            serde_saphyr::from_str::<Value>(&text).unwrap()
        });
        let mut read = 0;
        let all = stored(version, "Model", &[]).into_iter().chain(journals).chain(stored(version, "ModelSource", &[]));
        for object in all {
            let mut grown = object.clone();
            with_more(&mut grown);
            assert_ne!(grown, object);
            let meaning = |object: &Value| match object["kind"].as_str().unwrap() {
                "Model" => format!("{:#?}", Record::from_object(&Object::from_value(object.clone()).unwrap()).unwrap()),
                "SyncJournal" => {
                    format!("{:#?}", Journal::from_object(&Object::from_value(object.clone()).unwrap()).unwrap())
                }
                _ => {
                    let status = serde_json::from_value::<ModelSourceStatus>(object["status"].clone()).unwrap();
                    format!("{:#}", serde_json::to_value(status).unwrap())
                }
            };
            assert_eq!(meaning(&grown), meaning(&object));
            read += 1;
        }
        assert!(read >= 9, "{read}");
    }
}

/// Both environments are as they are declared, and nothing is written: not by a plan, not by a sync.
#[test]
fn an_embedded_cluster_is_as_it_was() {
    RELEASES.iter().for_each(|version| {
        let place = Place::local(version);
        let cluster = place.embedded("cluster");
        let before = marks(&place.beside("cluster"));
        for environment in [&["-e", "prod"][..], &["-e", "staging", "--prune=false"]] {
            let run = |verb: &[&str]| place.at(&cluster, &[verb, environment].concat()).success();
            assert!(run(&["plan", "--exit-code"]).stdout.contains("No changes"));
            let synced = run(&["sync", "--yes", "--wait"]);
            assert!(synced.stdout.contains(", 0 writes.") && !synced.stderr.contains("warning"), "{synced}");
        }
        let said = |verb: &[&str]| ageless(&place.at(&cluster, &[verb, &["-e", "prod"]].concat()).success().stdout);
        assert!(said(&["status"]).matches(" Synced  Healthy ").count() >= 4, "{}", said(&["status"]));
        assert!(said(&["history", "search"]).contains("create DynamoGraphDeployment models/search"));
        untouched(&place.beside("cluster"), &before);
    });
}

/// A plan that was saved is carried out, and leaves nothing to do.
#[test]
fn a_saved_plan_is_carried_out() {
    RELEASES.iter().for_each(|version| {
        let place = Place::local(version);
        let cluster = place.embedded("cluster");
        copy(&version.kept("change"), &place.bench.root(), &[]);
        let mut plan: Value = serde_json::from_slice(&fs_err::read(version.kept("plan.json")).unwrap()).unwrap();
        // The next version says more in its own.
        plan["addedByTheNext"] = json!({"of": "what nobody knows"});
        let file = place.beside("plan.json");
        fs_err::write(&file, plan.to_string()).unwrap();
        let fast = ["--wait", "--yes", "--simulate-operator", "--simulate-speed", "1000"];
        let sync = |more: &[&str]| place.at(&cluster, &[&["sync", "-e", "prod"], &fast[..], more].concat()).success();
        let synced = sync(&["--plan", file.to_str().unwrap()]);
        assert!(synced.stdout.contains("6 of 6 models synced, "), "{synced}");
        assert!(sync(&[]).stdout.contains(", 0 writes."));
    });
}

/// A sync that was killed is ended by the next one, which knows from the journal what may be there.
#[test]
fn an_interrupted_sync_is_ended() {
    RELEASES.iter().for_each(|version| {
        let place = Place::local(version);
        let cluster = place.embedded("interrupted");
        let journals = place.beside("interrupted/models/syncjournals");
        assert!(!files(&journals).is_empty());
        let fast = ["sync", "-e", "prod", "--wait", "--yes", "--simulate-operator", "--simulate-speed", "1000"];
        assert!(place.at(&cluster, &fast).success().stdout.contains("4 of 4 models synced, "));
        assert!(!journals.is_dir() || files(&journals).is_empty());
        assert!(place.at(&cluster, &fast).success().stdout.contains(", 0 writes."));
    });
}

/// A controller takes up its folder: it asks the git host for its refs alone, and writes to no mirror and to no object.
#[test]
fn a_controller_goes_on_with_its_folder() {
    RELEASES.iter().for_each(|version| {
        let place = Place::beside_host(version, |folder| GitServer::at(RELEASED_HOSTS[0], folder));
        let here = place.beside("").to_str().unwrap().trim_end_matches('/').to_owned();
        let words = [(FOLDER, here.as_str())];
        let cluster = place.embedded("controller/followed");
        copy(&version.kept("controller/data"), &place.beside("controller/data"), &words);
        copy(&version.kept("controller/sources"), &place.beside("controller/sources"), &words);
        let data = place.beside("controller/data");
        for folder in fs_err::read_to_string(version.kept("controller/empty-folders")).unwrap().lines() {
            fs_err::create_dir_all(data.join(folder)).unwrap();
        }
        let mirrors = || -> Marks { marks(&data.join("mirrors")) };
        let (before, objects) = (mirrors(), marks(&place.beside("controller/followed")));
        let mut command = place.bench.command();
        command.arg("controller").arg("--source-file").arg(place.beside("controller/sources/sources.yaml"));
        command.arg("--data").arg(&data).args(["--cluster", &cluster, "--once"]);
        let told = place.bench.finish(&mut command).success();
        assert_eq!(told.stderr.matches("nothing to change").count(), 2, "{told}");
        let asked: Vec<String> = place.git.asked().into_iter().map(|asked| asked.target).collect();
        assert_eq!(asked, ["/team/models.git/info/refs?service=git-upload-pack"]);
        untouched(&place.beside("controller/followed"), &objects);
        untouched(&data.join("mirrors"), &before);
    });
}

/// Records, sources, leases and graphs in an API server as they were: a controller takes over and goes on, writes no object, says
/// of the sources what was said of them, and tells the git host nothing again.
#[test]
fn a_cluster_goes_on_as_it_was() {
    if testbed::shared().is_none() {
        return;
    }
    for version in &RELEASES {
        // The namespaces are those of the fixtures, which another test has on the shared one.
        let plane = ControlPlane::start(&Programs::find().unwrap()).unwrap();
        let api = Api::on(&plane);
        NAMESPACES.iter().for_each(|name| api.namespace(name));
        let place = Place::beside_host(version, |folder| GitServer::at(RELEASED_HOSTS[1], folder));
        let forge = api.runtime.block_on(FakeForgeHost::start(ForgeFlavor::Gitea));
        let root = forge.root();
        let words = [(FORGE, root.as_str())];
        for (name, value) in SECRETS {
            let metadata = json!({"name": name, "labels": {"stator.dev/credential": "true"}});
            api.make("formats", "Secret", json!({"metadata": metadata, "stringData": {"token": value}}));
        }
        api.restore_all(version, &words);
        let kinds = KINDS.map(|(kind, ..)| kind).into_iter().filter(|kind| !["ModelSource", "Lease"].contains(kind));
        let objects = || -> Vec<(String, String)> { kinds.clone().flat_map(|kind| api.versions(kind)).collect() };
        let before = objects();
        let prod = ["-e", "prod", "-n", "formats", "--context", "admin", "--kubeconfig"];
        let run = |verb: &[&str]| {
            let mut command = place.bench.command();
            command.args(verb).args(prod).arg(plane.kubeconfig());
            place.bench.finish(&mut command).success()
        };
        let plan = run(&["plan", "--exit-code"]).result();
        assert!(plan.contains("No changes: 7 objects of 4 models are in the desired state"), "{plan}");
        assert_eq!(objects(), before, "nothing was written");

        let controller = next_controller(&api, &place, &forge);
        controller.hears(&["this replica now owns the shard"]);
        for source in ["formats/models", "formats/broken", "formats-held/tight", "formats-held/waiting"] {
            controller.hears(&["started", source]);
        }
        let looks = Cell::new(0);
        until("the sources are looked at several times", || looks.replace(looks.get() + place.git.asked().len()) > 20);
        let fields = [
            "commit",
            "environment",
            "held",
            "lastHandledRequest",
            "models",
            "observedGeneration",
            "revision",
            "statuses",
        ];
        for source in stored(version, "ModelSource", &words) {
            let name = text(&source, "/metadata/name");
            let status = |source: &Value| fields.map(|field| source["status"][field].clone());
            let now = || api.get(text(&source, "/metadata/namespace"), "ModelSource", name);
            until(&format!("{name} is at rest"), || now()["status"]["phase"] == source["status"]["phase"]);
            assert_eq!(status(&now()), status(&source), "{name}");
        }
        assert_eq!(objects(), before, "no object was written");
        assert!(forge.log().iter().all(|seen| seen.method == "GET"), "nothing is told again");
    }
}

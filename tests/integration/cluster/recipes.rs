//! NVIDIA's recipes, whole: what `kubectl apply` of a recipe's folders makes, a sync of what was imported of them makes too,
//! on a real API server with the definitions of Dynamo's neighbours.

use super::converting::plane_of;
use super::place::{Namespaces, Place as _};
use super::whole::weights::complete;
use super::whole::words::Shop;
use crate::testbed::{self, ControlPlane};
use serde_json::{Value, json};
use stator_cluster::cluster::Cluster as _;
use stator_core::dynamo::equivalence::{self, is_unknown_component_type};
use stator_core::dynamo::graph_components::components_mut;
use stator_core::dynamo::kinds::{self, GRAPH, JOB};
use stator_core::dynamo::release::Release;
use stator_core::object::Object;
use stator_model::import::{ImportOptions, ImportResult, ManifestFile, import};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A deployment of a recipe: the files of its folder, and those that fill the volume for it.
struct Recipe {
    /// The file of the graph, below the folder of recipes.
    name: String,
    files: Vec<PathBuf>,
    /// The graph as Dynamo's operator is recorded to read it.
    graph: Value,
    release: Release,
}

fn data(release: Release) -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dynamo");
    if release == Release::V1_5 { all.join("1.5") } else { all }
}

fn yaml_files(folder: &Path, is_deep: bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && is_deep {
            found.extend(yaml_files(&entry, true));
        } else if entry.extension().is_some_and(|extension| extension == "yaml") && !is_hidden(&entry) {
            found.push(entry);
        }
    }
    found.sort();
    found
}

fn is_hidden(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// Benchmarks are no part of a deployment.
fn is_benchmark(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "perf.yaml")
}

impl Recipe {
    fn of(row: &Value, release: Release) -> Self {
        let file = data(release).join(row["file"].as_str().unwrap());
        let folder = file.parent().unwrap();
        let is_graphs_own = |other: &PathBuf| {
            let name = other.file_name().unwrap().to_str().unwrap();
            *other == file || !(name.starts_with("deploy") || is_benchmark(other))
        };
        let mut files: Vec<PathBuf> = yaml_files(folder, false).into_iter().filter(is_graphs_own).collect();
        let cache = folder.ancestors().map(|above| above.join("model-cache")).find(|cache| cache.is_dir()).unwrap();
        files.extend(yaml_files(&cache, true));
        let name = row["file"].as_str().unwrap().trim_start_matches("recipes/").to_owned();
        Self { name, files, graph: row["v1beta1"].clone(), release }
    }

    /// The recipes of a release. The patches of kustomize among them are no deployments.
    fn all(release: Release) -> Vec<Self> {
        let rows = crate::fidelity::verdicts(release, "recipes");
        let is_patch = |row: &Value| row["file"].as_str().unwrap().contains("/kustomize/");
        let known = rows.iter().filter(|row| row["kind"] == GRAPH.kind && row["v1beta1"].is_object() && !is_patch(row));
        known.map(|row| Self::of(row, release)).collect()
    }

    fn import(&self) -> ImportResult {
        let read = |path: &PathBuf| ManifestFile {
            file: path.strip_prefix(data(self.release)).unwrap().display().to_string(),
            content: fs_err::read(path).unwrap(),
        };
        import(
            &self.files.iter().map(read).collect::<Vec<_>>(),
            ImportOptions { release: self.release, ..ImportOptions::default() },
        )
    }

    /// What `kubectl apply` of the files makes, but for Jobs.
    fn objects(&self) -> Vec<Value> {
        let mut objects: Vec<Value> = self
            .files
            .iter()
            .flat_map(|file| {
                let options = serde_saphyr::options! { emit_comments: false };
                let text = fs_err::read_to_string(file).unwrap();
                serde_saphyr::from_multiple_with_options::<Value>(&text, options).unwrap()
            })
            .filter(|document| {
                let kind = document["kind"].as_str().unwrap_or_default();
                let is_known = kinds::IN_MANIFESTS.iter().any(|known| known.kind == kind);
                kind != GRAPH.kind && kind != JOB.kind && is_known
            })
            .collect();
        let mut graph = self.graph.clone();
        graph["metadata"].as_object_mut().unwrap().remove("annotations");
        // A type that v1beta1 has no word for only a v1alpha1 object can have.
        for component in components_mut(&mut graph) {
            if component.get("type").and_then(Value::as_str).is_some_and(is_unknown_component_type) {
                component.remove("type");
            }
        }
        objects.push(graph);
        objects
    }

    /// The Jobs of the files, each under a name of its own.
    fn jobs(&self) -> Vec<Value> {
        let mut jobs: Vec<Value> = Vec::new();
        for file in &self.files {
            let options = serde_saphyr::options! { emit_comments: false };
            let text = fs_err::read_to_string(file).unwrap();
            let documents = serde_saphyr::from_multiple_with_options::<Value>(&text, options).unwrap();
            for mut job in documents.into_iter().filter(|document| document["kind"] == JOB.kind) {
                let name = job["metadata"]["name"].as_str().unwrap().to_owned();
                let same = jobs.iter().filter(|other| other["written"] == name.as_str()).count();
                job["written"] = json!(name);
                if same > 0 {
                    job["metadata"]["name"] = json!(format!("{name}-{}", same + 1));
                }
                jobs.push(job);
            }
        }
        jobs
    }
}

/// What a Job runs, without what each API server writes of its own: whose pods they are.
fn job_spec(object: &Object) -> Value {
    let mut spec = object.value()["spec"].clone();
    let fields = spec.as_object_mut().unwrap();
    for own in ["selector", "ttlSecondsAfterFinished"] {
        fields.remove(own);
    }
    fields["template"]["metadata"] = Value::Null;
    spec
}

/// Each Job of a recipe is a Job of the model under a name with a digest, or what the model downloads, or is said to be left
/// out.
async fn compare_jobs(recipe: &Recipe, place: &Namespaces, by_hand: &str, findings: &str) -> (usize, usize) {
    let ours = place.cluster.list(&JOB, Some(place.home()), &BTreeMap::new()).await.unwrap();
    let (mut kept, mut downloads) = (0, 0);
    for mut job in recipe.jobs() {
        let name = job["metadata"]["name"].as_str().unwrap().to_owned();
        let written = job.as_object_mut().unwrap().remove("written").unwrap();
        let text = job.to_string();
        job["metadata"]["namespace"] = json!(by_hand);
        let object = Object::from_value(job).unwrap();
        place.create(object.clone(), "kubectl-client-side-apply").await;
        let theirs = place.cluster.get(&object.reference()).await.unwrap().unwrap();
        let is_same = |own: &Object| equivalence::differences(&job_spec(&theirs), &job_spec(own)).is_empty();
        // Of two Jobs of one name, either may have kept it.
        let names = [written.as_str().unwrap().to_owned(), name.clone(), format!("{}-2", written.as_str().unwrap())];
        let has_name = |own: &Object| names.iter().any(|name| stator_model::render::is_job_of(own.name(), name));
        if ours.iter().any(|own| has_name(own) && is_same(own)) {
            kept += 1;
            continue;
        }
        let is_of_claim = |own: &&Object| {
            let claim =
                |job: &Object| job.value().pointer("/spec/template/spec/volumes/0/persistentVolumeClaim").cloned();
            claim(own) == claim(&theirs)
        };
        let downloaded = |own: &&Object| {
            let sources = own.annotations().get(kinds::ANNOTATION_WEIGHTS).copied().unwrap_or_default();
            let repositories = sources.split(' ').map(|uri| uri.trim_start_matches("hf://").split('@').next().unwrap());
            let count = repositories.clone().filter(|one| !one.is_empty() && text.contains(one)).count();
            count > 0 && count == sources.split(' ').count()
        };
        if ours.iter().filter(is_of_claim).any(|own| downloaded(&own)) {
            downloads += 1;
        } else {
            let said = format!("Job `{}` is left out", written.as_str().unwrap());
            assert!(findings.contains(&said), "{}: {name}: {findings}", recipe.name);
        }
    }
    (kept, downloads)
}

/// What a person wrote in an object, as the server keeps it.
fn written(object: &Object) -> Value {
    let mut value = object.value().clone();
    let fields = value.as_object_mut().unwrap();
    for own in ["metadata", "status"] {
        fields.remove(own);
    }
    value
}

/// The objects of a namespace, of the kinds that a person applies: ConfigMaps of files under the names that were written.
async fn applied(place: &Namespaces, namespace: &str) -> BTreeMap<String, Value> {
    let mut objects = Vec::new();
    for kind in kinds::MANAGED.iter().filter(|kind| **kind != JOB) {
        objects.extend(place.cluster.list(kind, Some(namespace), &BTreeMap::new()).await.unwrap());
    }
    // Every namespace has the authorities of its API server.
    objects.retain(|object| object.name() != "kube-root-ca.crt");
    let written_name = |object: &Object| {
        let label = object.labels().get(kinds::LABEL_FILE)?.to_owned();
        stator_model::render::is_config_map_of(object.name(), label)
            .then(|| (object.name().to_owned(), label.to_owned()))
    };
    let names: BTreeMap<String, String> = objects.iter().filter_map(written_name).collect();
    let mut found = BTreeMap::new();
    for object in &objects {
        let mut value = written(object);
        stator_model::render::rename_config_maps(&mut value, &names, &mut BTreeSet::new());
        let name = names.get(object.name()).filter(|_| object.kind() == kinds::CONFIG_MAP.kind);
        if name.is_some() {
            value.as_object_mut().unwrap().remove("immutable");
        }
        found.insert(format!("{} {}", object.kind(), name.map_or(object.name(), String::as_str)), value);
    }
    found
}

/// What is left behind of the recipes, each kind of reason once, with the number of deployments that it is said of.
fn left_behind(release: Release) -> String {
    let (mut left, mut whole, mut with_weights) = (BTreeMap::<String, usize>::new(), 0, 0);
    let recipes = Recipe::all(release);
    for recipe in &recipes {
        let imported = recipe.import();
        let errors: Vec<&str> =
            imported.findings.iter().filter(|one| one.is_error()).map(|one| one.message.as_str()).collect();
        // What conversion drops is named, and no model that lacks it is said to be all of its graph.
        let is_cut = errors.iter().any(|error| !error.contains("Job "));
        let is_whole = imported.models.iter().all(|model| model.round_trips);
        assert!(!imported.models.is_empty() && is_whole != is_cut, "{}: {errors:#?}", recipe.name);
        whole += usize::from(errors.is_empty());
        with_weights += usize::from(imported.models.iter().any(|model| model.text.contains("\n  weights:\n")));
        for error in errors {
            let said = error.split_once(": ").map_or(error, |(_, said)| said);
            *left.entry(said.to_owned()).or_default() += 1;
        }
    }
    let lines: Vec<String> = left.iter().map(|(said, count)| format!("{count} × {said}")).collect();
    format!("{whole} of {} whole, {with_weights} with weights\n{}", recipes.len(), lines.join("\n"))
}

#[test]
fn nothing_of_a_recipe_is_left_behind_without_a_reason() {
    insta::assert_snapshot!(left_behind(Release::V1_2), @"
    29 of 36 whole, 23 with weights
    1 × DynamoGraphDeployment `gpt-oss-agg`: `spec.services.TrtllmWorker.volumeMounts` is not imported: release 1.2 uses the mounts of `extraPodSpec.mainContainer` instead of these; later releases mount both, so write them all in one place
    1 × DynamoGraphDeployment `gpt-oss-disagg`: `spec.services.TrtllmDecodeWorker.volumeMounts` is not imported: release 1.2 uses the mounts of `extraPodSpec.mainContainer` instead of these; later releases mount both, so write them all in one place
    1 × DynamoGraphDeployment `gpt-oss-disagg`: `spec.services.TrtllmPrefillWorker.volumeMounts` is not imported: release 1.2 uses the mounts of `extraPodSpec.mainContainer` instead of these; later releases mount both, so write them all in one place
    1 × DynamoGraphDeployment `kimi-k25-agg-specdec`: `spec.services.TrtllmWorker.volumeMounts` is not imported: release 1.2 uses the mounts of `extraPodSpec.mainContainer` instead of these; later releases mount both, so write them all in one place
    2 × DynamoGraphDeployment `kimi-k25-agg`: `spec.services.TrtllmWorker.volumeMounts` is not imported: release 1.2 uses the mounts of `extraPodSpec.mainContainer` instead of these; later releases mount both, so write them all in one place
    1 × DynamoGraphDeployment `nemotron-super-fp8-trtllm-disagg`: `spec.services.TrtllmDecodeWorker.volumeMounts` is not imported: release 1.2 uses the mounts of `extraPodSpec.mainContainer` instead of these; later releases mount both, so write them all in one place
    1 × DynamoGraphDeployment `nemotron-super-fp8-trtllm-disagg`: `spec.services.TrtllmPrefillWorker.volumeMounts` is not imported: release 1.2 uses the mounts of `extraPodSpec.mainContainer` instead of these; later releases mount both, so write them all in one place
    1 × DynamoGraphDeployment `trtllm-disagg-multinode`: `spec.services.decode.volumeMounts` is not imported: release 1.2 uses the mounts of `extraPodSpec.mainContainer` instead of these; later releases mount both, so write them all in one place
    1 × DynamoGraphDeployment `trtllm-disagg-multinode`: `spec.services.prefill.volumeMounts` is not imported: release 1.2 uses the mounts of `extraPodSpec.mainContainer` instead of these; later releases mount both, so write them all in one place
    ");
}

#[test]
fn nothing_of_a_recipe_of_the_newest_release_is_left_behind() {
    insta::assert_snapshot!(left_behind(Release::V1_5), @"66 of 66 whole, 51 with weights");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_of_each_recipe_makes_what_kubectl_apply_makes() {
    let Some(plane) = testbed::shared() else { return };
    insta::assert_snapshot!(synced_as_applied(plane, Release::V1_2).await, @"17 Jobs, 23 downloads; ComputeDomain, ConfigMap, DynamoGraphDeployment, HTTPRoute, PersistentVolumeClaim, ResourceClaimTemplate");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_of_each_recipe_of_the_newest_release_makes_what_kubectl_apply_makes() {
    let Some(plane) = plane_of(Release::V1_5).await else { return };
    insta::assert_snapshot!(synced_as_applied(plane, Release::V1_5).await, @"24 Jobs, 51 downloads; ComputeDomain, ConfigMap, DynamoGraphDeployment, HTTPRoute, PersistentVolumeClaim, ResourceClaimTemplate");
}

/// Syncs what is imported of each recipe beside what `kubectl apply` makes of it, and compares; says how many Jobs stay Jobs,
/// how many are weights, and of which kinds the objects are.
async fn synced_as_applied(plane: &'static ControlPlane, release: Release) -> String {
    let (mut compared, mut jobs) = (BTreeSet::new(), (0, 0));
    for (number, recipe) in Recipe::all(release).iter().enumerate() {
        let place = Namespaces::on(plane, &format!("recipe-{number}")).await;
        let by_hand = place.away();
        for mut object in recipe.objects() {
            object["metadata"]["namespace"] = json!(by_hand);
            place.create(Object::from_value(object).unwrap(), "kubectl-client-side-apply").await;
        }
        let shop = Shop::new(&place, &[]);
        let imported = recipe.import();
        for model in &imported.models {
            shop.site.write(&format!("models/{}/model.yaml", model.name), &model.text);
            for file in &model.files {
                shop.site.write(&format!("models/{}/{}", model.name, file.path), &file.text);
            }
        }
        // Claims and downloads, graphs, routes: each stage waits for what a cluster does in between.
        let mut results = Vec::new();
        for _ in 0..3 {
            let report = shop.sync(&[]).await;
            results = report.models.iter().map(|one| format!("{:?}: {}", one.result, one.message)).collect::<Vec<_>>();
            assert!(report.models.iter().all(|one| !one.message.contains("refused")), "{}: {results:?}", recipe.name);
            for job in place.cluster.list(&JOB, Some(place.home()), &BTreeMap::new()).await.unwrap() {
                shop.report(&job.reference(), complete()).await;
            }
            for graph in place.cluster.list(&GRAPH, Some(place.home()), &BTreeMap::new()).await.unwrap() {
                shop.ready(graph.name()).await;
            }
        }
        let (theirs, ours) = (applied(&place, &by_hand).await, applied(&place, place.home()).await);
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{}: {results:?}", recipe.name);
        for (object, value) in &theirs {
            let differences = equivalence::differences(value, &ours[object]);
            assert!(differences.is_empty(), "{}: {object}: {differences:#?}", recipe.name);
        }
        let findings = imported.findings.iter().map(|one| one.message.as_str()).collect::<Vec<_>>().join("\n");
        let of_jobs = compare_jobs(recipe, &place, &by_hand, &findings).await;
        jobs = (jobs.0 + of_jobs.0, jobs.1 + of_jobs.1);
        compared.extend(theirs.keys().filter_map(|key| key.split(' ').next()).map(str::to_owned));
        shop.settled().await;
    }
    let kinds: Vec<&str> = compared.iter().map(String::as_str).collect();
    format!("{} Jobs, {} downloads; {}", jobs.0, jobs.1, kinds.join(", "))
}

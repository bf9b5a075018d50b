//! Every name that users and other programs rely on, with what is promised of it: docs/reference/api.json, and as a page
//! docs/reference/api.md. What the sources name and this does not, or the other way round, fails here.

use crate::reference::{cell, hold, sources};
use regex::Regex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// What is promised: docs/api-policy.md.
#[derive(Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum Level {
    Stable,
    Beta,
    Alpha,
}
use Level::{Alpha, Beta, Stable};

impl Level {
    fn name(self) -> &'static str {
        self.into()
    }
}

/// Kinds, each with who writes its objects.
const KINDS: [(&str, Level, &str); 4] = [
    ("FleetPolicy", Beta, "Written by administrators"),
    ("Model", Beta, "Written by stator: the record of a model. Read its status; the annotations are stator's own"),
    ("ModelSource", Beta, "The spec is written by users, the status by stator"),
    ("SyncJournal", Alpha, "Written and read only by stator, while a sync runs"),
];

/// The documents with a JSON Schema, by the argument to `stator schema`.
const DOCUMENTS: [(&str, Level, &str); 7] = [
    ("defaults", Beta, "A `stator.yaml` below the root"),
    ("intent", Beta, "A `model.yaml`"),
    ("lock", Beta, "A `model.lock.yaml`, written by `stator lock`"),
    ("overlay", Beta, "A `model.<environment>.yaml`"),
    ("plan", Beta, "The output of `stator plan -o json`, and the input of `stator sync --plan`"),
    ("repository", Beta, "The `stator.yaml` in the root"),
    ("source", Beta, "A ModelSource in a file, for `stator controller --source-file`"),
];

/// Labels and annotations, each with what bears it.
const KEYS: [(&str, Level, &str, &str); 25] = [
    ("stator.dev/allow", Stable, "ModelSource", "Approves what guards hold back"),
    ("stator.dev/allowed-by", Beta, "ModelSource", "Who wrote the approval"),
    ("stator.dev/canary", Beta, "HTTPRoute", "The model that gets a share of the requests"),
    (
        "stator.dev/created-with-restart",
        Alpha,
        "DynamoGraphDeployment",
        "The `spec.restart.id` that git had when the graph was created",
    ),
    (
        "stator.dev/credential",
        Stable,
        "Secret",
        "Label: stator may read this secret for any host (`true`), or for the one that it names",
    ),
    ("stator.dev/environment", Stable, "every object", "Label: the environment that the object is rendered for"),
    ("stator.dev/file", Beta, "ConfigMap", "Label: the name in `spec.files`"),
    ("stator.dev/file-source", Beta, "ConfigMap", "The path of the file in the repository"),
    ("stator.dev/folder", Alpha, "Model", "The folder of the last sync, for a repository without a name"),
    ("stator.dev/former-origin", Alpha, "Model", "The origin before a takeover"),
    ("stator.dev/gpu", Beta, "DynamoGraphDeployment", "The GPU, for graphs without node labels"),
    ("stator.dev/hints", Alpha, "ModelSource", "Webhook hints of `stator server`"),
    ("stator.dev/lease", Alpha, "Lease", "Label: what a lease of the replicas is for"),
    ("stator.dev/model", Stable, "every object", "Label: the model that the object belongs to"),
    ("stator.dev/objects", Alpha, "Model", "Every object that may exist of the model"),
    ("stator.dev/origin", Alpha, "Model", "The repository that the content came from"),
    ("stator.dev/outside-windows", Stable, "ModelSource", "Allows one commit outside of sync windows"),
    ("stator.dev/owner", Alpha, "Model", "The source that the record belongs to"),
    ("stator.dev/owner-id", Stable, "every object", "Label: a digest of the source that the object belongs to"),
    ("stator.dev/predecessor", Alpha, "Model", "The model that this one takes over from"),
    ("stator.dev/repository", Stable, "every object", "Label: the name of the repository"),
    ("stator.dev/requestedAt", Stable, "ModelSource", "Asks for a poll and a sync now"),
    ("stator.dev/shards", Alpha, "Lease", "The number of shards"),
    (
        "stator.dev/source",
        Beta,
        "Model, Secret",
        "The path of the `model.yaml`; as a label of a secret, the source that `stator create source` created it for",
    ),
    (
        "stator.dev/weights",
        Beta,
        "Job, DynamoGraphDeployment",
        "The weights that a Job downloads, or that a graph serves",
    ),
];

/// Names with this prefix that are no key of an object.
const OTHER: [&str; 2] = ["stator.dev/controller", "stator.dev/simulated-gateway"];

/// The ports of the pods that the chart makes.
const PORTS: [(&str, &str, &str); 4] = [
    ("http", "8080", "Webhooks: `POST /webhooks/HOST`, `/webhooks/HOST/NAMESPACE/SOURCE`"),
    ("metrics", "8082", "`GET /metrics`"),
    ("probes", "8081", "`GET /livez`, `GET /readyz`"),
    ("web", "8090", "Pages and the HTTP API"),
];

const EXIT_CODES: [(&str, &str); 5] = [
    ("0", "Success"),
    ("1", "A negative result: findings, differences, a wait that failed"),
    ("2", "Bad usage, unreadable input, an unreachable cluster, or a bug"),
    ("124", "`--timeout` expired"),
    ("130", "Interrupted"),
];

/// What a level is promised of, by group and name.
type Registry = BTreeMap<&'static str, BTreeMap<String, &'static str>>;

fn commands(path: &str, command: &clap::Command, registry: &mut Registry) {
    if command.get_name() == "help" {
        return;
    }
    // Pages of one installation and an editor's server follow their clients, and the other way round.
    let level = if ["stator lsp", "stator open"].contains(&path) { Alpha } else { Beta }.name();
    registry.entry("commands").or_default().insert(path.to_owned(), level);
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let Some(long) = argument.get_long().filter(|long| *long != "help") else { continue };
        if argument.is_global_set() && path != "stator" {
            continue;
        }
        registry.entry("flags").or_default().insert(format!("{path} --{long}"), level);
        for value in argument.get_possible_values().iter().filter(|value| !value.is_hide_set()) {
            if argument.get_action().takes_values() {
                registry
                    .entry("values of flags")
                    .or_default()
                    .insert(format!("{path} --{long} {}", value.get_name()), level);
            }
        }
    }
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        commands(&format!("{path} {}", verb.get_name()), verb, registry);
    }
}

fn registry() -> Registry {
    let mut all = Registry::new();
    let level = |level: Level| move |name: &str| (name.to_owned(), level.name());
    all.insert(
        "kinds",
        KINDS.iter().map(|(name, one, _)| level(*one)(&format!("stator.dev/v1alpha1 {name}"))).collect(),
    );
    all.insert("documents", DOCUMENTS.iter().map(|(name, one, _)| level(*one)(name)).collect());
    all.insert("labels and annotations", KEYS.iter().map(|(name, one, ..)| level(*one)(name)).collect());
    all.insert("ports", PORTS.iter().map(|(name, port, _)| level(Stable)(&format!("{name} {port}"))).collect());
    all.insert("exit codes", EXIT_CODES.iter().map(|(code, _)| level(Stable)(code)).collect());
    all.insert("variables", crate::reference::VARIABLES.iter().map(|(name, _)| level(Stable)(name)).collect());
    let rules = stator::cli::RULE_GROUPS.into_iter().flat_map(|(_, rules)| rules.iter());
    all.insert("rules", rules.map(|rule| level(Stable)(rule.id)).collect());
    let reasons = stator::controller::sources::registry::ProblemReason::ALL.iter();
    all.insert("reasons", reasons.map(|reason| level(Beta)(reason.as_str())).collect());
    let metrics = stator::controller::metrics::ALL.iter().flat_map(|group| group.families);
    let of_metric = |family: &stator::controller::metrics::MetricDefinition| {
        let labels = family.labels.iter().map(|label| format!("{}{{{}}}", family.name, label.name));
        [family.name.to_owned()].into_iter().chain(labels).map(|name| level(Beta)(&name)).collect::<Vec<_>>()
    };
    all.insert("metrics", metrics.flat_map(of_metric).collect());
    let mut command = stator::cli::command();
    command.build();
    commands("stator", &command, &mut all);
    all
}

#[test]
fn the_registry_follows_the_sources() {
    let registry = registry();
    hold("docs/reference/api.json", serde_json::to_string_pretty(&json!(registry)).unwrap() + "\n");

    let mut page = "# Stator's own API\n\nGenerated from the sources. [The policy](../api-policy.md) says what `stable`, `beta` and `alpha` \
                    promise. `api.json` beside this page has the same names for programs.\n\n## Kinds\n\n| Kind of \
                    `stator.dev/v1alpha1` | Level | |\n|-|-|-|\n"
        .to_owned();
    for (name, level, text) in KINDS {
        writeln!(page, "| `{name}` | {} | {text} |", level.name()).unwrap();
    }
    page.push_str("\n## Documents\n\nThe JSON Schema of each is in `schemas/`, with its address in `$id`.\n\n| Document | Level | |\n|-|-|-|\n");
    for (name, level, text) in DOCUMENTS {
        writeln!(page, "| `{name}` | {} | {text} |", level.name()).unwrap();
    }
    page.push_str("\n## Labels and annotations\n\n| Key | On | Level | Meaning |\n|-|-|-|-|\n");
    for (name, level, on, text) in KEYS {
        writeln!(page, "| `{name}` | {on} | {} | {} |", level.name(), cell(text)).unwrap();
    }
    page.push_str("\n## Ports\n\nOf the pods, `stable`.\n\n| Name | Port | |\n|-|-|-|\n");
    for (name, port, text) in PORTS {
        writeln!(page, "| `{name}` | {port} | {text} |").unwrap();
    }
    page.push_str("\n## Exit codes\n\nOf every command, `stable`.\n\n| Code | Meaning |\n|-|-|\n");
    for (code, text) in EXIT_CODES {
        writeln!(page, "| {code} | {text} |").unwrap();
    }
    page.push_str("\n## On other pages\n\n| What | Number | Level |\n|-|-|-|\n");
    for (group, link) in [
        ("variables", "cli.md#variables"),
        ("commands", "cli.md"),
        ("flags", "cli.md#flags"),
        ("metrics", "../metrics.md"),
        ("rules", "../rules.md"),
        ("reasons", "../how-to/run-the-controller.md"),
    ] {
        let of = &registry[group];
        let levels: BTreeMap<&str, Vec<&String>> = of.iter().fold(BTreeMap::new(), |mut all, (name, level)| {
            all.entry(*level).or_insert_with(Vec::new).push(name);
            all
        });
        let most = levels.iter().max_by_key(|(_, names)| names.len()).map(|(level, _)| *level).unwrap();
        let others: Vec<String> = levels
            .iter()
            // A flag has the level of its command.
            .filter(|(level, _)| **level != most && group != "flags")
            .flat_map(|(level, names)| names.iter().map(move |name| format!("`{name}` {level}")))
            .collect();
        let others = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
        writeln!(page, "| [{group}]({link}) | {} | {most}{others} |", of.len()).unwrap();
    }
    page.push_str(
        "| [the HTTP API](openapi.json) | | beta |\n| [values of the chart](../install.md#values) | | beta |\n",
    );
    hold("docs/reference/api.md", page);
}

#[test]
fn every_key_port_kind_and_document_is_in_the_registry() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let key = Regex::new(r#""(stator\.dev/[A-Za-z-]+)"#).unwrap();
    let mut named = BTreeSet::new();
    for (_, text) in sources() {
        let code = text.split("\n#[cfg(test)]").next().unwrap();
        named.extend(key.captures_iter(code).map(|found| found[1].to_owned()));
    }
    named.retain(|name| name != "stator.dev/v" && !OTHER.contains(&name.as_str()));
    assert_eq!(named, KEYS.iter().map(|(name, ..)| (*name).to_owned()).collect());

    let port = Regex::new(r"\{name: (\w+), containerPort: (\d+)").unwrap();
    let chart = fs_err::read_to_string(root.join("deploy/helm/stator/templates/_helpers.tpl")).unwrap();
    let ports: BTreeSet<(String, String)> =
        port.captures_iter(&chart).map(|found| (found[1].to_owned(), found[2].to_owned())).collect();
    assert_eq!(ports, PORTS.iter().map(|(name, port, _)| ((*name).to_owned(), (*port).to_owned())).collect());

    let listed = |folder: &str, ending: &str| -> BTreeSet<String> {
        let files = fs_err::read_dir(root.join(folder)).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| name.strip_suffix(ending).map(str::to_owned)).collect()
    };
    let kinds: BTreeSet<String> = listed("crds", ".yaml")
        .iter()
        .map(|name| {
            let text = fs_err::read_to_string(root.join(format!("crds/{name}.yaml"))).unwrap();
            let definition: Value = serde_saphyr::from_str(&text).unwrap();
            definition["spec"]["names"]["kind"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(kinds, KINDS.iter().map(|(name, ..)| (*name).to_owned()).collect());

    let codes = Regex::new(r"(?m)^    \w+ = (\d+),").unwrap();
    let text = fs_err::read_to_string(root.join("src/cli/error.rs")).unwrap();
    let of_status = text.split("pub enum ExitStatus").nth(1).unwrap().split("\n}").next().unwrap();
    let codes: Vec<String> = codes.captures_iter(of_status).map(|found| found[1].to_owned()).collect();
    assert_eq!(codes, EXIT_CODES.map(|(code, _)| code));
}

/// `schemas/` has every document that `stator schema` prints, byte for byte, each at an address of its own.
#[test]
fn the_checked_in_schemas_are_what_the_program_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let command = stator::cli::command();
    let argument =
        command.find_subcommand("schema").unwrap().get_arguments().find(|one| one.get_id() == "document").unwrap();
    let mut documents: Vec<String> =
        argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    documents.sort();
    assert_eq!(documents, DOCUMENTS.map(|(name, ..)| name));
    for name in documents {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_stator")).args(["schema", &name]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(schema["$id"], format!("https://stator.dev/schemas/v1alpha1/{name}.json"));
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
        hold(&format!("schemas/{name}.json"), String::from_utf8(output.stdout).unwrap());
    }

    // The one that leads to the others by the document's kind is the one of the catalog's entry.
    let read =
        |path: &str| -> Value { serde_json::from_str(&fs_err::read_to_string(root.join(path)).unwrap()).unwrap() };
    let (catalog, any) = (read("schemas/catalog.json"), read("schemas/stator.json"));
    assert_eq!(catalog["schemas"][0]["url"], any["$id"]);
    let mut kinds = BTreeSet::new();
    for branch in any["allOf"].as_array().unwrap() {
        let kind = &branch["if"]["properties"]["kind"]["const"];
        let schema = read(&format!("schemas/{}", branch["then"]["$ref"].as_str().unwrap()));
        let definition = schema.pointer("/properties/kind/allOf/0/$ref").unwrap().as_str().unwrap();
        let allowed = schema.pointer(definition.trim_start_matches('#')).unwrap();
        assert!(allowed.to_string().contains(&kind.to_string()), "{kind} is not {allowed}");
        kinds.insert(kind.as_str().unwrap().to_owned());
    }
    assert_eq!(any["properties"]["kind"]["enum"], json!(kinds));
}

//! The reference pages are generated: from the types, the command line and the rules. A page that drifted fails here.
//!
//! `STATOR_BLESS=1 cargo test --test integration reference::` writes them.

use crate::fidelity;
use fs_err as fs;
use stator_model::engine_tables::{EngineRow, EngineSetting, EngineTable, RowCondition, SGLANG, TRTLLM, VLLM};
use stator_model::intent::explain::{ChildField, FieldExplanation, explain};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub fn hold(path: &str, page: String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var("STATOR_BLESS").is_ok_and(|value| value == "1") {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &page).unwrap();
    }
    let held = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        held == page,
        "{path} is not what its source says; run `STATOR_BLESS=1 cargo test --test integration reference::`"
    );
}

pub fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// One section a place with fields; the second place with the same fields points to the first.
fn sections(path: &str, seen: &mut BTreeMap<String, String>, page: &mut String) {
    let explanation = explain(path).unwrap();
    if explanation.fields.is_empty() {
        return;
    }
    let title = match (explanation.kind.as_str(), explanation.path.as_str()) {
        (kind, "") => kind.to_owned(),
        ("Model", path) => path.to_owned(),
        (kind, path) => format!("{}.{path}", kind.to_lowercase()),
    };
    writeln!(page, "\n## {title}\n\n{}\n", explanation.description).unwrap();
    let fingerprint = format!("{:?}", explanation.fields);
    if let Some(first) = seen.get(&fingerprint) {
        writeln!(page, "Fields: those of `{first}`.").unwrap();
        return;
    }
    seen.insert(fingerprint, title);
    writeln!(page, "| Field | Type | Meaning |\n|-|-|-|").unwrap();
    for field in &explanation.fields {
        let below = explain(&format!("{path}.{}", field.name)).unwrap();
        writeln!(page, "| `{}` | {} | {} |", field.name, cell(&field.type_name), cell(&meaning(field, &below)))
            .unwrap();
    }
    for field in &explanation.fields {
        // A map's values have a section of their own, under any name.
        let name =
            if field.type_name.starts_with("map[") { format!("{}.NAME", field.name) } else { field.name.clone() };
        if explain(&format!("{path}.{name}")).is_ok() {
            sections(&format!("{path}.{name}"), seen, page);
        }
    }
}

fn meaning(field: &ChildField, below: &FieldExplanation) -> String {
    let mut words = String::new();
    if field.required {
        words.push_str("**Required.** ");
    }
    words.push_str(&field.description);
    if !below.values.is_empty() {
        let values: Vec<String> = below.values.iter().map(|allowed| format!("`{}`", allowed.value)).collect();
        write!(words, " One of {}.", values.join(", ")).unwrap();
    }
    for rule in &below.rules {
        write!(words, " Allowed: {rule}.").unwrap();
    }
    words
}

#[test]
fn the_page_of_the_documents_follows_the_types() {
    let mut page = "# Fields of models, repositories and defaults\n\nGenerated from the types. `stator explain PATH` \
                    shows the same in a terminal. An overlay has the fields of a model, none of them required; if an \
                    overlay sets `metadata.name`, it must be its model's.\n"
        .to_owned();
    let mut seen = BTreeMap::new();
    for document in ["model", "repository", "defaults"] {
        sections(document, &mut seen, &mut page);
    }
    hold("docs/reference/model.md", page);
}

#[test]
fn the_page_of_the_command_line_follows_the_parser() {
    let mut page = "# The command line\n\nGenerated from the parser. Results go to standard output, everything else \
                    to standard error. Exit codes: 0 success; 1 a negative result (findings, differences, a wait that \
                    failed); 2 bad usage, unreadable input, an unreachable cluster, or a bug; 124 `--timeout` \
                    expired; 130 interrupted.\n"
        .to_owned();
    let mut command = stator::cli::command().term_width(100);
    command.build();
    let mut flags = BTreeMap::new();
    let mut formats = String::new();
    flags_and_formats("stator", &command, &mut flags, &mut formats);
    writeln!(page, "\n## Variables\n\n{VARIABLES_TEXT}\n\n| Variable | Meaning |\n|-|-|").unwrap();
    for (variable, meaning) in VARIABLES {
        writeln!(page, "| `{variable}` | {meaning} |").unwrap();
    }
    writeln!(page, "\n## Formats\n\n| Command | Formats of `-o`, the default first |\n|-|-|\n{formats}").unwrap();
    writeln!(page, "## Flags\n\nA flag means the same in every command that has it.\n\n| Flag | Commands |\n|-|-|")
        .unwrap();
    for (flag, verbs) in flags {
        writeln!(page, "| {flag} | {} |", verbs.join(", ")).unwrap();
    }
    writeln!(page, "\n## stator\n\n```text\n{}\n```", help(&command)).unwrap();
    for verb in command.get_subcommands() {
        verbs("stator", verb, &mut page);
    }
    hold("docs/reference/cli.md", page);
}

/// The variables that the program reads, all of them: those that pipelines and pods set.
pub const VARIABLES: [(&str, &str); 10] = [
    ("STATOR_CLUSTER", "`--cluster`"),
    ("STATOR_CONTEXT", "`--context`"),
    ("STATOR_DYNAMO", "`--dynamo`"),
    ("STATOR_ENVIRONMENT", "`--environment`"),
    ("STATOR_FORGE_TOKEN", "The token of the git host, for `rollback`, `create source`, and pull requests from pages"),
    ("STATOR_LOG", "What is logged: `debug`, or filters such as `stator_cluster::sync=debug`"),
    ("STATOR_LOG_FORMAT", "`--log-format`; other commands log in this form too"),
    ("STATOR_POLICIES", "`--policies`"),
    ("STATOR_SERVICE_ACCOUNT_DIR", "In a pod: the folder of a service account token that is mounted elsewhere"),
    ("STATOR_TIMEOUT", "`--timeout`"),
];
const VARIABLES_TEXT: &str = "A flag on the command line is stronger, and a variable that is set to nothing counts as not \
                              set. Where the variable of another flag is set, such as `STATOR_DRY_RUN`, stator refuses the \
                              command: it could mean an approval, or a limit. `KUBECONFIG`, `NO_COLOR`, `CLICOLOR_FORCE`, \
                              `COLUMNS`, the variables of proxies and those of OpenTelemetry mean what they mean elsewhere.";

/// What the sources name is what the page names.
#[test]
fn there_are_ten_variables() {
    let mut named = BTreeSet::new();
    for (path, text) in sources() {
        let code = text.split("\n#[cfg(test)]").next().unwrap();
        let after = code.split("\"STATOR_").skip(1).filter_map(|rest| rest.split_once('"'));
        let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        named.extend(after.map(|(name, _)| name).filter(is_name).map(|name| format!("STATOR_{name}")));
        assert!(!path.ends_with("tests.rs"), "{path:?}");
    }
    let known: BTreeSet<String> = VARIABLES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(named, known);
}

/// The commands of each flag, and a row for each command that has `-o`.
fn flags_and_formats(
    path: &str,
    command: &clap::Command,
    flags: &mut BTreeMap<String, Vec<String>>,
    formats: &mut String,
) {
    let short = path.trim_start_matches("stator ");
    for argument in command.get_arguments().filter(|argument| path == "stator" || !argument.is_global_set()) {
        let Some(long) = argument.get_long().filter(|long| *long != "help") else { continue };
        let letter = argument.get_short().map(|letter| format!(", `-{letter}`")).unwrap_or_default();
        let place = if argument.is_global_set() { "every command".to_owned() } else { format!("`{short}`") };
        flags.entry(format!("`--{long}`{letter}")).or_default().push(place);
    }
    for argument in command.get_arguments().filter(|argument| argument.get_short() == Some('o')) {
        let values = argument.get_possible_values();
        let default = argument.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
        let mut names: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
        names.sort_by_key(|name| Some(*name) != default.as_deref());
        let shown: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        writeln!(formats, "| `{short}` | {} |", shown.join(", ")).unwrap();
    }
    for verb in command.get_subcommands() {
        flags_and_formats(&format!("{path} {}", verb.get_name()), verb, flags, formats);
    }
}

fn verbs(parent: &str, command: &clap::Command, page: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    writeln!(page, "\n## {name}\n\n```text\n{}\n```", help(command)).unwrap();
    for verb in command.get_subcommands() {
        verbs(&name, verb, page);
    }
}

fn help(command: &clap::Command) -> String {
    let text = command.clone().term_width(100).render_long_help().to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// For clients that are generated, and to see in a review what changes for them.
#[test]
fn the_description_of_the_api_follows_the_endpoints() {
    let document = stator_view::api::openapi(stator_view::api::ENDPOINTS);
    hold("docs/reference/openapi.json", serde_json::to_string_pretty(&document).unwrap() + "\n");
}

#[test]
fn the_page_of_the_rules_follows_the_groups() {
    let groups = stator::cli::RULE_GROUPS;
    let mut page = "# Rules\n\nGenerated from the sources. Every finding names the rule that it violates; this page \
                    lists the rules.\n"
        .to_owned();
    let mut ids = Vec::new();
    for (group, rules) in &groups {
        writeln!(page, "\n## {group}\n\n| Rule | Requirement |\n|-|-|").unwrap();
        for rule in *rules {
            writeln!(page, "| <a id=\"{0}\"></a>`{0}` | {1} |", rule.id, cell(rule.summary)).unwrap();
            ids.push(rule.id);
        }
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "two rules share an id");
    hold("docs/rules.md", page);

    // A new group of rules must be on the page too.
    let mut files = 0;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src"), root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let is_of_rules =
                    |line: &str| ["crate::rules! {", "stator_core::rules! {"].contains(&line.trim_start());
                files += usize::from(text.lines().any(is_of_rules));
            }
        }
    }
    assert_eq!(files, groups.len(), "a group with rules is missing on the page, or gone");
}

#[test]
fn the_page_of_dynamo_follows_the_verdicts() {
    hold("docs/dynamo.md", fidelity::page());
}

#[test]
fn the_page_of_dynamo_follows_the_tables() {
    use stator_core::dynamo::conversion::field_mappings::{ALL as MAPPINGS, MappingTarget};
    use stator_core::dynamo::{deprecations, registry};

    let mut page = "# What stator knows of Dynamo\n\nGenerated from the tables in `crates/stator-core/src/dynamo/`, which validation, rendering, \
                    planning and import read. The column *Releases* says which releases of Dynamo have a line: `all` are those \
                    that stator supports, from 1.2 on. If a line is known to have come after 1.2 and not when, the column says \
                    `1.5 and later`.\n\n## Deprecations\n\n`stator validate`, `stator plan` and the comments on pull \
                    requests warn of these (`dynamo/deprecated`): with the place in the file, the release that removes it, and \
                    what to write instead. `stator_deprecated_uses` counts them ([Metrics](../metrics.md)). A version, field, \
                    label or annotation counts from the release of the cluster's or the environment's Dynamo on, a variable or \
                    flag from the release of the model's images on. `–` under *Removed in*: no release removes it \
                    yet.\n\n| What | Since | Removed in | Instead |\n|-|-|-|-|\n"
        .to_owned();
    for line in deprecations::ALL {
        let kind = line.subject.kind().map(|kind| format!("{kind}: ")).unwrap_or_default();
        let (what, removed) = (line.subject.name(), line.removed_in.unwrap_or("–"));
        writeln!(page, "| {kind}{} | {} | {removed} | {} |", cell(&what), line.since, cell(line.replacement)).unwrap();
    }
    for (title, text, keys) in [
        (
            "Labels",
            "Those of the operator are never rendered, reported as drift, or removed. A name that ends with `-` or `.` stands for a family.",
            registry::LABELS,
        ),
        ("Annotations", "The same holds for them.", registry::ANNOTATIONS),
    ] {
        writeln!(page, "\n## {title}\n\n{text}\n\n| Name | Written by | Releases | Meaning |\n|-|-|-|-|").unwrap();
        for key in keys {
            let (writer, releases) = (key.writer.name(), key.releases.describe());
            writeln!(page, "| `{}` | {writer} | {releases} | {} |", key.name, cell(key.meaning)).unwrap();
        }
    }
    page.push_str(
        "\n## Environment variables\n\nA name that ends with `_` stands for a family. A variable that the operator of the \
         environment's release writes is a warning in an intent, and one that it fixes is an error.\n\n| Name | Written by | \
         Releases | Meaning |\n|-|-|-|-|\n",
    );
    for variable in registry::VARIABLES {
        let (writer, releases) = (variable.policy.name(), variable.releases.describe());
        writeln!(page, "| `{}` | {writer} | {releases} | {} |", variable.name, cell(variable.meaning)).unwrap();
    }
    page.push_str("\n## Ports\n\n| Port | Name | Of | Releases | Meaning |\n|-|-|-|-|-|\n");
    for port in registry::PORTS {
        let name = if port.name.is_empty() { "–".to_owned() } else { format!("`{}`", port.name) };
        let (of, releases) = (port.components, port.releases.describe());
        writeln!(page, "| {} | {name} | {of} | {releases} | {} |", port.number, cell(port.meaning)).unwrap();
    }
    page.push_str(
        "\n## From v1alpha1 to v1beta1\n\nHow the operator converts each field. `*` stands for a name and \
         `[]` for the items of a list; a line applies to everything below it that has no line. What is *kept* has no \
         field at v1beta1: the operator keeps it in an annotation.\n",
    );
    let mut kind = "";
    for mapping in MAPPINGS {
        if mapping.kind != kind {
            kind = mapping.kind;
            writeln!(page, "\n### {kind}\n\n| v1alpha1 | v1beta1 |\n|-|-|").unwrap();
        }
        let fate = match mapping.target {
            MappingTarget::Same => "the same".to_owned(),
            MappingTarget::MovedTo(place) => place.to_owned(),
            MappingTarget::KeptInAnnotation(why) => format!("*kept*: {why}"),
        };
        writeln!(page, "| `{}` | {} |", mapping.path, cell(&fate)).unwrap();
    }
    hold("docs/reference/dynamo.md", page);
}

/// One section an object: its fields, and the rules that hold between them.
fn described(schema: &serde_json::Value, path: &str, page: &mut String) {
    let text = |schema: &serde_json::Value, word: &str| schema[word].as_str().unwrap_or_default().to_owned();
    writeln!(page, "\n## {path}\n\n{}\n\n| Field | Type | Meaning |\n|-|-|-|", text(schema, "description")).unwrap();
    let fields = schema["properties"].as_object().unwrap();
    let rules = |schema: &serde_json::Value| {
        let rules = schema["x-kubernetes-validations"].as_array().cloned().unwrap_or_default();
        rules.iter().map(|rule| text(rule, "message")).collect::<Vec<_>>()
    };
    for (name, field) in fields {
        let kind = match text(field, "type").as_str() {
            "array" => format!("list of {}s", text(&field["items"], "type")),
            "string" if field["format"] == "date-time" => "time".to_owned(),
            other => other.to_owned(),
        };
        let required = schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name.as_str()));
        let mut meaning = format!("{}{}", if required { "**Required.** " } else { "" }, text(field, "description"));
        match (field["maxItems"].as_u64(), field["maxLength"].as_u64(), field["maximum"].as_u64()) {
            (Some(most), _, _) => write!(meaning, " At most {most}.").unwrap(),
            (_, Some(most), _) => write!(meaning, " At most {most} characters.").unwrap(),
            (_, _, Some(most)) => write!(meaning, " At most {most}.").unwrap(),
            (None, None, None) => {}
        }
        // Those of an object are at its own fields.
        let below = field.get("properties").is_some();
        for rule in rules(field).iter().filter(|_| !below) {
            write!(meaning, " Refused: {rule}.").unwrap();
        }
        writeln!(page, "| `{name}` | {kind} | {} |", cell(&meaning)).unwrap();
    }
    let own = rules(schema);
    if !own.is_empty() {
        page.push_str("\nThe API server refuses with these messages:\n\n");
        own.iter().for_each(|rule| writeln!(page, "- {rule}").unwrap());
    }
    for (name, field) in fields {
        let (below, path) = match field.get("items") {
            Some(items) => (items, format!("{path}.{name}[]")),
            None => (field, format!("{path}.{name}")),
        };
        if below.get("properties").is_some() {
            described(below, &path, page);
        }
    }
}

#[test]
fn the_page_of_sources_follows_the_definition() {
    use stator::controller::sources::manual_requests;
    let definition = stator_git::source::model_source::crd::custom_resource_definition();
    let version = &definition["spec"]["versions"][0];
    let mut page = "# Sources in a cluster\n\nGenerated from the types, like the definition that the API server \
                    validates them with: `crds/stator.dev_modelsources.yaml`. A file for `stator controller --source-file` \
                    holds the same, and is refused for the same reasons, except `allowLocal`, which is only for \
                    files. [How to trigger, suspend \
                    and approve](../how-to/ask-for-a-sync.md) is on a separate page.\n\n`kubectl get modelsources` \
                    (short: \
                    `msrc`, category `stator`) shows these columns, those in brackets with `-o wide`: "
        .to_owned();
    let columns = version["additionalPrinterColumns"].as_array().unwrap().iter().map(|column| {
        let name = column["name"].as_str().unwrap();
        if column.get("priority").is_some() { format!("({name})") } else { name.to_owned() }
    });
    page.push_str(&columns.collect::<Vec<_>>().join(", "));
    page.push_str(
        ". The conditions are those of kstatus: `kubectl wait --for=condition=Ready msrc/models` ends once the newest commit \
         is applied and healthy; `Reconciling` is true while stator is working or will retry, `Stalled` when it waits \
         for a manual change. A source at rest is never written.\n",
    );
    page.push_str("\n## Annotations\n\n| Annotation | Asks for |\n|-|-|\n");
    for (name, meaning) in [
        (
            manual_requests::REQUESTED_AT_ANNOTATION,
            "a poll and a sync now. Any new value, by convention the time; `status.lastHandledRequest` repeats it when it was handled",
        ),
        (manual_requests::FLUX_REQUESTED_AT_ANNOTATION, "the same, with Flux's annotation"),
        (
            manual_requests::ALLOW,
            "approval of what guards hold back, as `status.held` names it: `mass-delete,replace@<commit>:<plan>`",
        ),
        (manual_requests::ALLOWED_BY_ANNOTATION, "nothing: who wrote the approval"),
        (manual_requests::OUTSIDE_WINDOWS_ANNOTATION, "syncing one commit although no window is open: `<commit>`"),
        (manual_requests::HINTS_ANNOTATION, "nothing: `stator server` writes webhook hints here"),
    ] {
        writeln!(page, "| `{name}` | {meaning} |").unwrap();
    }
    let schema = &version["schema"]["openAPIV3Schema"]["properties"];
    described(&schema["spec"], "spec", &mut page);
    described(&schema["status"], "status", &mut page);
    hold("docs/reference/model-source.md", page);
}

#[test]
fn the_page_of_policies_follows_the_definition() {
    let definition = stator_model::fleet_policy::custom_resource_definition();
    let mut page =
        "# Policies of a fleet\n\nGenerated from the types, like the definition that the API server validates \
                    policies with: `crds/stator.dev_fleetpolicies.yaml`. A file for `--policies` holds the same. [Hold \
                    tenants to a policy](../how-to/hold-tenants-to-a-policy.md) shows how to use them.\n"
            .to_owned();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    described(&schema["spec"], "spec", &mut page);
    hold("docs/reference/fleet-policy.md", page);
}

#[test]
fn the_page_of_the_metrics_follows_the_registry() {
    let mut page = "# Metrics\n\nGenerated from the metric definitions. `/metrics` serves OpenMetrics to clients that \
                    ask for it, such as Prometheus, and Prometheus' text format to others. No label value comes from \
                    a repository: the number of series is bounded by sources, hosts and fixed values. Series with the \
                    labels `namespace` and `source` are removed with the source. A series \
                    appears when it is first counted.\n"
        .to_owned();
    for group in stator::controller::metrics::ALL {
        writeln!(page, "\n## {}\n\n| Name | Type | Unit | Labels | Meaning |\n|-|-|-|-|-|", group.title).unwrap();
        for family in group.families {
            let labels: Vec<String> =
                family.labels.iter().map(|label| format!("`{}`: {}", label.name, label.values)).collect();
            let buckets = match family.buckets {
                [] => String::new(),
                all => format!(" Buckets: {}.", all.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")),
            };
            let dash = |text: &str| if text.is_empty() { "–".to_owned() } else { cell(text) };
            let (kind, unit) = (family.kind.as_str(), dash(family.unit));
            let labels = dash(&labels.join("<br>"));
            writeln!(page, "| `{}` | {kind} | {unit} | {labels} | {}.{buckets} |", family.name, cell(family.meaning))
                .unwrap();
        }
    }
    hold("docs/metrics.md", page);
}

/// What `stator import --measure` prints of upstream's manifests, in `docs/import.md`.
#[test]
fn the_table_of_imports_follows_the_importer() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dynamo");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_stator"))
        .args(["import", "--measure", "canonical", "examples", "recipes"])
        .current_dir(data)
        .env_clear()
        .output()
        .unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    const FROM: &str = "<!-- stator import --measure canonical examples recipes -->\n";
    const TO: &str = "<!-- end -->\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/import.md");
    let page = fs::read_to_string(file).unwrap();
    let (before, rest) = page.split_once(FROM).unwrap();
    let (_, after) = rest.split_once(TO).unwrap();
    hold("docs/import.md", format!("{before}{FROM}{table}{TO}{after}"));
}

/// Which field becomes which flag, in the pages on writing a model: the engines' own tables.
#[test]
fn the_tables_of_flags_follow_the_engines() {
    for (name, table) in [("vllm", &VLLM), ("sglang", &SGLANG), ("trtllm", &TRTLLM)] {
        let mut lines = "| Field | On the command line |\n|-|-|\n".to_owned();
        for row in table.rows {
            let (field, flag) = flag_of(row, table);
            writeln!(lines, "| {field} | {flag} |").unwrap();
        }
        let path = format!("docs/how-to/write-a-model-for-{name}.md");
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&path)).unwrap();
        let (from, to) = (format!("<!-- flags of {name} -->\n"), "<!-- end -->\n");
        let (before, rest) = page.split_once(&from).unwrap();
        let (_, after) = rest.split_once(to).unwrap();
        hold(&path, format!("{before}{from}{lines}{to}{after}"));
    }
}

/// A row of an engine's table, as a reader has it.
fn flag_of(row: &EngineRow, table: &EngineTable) -> (String, String) {
    let field = |setting: EngineSetting| match setting.field() {
        Some(field) => format!("`{field}`"),
        None => "`prefill`, `decode`".to_owned(),
    };
    let when = |condition: RowCondition| match condition {
        RowCondition::Always => "every worker",
        RowCondition::Prefill => "`prefill`",
        RowCondition::Disaggregated => "`prefill`, `decode`",
        RowCondition::KvEvents => "router `kv`, or an endpoint picker",
        RowCondition::Adapters => "`adapters`",
    };
    let options = table.options_flag.unwrap_or_default();
    match *row {
        EngineRow::Flag(EngineSetting::DisaggregationMode, flag) => {
            ("`prefill`, `decode`".to_owned(), format!("`{flag}` and the role"))
        }
        EngineRow::Flag(setting, flag) => (field(setting), format!("`{flag} VALUE`")),
        EngineRow::Toggle(setting, flag) => (field(setting), format!("`{flag}` where it is true")),
        EngineRow::Switch(setting, flag, size) => {
            let product: Vec<String> = size.iter().map(|setting| field(*setting)).collect();
            (field(setting), format!("`{flag}` above 1; the size is {}", product.join(" × ")))
        }
        EngineRow::OptionField(setting, option) => (field(setting), format!("`{option}` in `{options}`")),
        EngineRow::Fixed(condition, words) => (when(condition).to_owned(), format!("`{}`", words.join(" "))),
        EngineRow::FixedOptions(condition, map) => (when(condition).to_owned(), format!("`{options} '{map}'`")),
    }
}

/// The program's own files, without those of tests.
pub fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut folders, mut files) = (vec![root.join("src"), root.join("crates")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
                let text = fs_err::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    files
}

/// What `docs/troubleshooting.md` quotes is what the program says: every piece of a heading in backticks is in its source.
#[test]
fn messages_that_are_explained_are_said() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source: String = sources().into_iter().map(|(_, text)| text).collect();
    // Texts go on over lines, with a backslash at the end.
    let source = source.split_whitespace().filter(|word| *word != "\\").collect::<Vec<_>>().join(" ");
    let page = fs_err::read_to_string(root.join("docs/troubleshooting.md")).unwrap();
    let headings = page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    let pieces: Vec<&str> = headings
        .flat_map(|heading| heading.split('\u{2026}'))
        .map(|piece| piece.trim_matches([' ', ';', ',']))
        .collect();
    assert!(pieces.len() > 15, "{pieces:?}");
    let unsaid: Vec<&&str> = pieces.iter().filter(|piece| !source.contains(**piece)).collect();
    assert!(unsaid.is_empty(), "nobody says {unsaid:#?}");
}

//! Every endpoint of the API.

use super::endpoint::{ApiAnswer, ApiEndpoint, ApiParameter, ApiRequest, ParameterPlace, document};
use super::openapi::OPENAPI_PATH;
use crate::capacity::{CapacityView, capacity};
use crate::changes::{ChangeListView, PendingView, parse_changes_query, pending_changes};
use crate::draft::{MAX_FILE_LENGTH, PlannedDraft, RenderedDraft};
use crate::model::{
    DriftView, EventView, HistoryEntryView, ItemList, ManifestView, ModelStanding, ModelView, ObjectView, check_events,
    check_objects, drift, events, history, manifests, objects,
};
use crate::models::query::{MAX_PLACE_LENGTH, MAX_VALUE_LENGTH};
use crate::models::{MAX_LIMIT, ModelListView, ModelQuery};
use crate::observation::{FleetObservation, FoundModel};
use crate::pod_logs::MAX_LINES;
use crate::problem::{ProblemDetails, ProblemKind};
use crate::pull_requests::{PreviewView, ProposalView, previews};
use crate::source_action::{SourceAction, SourceActionView};
use crate::sources::{SourceView, source_view, sources};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use stator_model::present::tree::ObjectForest;

/// Where changes are streamed.
pub const STREAM_PATH: &str = "/api/v1/stream";

const fn query(name: &'static str, description: &'static str) -> ApiParameter {
    ApiParameter { name, place: ParameterPlace::Query, description, allowed: &[], pattern: "", max_length: 0 }
}

/// A parameter of the list with any text.
const fn listed(name: &'static str, description: &'static str) -> ApiParameter {
    ApiParameter { max_length: MAX_VALUE_LENGTH, ..query(name, description) }
}

const fn repeated(name: &'static str, description: &'static str, allowed: &'static [&'static str]) -> ApiParameter {
    ApiParameter { place: ParameterPlace::RepeatedQuery, allowed, ..listed(name, description) }
}

const fn in_path(name: &'static str, description: &'static str) -> ApiParameter {
    ApiParameter { place: ParameterPlace::Path, ..query(name, description) }
}

/// The parameters of the list. Their values are read by [`ModelQuery`], which a test compares with this.
const LIST: &[ApiParameter] = &[
    listed(
        "q",
        "Search words. Each must occur in the model's name, namespace, source, GPUs, revision, status or message; case does not matter.",
    ),
    repeated(
        "health",
        "Models of this health.",
        &["Failed", "Degraded", "Unknown", "Progressing", "Suspended", "Healthy"],
    ),
    repeated("sync", "Models of this sync state.", &["Blocked", "OutOfSync", "Unknown", "Synced"]),
    repeated("namespace", "Models of this namespace.", &[]),
    repeated("source", "Models of this source, as rows name it.", &[]),
    repeated("gpu", "Models that hold GPUs of this SKU.", &[]),
    flag("drift", "Models with drifted fields (`true`), or without (`false`)."),
    flag("pending", "Models with objects that the next sync changes (`true`), or without (`false`)."),
    ApiParameter {
        pattern: "^[0-9A-Fa-f]{1,64}$",
        max_length: 64,
        ..query("commit", "The first digits of a commit: models that its sync changed last, or is about to change.")
    },
    ApiParameter {
        pattern: SORT_PATTERN,
        ..listed(
            "sort",
            "Up to four comma-separated keys; a `-` before a key reverses its order: `worst` (the default), `name`, `namespace`, `source`, `health`, `sync`, `gpus`, `cost`, `disruption`, `since`.",
        )
    },
    ApiParameter {
        place: ParameterPlace::NumberQuery(MAX_LIMIT as u64),
        ..query("limit", "Rows of a page, from 1 to 500; 100 by default.")
    },
    ApiParameter {
        pattern: "^[0-9A-Za-z_-]*$",
        max_length: MAX_PLACE_LENGTH,
        ..query(
            "continue",
            "The start of the page: `metadata.continue` or `metadata.previous` of another page of the same list.",
        )
    },
];

const SORT_PATTERN: &str = "^-?(worst|name|namespace|source|health|sync|gpus|cost|disruption|since)(,-?(worst|name|namespace|source|health|sync|gpus|cost|disruption|since)){0,3}$";

const NAMESPACE: ApiParameter = in_path("namespace", "The namespace of its objects.");
const NAME: ApiParameter = in_path("name", "The model's name.");
const ONE: &[ApiParameter] = &[NAMESPACE, NAME];

const fn flag(name: &'static str, description: &'static str) -> ApiParameter {
    ApiParameter { allowed: &["true", "false"], ..query(name, description) }
}

/// The parameters of a log. Their values are read by [`LogQuery`](crate::pod_logs::LogQuery), which a test compares with this.
const LOG: &[ApiParameter] = &[
    NAMESPACE,
    NAME,
    query("pod", "The pod. Defaults to the first pod of the model."),
    query("container", "The container. Defaults to the one that `kubectl logs` reads."),
    ApiParameter {
        place: ParameterPlace::NumberQuery(MAX_LINES),
        ..query("lines", "How many of the last lines, from 1 to 5000; 200 by default.")
    },
    flag("previous", "Whether to read the container before its last restart."),
    flag("timestamps", "Whether each line begins with its time."),
    flag("follow", "Whether to send lines that come later, for as long as the container runs."),
];

const ONE_SOURCE: &[ApiParameter] = &[
    in_path("namespace", "The namespace of the source; `-` for the source of a folder, which has none."),
    in_path("name", "The name of the source."),
];

const SOURCE: ApiParameter =
    query("source", "The source of the model, as rows name it. Optional if there is only one.");
const FILE: ApiParameter = ApiParameter {
    pattern: FILE_PATTERN,
    max_length: MAX_FILE_LENGTH,
    ..query(
        "file",
        "The path of the `model.yaml` from the repository's root. Defaults to the file of the model of this name, or `models/NAME/model.yaml` for a new one.",
    )
};
/// A path from the repository's root, none of whose parts is hidden.
const FILE_PATTERN: &str = r"^([^./\\\x00-\x1f\x7f-\x9f][^/\\\x00-\x1f\x7f-\x9f]*/)*model\.yaml$";

const RENDERED: &[ApiParameter] = &[SOURCE, FILE];

const PROPOSED: &[ApiParameter] = &[
    SOURCE,
    FILE,
    query("title", "The title of the pull request and its commit. Defaults to `Change NAME` or `Add NAME`."),
    query("description", "Why, for the review. The plan follows it."),
];

const PLANNED: &[ApiParameter] = &[
    SOURCE,
    FILE,
    ApiParameter {
        allowed: &["client", "server"],
        ..query(
            "dryRun",
            "How to plan: `client`, the default, against the last observation of the cluster; `server` asks the API server, too, whether it would take each object.",
        )
    },
];

const fn of_model(
    path: &'static str,
    operation: &'static str,
    summary: &'static str,
    answer: ApiAnswer,
) -> ApiEndpoint {
    ApiEndpoint { path, operation, summary, parameters: ONE, answer }
}

const fn of_source(
    path: &'static str,
    operation: &'static str,
    summary: &'static str,
    answer: ApiAnswer,
) -> ApiEndpoint {
    ApiEndpoint { path, operation, summary, parameters: ONE_SOURCE, answer }
}

const fn of_all(path: &'static str, operation: &'static str, summary: &'static str, answer: ApiAnswer) -> ApiEndpoint {
    ApiEndpoint { path, operation, summary, parameters: &[], answer }
}

/// Every endpoint, in the order in which they are described.
pub const ENDPOINTS: &[ApiEndpoint] = &[
    ApiEndpoint {
        path: "/api/v1/models",
        operation: "listModels",
        summary: "Models: filtered, sorted, counted, a page at a time.",
        parameters: LIST,
        answer: json::<ModelListView>(|all, asked| {
            let page = all.models(&ModelQuery::parse(&asked.query)?)?;
            Ok(document(&page.to_list(all.notices())))
        }),
    },
    of_model(
        "/api/v1/models/{namespace}/{name}",
        "getModel",
        "All details of one model.",
        json::<ModelView>(|all, asked| of_one(all, asked, ModelView::new)),
    ),
    of_model(
        "/api/v1/models/{namespace}/{name}/status",
        "getModelStatus",
        "The status of one model.",
        json::<ModelStanding>(|all, asked| of_one(all, asked, ModelStanding::new)),
    ),
    of_model(
        "/api/v1/models/{namespace}/{name}/objects",
        "listModelObjects",
        "The objects of one model, each with its next change and its health.",
        json::<ItemList<ObjectView>>(|all, asked| checked(all, asked, check_objects, objects)),
    ),
    of_model(
        "/api/v1/models/{namespace}/{name}/drift",
        "listModelDrift",
        "The drifted fields of one model, with the field managers that own them.",
        json::<ItemList<DriftView>>(|all, asked| checked(all, asked, check_objects, drift)),
    ),
    of_model(
        "/api/v1/models/{namespace}/{name}/plan",
        "getModelPlan",
        "What the next sync does with one model: objects, fields, GPUs, cost, disruption and guards.",
        json::<PendingView>(|all, asked| of_one(all, asked, PendingView::new)),
    ),
    of_model(
        "/api/v1/models/{namespace}/{name}/history",
        "listModelHistory",
        "The last ten syncs of one model that did anything, newest first.",
        json::<ItemList<HistoryEntryView>>(|all, asked| items(all, asked, history)),
    ),
    of_model(
        "/api/v1/models/{namespace}/{name}/events",
        "listModelEvents",
        "Kubernetes Events of one model's objects and of their pods, newest first. The embedded cluster has no events.",
        json::<ItemList<EventView>>(|all, asked| checked(all, asked, check_events, events)),
    ),
    of_model(
        "/api/v1/models/{namespace}/{name}/manifest",
        "listModelManifests",
        "The live objects of one model as YAML. Values that look like secrets are hidden.",
        json::<ItemList<ManifestView>>(|all, asked| checked(all, asked, check_objects, manifests)),
    ),
    of_model(
        "/api/v1/models/{namespace}/{name}/tree",
        "getModelTree",
        "The objects of one model, and everything below them down to its pods, as the cluster has them now. Of each kind, the right to list it.",
        ApiAnswer::Tree { schema: schema_of::<ObjectForest> },
    ),
    ApiEndpoint {
        path: "/api/v1/models/{namespace}/{name}/logs",
        operation: "readModelLogs",
        summary: "The last lines of a container of one model, and those that follow. The right is `get` on `pods/log`.",
        parameters: LOG,
        answer: ApiAnswer::Log,
    },
    ApiEndpoint {
        path: "/api/v1/changes",
        operation: "listChanges",
        summary: "Models that the next sync changes, each with its plan: filtered and sorted as models are, 25 a page.",
        parameters: LIST,
        answer: json::<ChangeListView>(|all, asked| {
            Ok(document(&pending_changes(all, &parse_changes_query(&asked.query)?)?))
        }),
    },
    of_all(
        "/api/v1/sources",
        "listSources",
        "Sources: the commits seen, attempted and applied of each, and its problems.",
        json::<ItemList<SourceView>>(|all, asked| {
            asked.refuse_query()?;
            Ok(document(&ItemList { items: sources(all) }))
        }),
    ),
    of_source(
        "/api/v1/sources/{namespace}/{name}",
        "getSource",
        "One source.",
        json::<SourceView>(|all, asked| {
            let source = asked.source(all)?;
            asked.refuse_query()?;
            Ok(document(&source_view(source)))
        }),
    ),
    of_source(
        "/api/v1/sources/{namespace}/{name}/sync",
        "syncSource",
        "Asks for a look and a sync now. The right is the verb `sync` on the source; the change is made as the person who asks.",
        ApiAnswer::Action { action: SourceAction::Sync, schema: schema_of::<SourceActionView> },
    ),
    of_source(
        "/api/v1/sources/{namespace}/{name}/suspend",
        "suspendSource",
        "Stops syncs of one source until it is resumed. The right is the verb `suspend` on the source; the change is made as the person who asks.",
        ApiAnswer::Action { action: SourceAction::Suspend, schema: schema_of::<SourceActionView> },
    ),
    of_source(
        "/api/v1/sources/{namespace}/{name}/resume",
        "resumeSource",
        "Resumes one source. The right is the verb `suspend` on the source; the change is made as the person who asks.",
        ApiAnswer::Action { action: SourceAction::Resume, schema: schema_of::<SourceActionView> },
    ),
    of_source(
        "/api/v1/sources/{namespace}/{name}/approve",
        "approveSource",
        "Approves what guards hold back: exactly this plan of this commit. The right is the verb `approve` on the source; the change is made as the person who asks.",
        ApiAnswer::Action { action: SourceAction::Approve, schema: schema_of::<SourceActionView> },
    ),
    of_all(
        "/api/v1/previews",
        "listPreviews",
        "Open pull requests, and what each would change.",
        json::<ItemList<PreviewView>>(|all, asked| {
            asked.refuse_query()?;
            Ok(document(&ItemList { items: previews(all) }))
        }),
    ),
    of_all(
        "/api/v1/capacity",
        "getCapacity",
        "GPUs by SKU: those that models hold, the peak of pending changes, those that pull requests add, and those that can be allocated; and their cost.",
        json::<CapacityView>(|all, asked| {
            asked.refuse_query()?;
            Ok(document(&capacity(all)))
        }),
    ),
    ApiEndpoint {
        path: "/api/v1/render",
        operation: "renderModel",
        summary: "The objects that a `model.yaml` renders to in its source's environment, with its defaults and overlay. Writes nothing.",
        parameters: RENDERED,
        answer: ApiAnswer::Draft {
            schema: schema_of::<RenderedDraft>,
            body: |draft| {
                draft.check()?;
                Ok(document(&draft.rendered()))
            },
        },
    },
    ApiEndpoint {
        path: "/api/v1/plan",
        operation: "planModel",
        summary: "The plan of a `model.yaml` as if it were in git: objects with reasons, GPUs, cost, disruption, holds of guards, and the patch for `git apply`. Writes nothing.",
        parameters: PLANNED,
        answer: ApiAnswer::Draft {
            schema: schema_of::<PlannedDraft>,
            body: |draft| {
                draft.check_change()?;
                let planned = draft.planned().ok_or_else(|| ProblemDetails::new(ProblemKind::InvalidModel))?;
                Ok(document(&planned))
            },
        },
    },
    ApiEndpoint {
        path: "/api/v1/proposals",
        operation: "proposeModel",
        summary: "Opens a pull request with a `model.yaml` at the git host of its source: branch, commit, title, and the plan as its text. The same change again gives the same pull request. Writes nothing to the cluster.",
        parameters: PROPOSED,
        answer: ApiAnswer::Proposal { schema: schema_of::<ProposalView> },
    },
    of_all(
        STREAM_PATH,
        "streamChanges",
        "Server-sent events: `changed`, with the version as its id, whenever the answer of another endpoint changes. A stream ends after some minutes; browsers open it again by themselves.",
        ApiAnswer::Stream,
    ),
    of_all(OPENAPI_PATH, "getOpenApi", "This description of the API.", ApiAnswer::OpenApi),
];

type ReadAnswer = fn(&FleetObservation, &ApiRequest) -> Result<String, ProblemDetails>;

/// An answer of this type.
const fn json<T: JsonSchema>(body: ReadAnswer) -> ApiAnswer {
    ApiAnswer::Json { schema: schema_of::<T>, body }
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn of_one<T: Serialize>(
    observation: &FleetObservation,
    request: &ApiRequest,
    view: impl Fn(&FoundModel<'_>) -> T,
) -> Result<String, ProblemDetails> {
    // What is not there is not there, whatever else is wrong with the question.
    let model = request.model(observation)?;
    request.refuse_query()?;
    Ok(document(&view(&model)))
}

/// What only some of those may see who see the model.
fn checked<T: Serialize>(
    observation: &FleetObservation,
    request: &ApiRequest,
    check: impl Fn(&FoundModel<'_>) -> Result<(), ProblemDetails>,
    view: impl Fn(&FoundModel<'_>) -> Vec<T>,
) -> Result<String, ProblemDetails> {
    check(&request.model(observation)?)?;
    items(observation, request, view)
}

fn items<T: Serialize>(
    observation: &FleetObservation,
    request: &ApiRequest,
    view: impl Fn(&FoundModel<'_>) -> Vec<T>,
) -> Result<String, ProblemDetails> {
    of_one(observation, request, |model| ItemList { items: view(model) })
}

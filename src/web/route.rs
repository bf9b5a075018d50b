//! What an address of the pages is, and what holds for it.

use super::access::AccessGate;
use super::actions::MAX_ACTION_BYTES;
use super::drafts::MAX_FORM_BYTES;
use super::sign_in::{MAX_SIGN_IN_BYTES, SIGN_IN_CALLBACK_PATH, SIGN_IN_PATH, SIGN_IN_START_PATH, SIGN_OUT_PATH};
use crate::server::{Caller, RouteRule};
use stator_view::api::{ApiAnswer, ApiEndpoint, ApiRequest, ENDPOINTS, STREAM_PATH};
use stator_view::draft::MAX_DRAFT_BYTES;
use stator_view::page::{self, FormPlace, PageAsset};
use stator_view::source_action::SourceAction;

/// Where the link leads.
const ENTER_PATH: &str = "/enter";

/// What a path is.
#[derive(Clone, Debug, strum::EnumDiscriminants)]
#[strum_discriminants(name(WebRouteKind), derive(strum::VariantArray))]
pub(super) enum WebRoute<'a> {
    /// A style or a script.
    Asset(&'static PageAsset),
    /// Where the link leads.
    Enter,
    /// Where a token signs in.
    SignIn,
    /// Where a browser is sent to the provider from.
    SignInStart,
    /// Where the provider sends it back to.
    SignInCallback,
    /// Where it signs out.
    SignOut,
    /// The list of models.
    Models,
    /// A model, of a namespace and a name.
    Model(&'a str, &'a str),
    /// Everything below a model, of a namespace and a name.
    Tree(&'a str, &'a str),
    /// What the containers of a model write, of a namespace and a name.
    Log(&'a str, &'a str),
    /// The form of a new model.
    NewModel,
    /// The form of a model, of a namespace and a name.
    EditModel(&'a str, &'a str),
    /// The list of sources.
    Sources,
    /// One source, of a namespace and a name.
    Source(&'a str, &'a str),
    /// Something that is asked of a source, of a namespace and a name.
    SourceAction(&'a str, &'a str, SourceAction),
    /// The models that the next sync changes.
    Changes,
    /// The open pull requests.
    Previews,
    /// GPUs by SKU.
    Capacity,
    /// The page about the API.
    ApiPage,
    /// The page about a kind of problem.
    Problem(&'a str),
    /// The stream of the API.
    Stream,
    /// An endpoint of the API that is read.
    Document(&'static ApiEndpoint, ApiRequest),
    /// An endpoint of the API that takes a model.
    Draft(&'static ApiEndpoint, ApiRequest),
    /// An endpoint of the API that asks something of a source.
    Action(SourceAction, ApiRequest),
}

impl<'a> WebRoute<'a> {
    /// What a path is, with its decoded segments and a query, of pages that are opened in this way; `None` where there is
    /// nothing.
    pub(super) fn find(gate: &AccessGate, path: &str, segments: &'a [String], query: &str) -> Option<Self> {
        if let Some(asset) = page::find_asset(path) {
            return Some(Self::Asset(asset));
        }
        match gate {
            AccessGate::Link(_) if path == ENTER_PATH => return Some(Self::Enter),
            AccessGate::Tokens(_) if path == SIGN_IN_PATH => return Some(Self::SignIn),
            AccessGate::Tokens(_) if path == SIGN_OUT_PATH => return Some(Self::SignOut),
            AccessGate::Tokens(gate) if path == SIGN_IN_START_PATH && gate.oidc().is_some() => {
                return Some(Self::SignInStart);
            }
            AccessGate::Tokens(gate) if path == SIGN_IN_CALLBACK_PATH && gate.oidc().is_some() => {
                return Some(Self::SignInCallback);
            }
            AccessGate::Link(_) | AccessGate::Tokens(_) => {}
        }
        if path == STREAM_PATH {
            return Some(Self::Stream);
        }
        let endpoint = ENDPOINTS.iter().find_map(|one| Some((one, one.request(path, query)?)));
        if let Some((endpoint, request)) = endpoint {
            return Some(match endpoint.answer {
                ApiAnswer::Action { action, schema: _ } => Self::Action(action, request),
                ApiAnswer::Draft { .. } | ApiAnswer::Proposal { .. } => Self::Draft(endpoint, request),
                ApiAnswer::Json { .. }
                | ApiAnswer::Tree { .. }
                | ApiAnswer::Log
                | ApiAnswer::Stream
                | ApiAnswer::OpenApi => Self::Document(endpoint, request),
            });
        }
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments.as_slice() {
            [""] => Some(Self::Models),
            ["models", namespace, name] => Some(Self::Model(namespace, name)),
            ["models", namespace, name, "tree"] => Some(Self::Tree(namespace, name)),
            ["models", namespace, name, "logs"] => Some(Self::Log(namespace, name)),
            ["new"] => Some(Self::NewModel),
            ["models", namespace, name, "edit"] => Some(Self::EditModel(namespace, name)),
            ["sources"] => Some(Self::Sources),
            ["sources", namespace, name] => Some(Self::Source(namespace, name)),
            ["sources", namespace, name, action] => {
                Some(Self::SourceAction(namespace, name, SourceAction::parse(action)?))
            }
            ["changes"] => Some(Self::Changes),
            ["previews"] => Some(Self::Previews),
            ["capacity"] => Some(Self::Capacity),
            ["api"] => Some(Self::ApiPage),
            ["problems", slug] => Some(Self::Problem(slug)),
            _ => None,
        }
    }

    /// What holds for it.
    pub(super) fn rule(&self) -> RouteRule {
        WebRouteKind::from(self).rule()
    }

    /// The namespace and the name of the one model that it is about.
    pub(super) fn model(&self) -> Option<(&str, &str)> {
        if let Self::Model(namespace, name) | Self::Tree(namespace, name) | Self::Log(namespace, name) = self {
            return Some((namespace, name));
        }
        let (Self::Document(_, request) | Self::Draft(_, request)) = self else { return None };
        match request.path.as_slice() {
            [namespace, name] => Some((namespace, name)),
            _ => None,
        }
    }

    /// The form that it is.
    pub(super) fn form(&self) -> Option<FormPlace<'a>> {
        if let Self::EditModel(namespace, name) = self {
            return Some(FormPlace::Edit { namespace, name });
        }
        matches!(self, Self::NewModel).then_some(FormPlace::New)
    }
}

impl WebRouteKind {
    /// What holds for all routes of the kind.
    pub(super) const fn rule(self) -> RouteRule {
        let form = RouteRule {
            path: "/new",
            methods: "GET, HEAD, POST",
            caller: Caller::Proposer,
            most_bytes: MAX_FORM_BYTES,
        };
        match self {
            Self::Asset => RouteRule::reading("/assets/{file}", Caller::Anybody),
            Self::Enter => RouteRule { methods: "GET", ..RouteRule::reading(ENTER_PATH, Caller::LinkHolder) },
            Self::SignIn => RouteRule {
                path: SIGN_IN_PATH,
                methods: "GET, HEAD, POST",
                caller: Caller::Anybody,
                most_bytes: MAX_SIGN_IN_BYTES,
            },
            Self::SignInStart => {
                RouteRule { methods: "GET", ..RouteRule::reading(SIGN_IN_START_PATH, Caller::Anybody) }
            }
            Self::SignInCallback => {
                RouteRule { methods: "GET", ..RouteRule::reading(SIGN_IN_CALLBACK_PATH, Caller::Anybody) }
            }
            Self::SignOut => RouteRule { methods: "POST", ..RouteRule::reading(SIGN_OUT_PATH, Caller::Anybody) },
            Self::Models => RouteRule::reading("/", Caller::Reader),
            Self::Model => RouteRule::reading("/models/{namespace}/{name}", Caller::Reader),
            Self::Tree => RouteRule::reading("/models/{namespace}/{name}/tree", Caller::Reader),
            Self::Log => RouteRule::reading("/models/{namespace}/{name}/logs", Caller::Reader),
            Self::NewModel => form,
            Self::EditModel => RouteRule { path: "/models/{namespace}/{name}/edit", ..form },
            Self::Sources => RouteRule::reading("/sources", Caller::Reader),
            Self::Source => RouteRule::reading("/sources/{namespace}/{name}", Caller::Reader),
            Self::SourceAction => RouteRule {
                path: "/sources/{namespace}/{name}/{action}",
                methods: "GET, HEAD, POST",
                caller: Caller::Actor,
                most_bytes: MAX_ACTION_BYTES,
            },
            Self::Changes => RouteRule::reading("/changes", Caller::Reader),
            Self::Previews => RouteRule::reading("/previews", Caller::Reader),
            Self::Capacity => RouteRule::reading("/capacity", Caller::Reader),
            Self::ApiPage => RouteRule::reading("/api", Caller::Reader),
            Self::Problem => RouteRule::reading("/problems/{kind}", Caller::Reader),
            Self::Stream => RouteRule::reading(STREAM_PATH, Caller::Reader),
            // Each endpoint has a path of its own.
            Self::Document => RouteRule::reading("", Caller::Reader),
            Self::Draft => {
                RouteRule { path: "", methods: "POST", caller: Caller::Proposer, most_bytes: MAX_DRAFT_BYTES }
            }
            Self::Action => {
                RouteRule { path: "", methods: "POST", caller: Caller::Actor, most_bytes: MAX_ACTION_BYTES }
            }
        }
    }
}

/// What holds for every route of the pages and of the API.
pub fn route_rules() -> Vec<RouteRule> {
    use strum::VariantArray as _;
    let of_kind = |kind: &WebRouteKind| -> Vec<RouteRule> {
        let endpoints = ENDPOINTS.iter().filter(|one| match one.answer {
            ApiAnswer::Action { .. } => *kind == WebRouteKind::Action,
            ApiAnswer::Draft { .. } | ApiAnswer::Proposal { .. } => *kind == WebRouteKind::Draft,
            ApiAnswer::Json { .. }
            | ApiAnswer::Tree { .. }
            | ApiAnswer::Log
            | ApiAnswer::Stream
            | ApiAnswer::OpenApi => *kind == WebRouteKind::Document,
        });
        if !kind.rule().path.is_empty() {
            return vec![kind.rule()];
        }
        let apart = endpoints.filter(|one| one.path != STREAM_PATH);
        apart.map(|one| RouteRule { path: one.path, ..kind.rule() }).collect()
    };
    WebRouteKind::VARIANTS.iter().flat_map(of_kind).collect()
}

//! What an address of the pages is, and what holds for it.

use super::access::AccessGate;
use super::drafts::MAX_FORM_BYTES;
use super::sign_in::{MAX_SIGN_IN_BYTES, SIGN_IN_PATH, SIGN_OUT_PATH};
use crate::server::{Caller, RouteRule};
use stator_view::api::{ApiEndpoint, ApiRequest, ENDPOINTS, STREAM_PATH};
use stator_view::draft::MAX_DRAFT_BYTES;
use stator_view::page::{self, FormPlace, PageAsset};

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
    /// Where it signs out.
    SignOut,
    /// The list of models.
    Models,
    /// A model, of a namespace and a name.
    Model(&'a str, &'a str),
    /// The form of a new model.
    NewModel,
    /// The form of a model, of a namespace and a name.
    EditModel(&'a str, &'a str),
    /// The list of sources.
    Sources,
    /// The models that the next sync changes.
    Changes,
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
}

impl<'a> WebRoute<'a> {
    /// What a path is, with a query, of pages that are opened in this way; `None` where there is nothing.
    pub(super) fn find(gate: &AccessGate, path: &'a str, query: &str) -> Option<Self> {
        if let Some(asset) = page::find_asset(path) {
            return Some(Self::Asset(asset));
        }
        match gate {
            AccessGate::Link(_) if path == ENTER_PATH => return Some(Self::Enter),
            AccessGate::Tokens(_) if path == SIGN_IN_PATH => return Some(Self::SignIn),
            AccessGate::Tokens(_) if path == SIGN_OUT_PATH => return Some(Self::SignOut),
            AccessGate::Link(_) | AccessGate::Tokens(_) => {}
        }
        if path == STREAM_PATH {
            return Some(Self::Stream);
        }
        let endpoint = ENDPOINTS.iter().find_map(|one| Some((one, one.request(path, query)?)));
        if let Some((endpoint, request)) = endpoint {
            return Some(match endpoint.answer.takes_body() {
                true => Self::Draft(endpoint, request),
                false => Self::Document(endpoint, request),
            });
        }
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        match segments.as_slice() {
            [""] => Some(Self::Models),
            ["models", namespace, name] => Some(Self::Model(namespace, name)),
            ["new"] => Some(Self::NewModel),
            ["models", namespace, name, "edit"] => Some(Self::EditModel(namespace, name)),
            ["sources"] => Some(Self::Sources),
            ["changes"] => Some(Self::Changes),
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
        if let Self::Model(namespace, name) = self {
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
            Self::SignOut => RouteRule { methods: "POST", ..RouteRule::reading(SIGN_OUT_PATH, Caller::Anybody) },
            Self::Models => RouteRule::reading("/", Caller::Reader),
            Self::Model => RouteRule::reading("/models/{namespace}/{name}", Caller::Reader),
            Self::NewModel => form,
            Self::EditModel => RouteRule { path: "/models/{namespace}/{name}/edit", ..form },
            Self::Sources => RouteRule::reading("/sources", Caller::Reader),
            Self::Changes => RouteRule::reading("/changes", Caller::Reader),
            Self::Capacity => RouteRule::reading("/capacity", Caller::Reader),
            Self::ApiPage => RouteRule::reading("/api", Caller::Reader),
            Self::Problem => RouteRule::reading("/problems/{kind}", Caller::Reader),
            Self::Stream => RouteRule::reading(STREAM_PATH, Caller::Reader),
            // Each endpoint has a path of its own.
            Self::Document => RouteRule::reading("", Caller::Reader),
            Self::Draft => {
                RouteRule { path: "", methods: "POST", caller: Caller::Proposer, most_bytes: MAX_DRAFT_BYTES }
            }
        }
    }
}

/// What holds for every route of the pages and of the API.
pub fn route_rules() -> Vec<RouteRule> {
    use strum::VariantArray as _;
    let of_kind = |kind: &WebRouteKind| -> Vec<RouteRule> {
        if !matches!(kind, WebRouteKind::Document | WebRouteKind::Draft) {
            return vec![kind.rule()];
        }
        let takes_body = matches!(kind, WebRouteKind::Draft);
        let endpoints = ENDPOINTS.iter().filter(|one| one.answer.takes_body() == takes_body);
        let apart = endpoints.filter(|one| one.path != STREAM_PATH);
        apart.map(|one| RouteRule { path: one.path, ..kind.rule() }).collect()
    };
    WebRouteKind::VARIANTS.iter().flat_map(of_kind).collect()
}

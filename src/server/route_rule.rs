//! What holds for each route of every listener: who is answered, and how much of them is read. `docs/security-model.md` has the
//! table, and a test sends each route too much, too slowly and without rights.

use stator_git::forge::webhook::MAX_BODY_BYTES;
use strum::{IntoStaticStr, VariantArray};

/// Who is answered at a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Whoever reaches the listener.
    Anybody,
    /// Whoever signs with the secret of a source.
    Signer,
    /// Whoever may `get` `/metrics`, where metrics are authorized.
    MetricsReader,
    /// Whoever has the link that was printed last.
    LinkHolder,
    /// Whoever opened the link, or has a token of the audience; each sees what they may list.
    Reader,
    /// A reader who may `propose` models of the source.
    Proposer,
    /// A reader who may use the verb of the action on the source.
    Actor,
}

impl Caller {
    /// The same for a person.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Anybody => "everybody who reaches the port",
            Self::Signer => "a sender who signs with a source's secret",
            Self::MetricsReader => "with `--authorize-metrics`, a token with the right to `get` `/metrics`",
            Self::LinkHolder => "the first to open the printed link",
            Self::Reader => "a reader",
            Self::Proposer => "a reader who may `propose`",
            Self::Actor => "a reader with the right to the verb of the action",
        }
    }
}

/// What holds for a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteRule {
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// Its methods.
    pub methods: &'static str,
    /// Who is answered.
    pub caller: Caller,
    /// The most bytes of a body that are read; 0 where none is.
    pub most_bytes: usize,
}

impl RouteRule {
    /// A route that reads no body.
    pub const fn reading(path: &'static str, caller: Caller) -> Self {
        Self { path, methods: "GET, HEAD", caller, most_bytes: 0 }
    }
}

/// Every route beside those of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray, IntoStaticStr)]
pub enum ServerRoute {
    /// Deliveries for every source of a git host whose secret fits.
    WebhookOfHost,
    /// Deliveries for the sources of a name.
    WebhookOfName,
    /// Deliveries for one source.
    WebhookOfSource,
    /// Deliveries for one source, by its digest.
    WebhookOfDigest,
    /// Whether the process answers.
    Livez,
    /// Whether it is ready.
    Readyz,
    /// Metrics.
    Metrics,
}

impl ServerRoute {
    /// What holds for it.
    pub const fn rule(self) -> RouteRule {
        match self {
            Self::WebhookOfHost => RouteRule { path: "/webhooks/{host}", ..WEBHOOK },
            Self::WebhookOfName => RouteRule { path: "/webhooks/{host}/{source}", ..WEBHOOK },
            Self::WebhookOfSource => RouteRule { path: "/webhooks/{host}/{namespace}/{source}", ..WEBHOOK },
            Self::WebhookOfDigest => RouteRule { path: "/webhooks/source/{digest}", ..WEBHOOK },
            Self::Livez => RouteRule::reading("/livez", Caller::Anybody),
            Self::Readyz => RouteRule::reading("/readyz", Caller::Anybody),
            Self::Metrics => RouteRule::reading("/metrics", Caller::MetricsReader),
        }
    }
}

const WEBHOOK: RouteRule = RouteRule { path: "", methods: "POST", caller: Caller::Signer, most_bytes: MAX_BODY_BYTES };

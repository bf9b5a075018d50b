//! What one endpoint of the API is.

use crate::draft::JudgedDraft;
use crate::facts::SourceFacts;
use crate::observation::{FleetObservation, FoundModel};
use crate::problem::{ProblemDetails, RequestFault};
use crate::query_string;
use crate::source_action::SourceAction;
use schemars::{Schema, SchemaGenerator};
use serde::Serialize;

/// One endpoint.
#[derive(Clone, Copy, Debug)]
pub struct ApiEndpoint {
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// Its name for clients that are generated.
    pub operation: &'static str,
    /// What it gives, in a sentence.
    pub summary: &'static str,
    /// Its parameters.
    pub parameters: &'static [ApiParameter],
    /// What it answers.
    pub answer: ApiAnswer,
}

/// What an endpoint answers.
#[derive(Clone, Copy, Debug)]
pub enum ApiAnswer {
    /// A JSON document, made of what was seen.
    Json {
        /// Its schema.
        schema: fn(&mut SchemaGenerator) -> Schema,
        /// The document, or why there is none.
        body: fn(&FleetObservation, &ApiRequest) -> Result<String, ProblemDetails>,
    },
    /// A JSON document, made of a model that is sent. Asked with POST, and nothing is written.
    Draft {
        /// Its schema.
        schema: fn(&mut SchemaGenerator) -> Schema,
        /// The document, or why there is none.
        body: fn(&JudgedDraft) -> Result<String, ProblemDetails>,
    },
    /// A pull request with a model that is sent, asked with POST. It is written to the git host, and nowhere else.
    Proposal {
        /// Its schema.
        schema: fn(&mut SchemaGenerator) -> Schema,
    },
    /// Something that is asked of a source, with POST.
    Action {
        /// What.
        action: SourceAction,
        /// Its schema.
        schema: fn(&mut SchemaGenerator) -> Schema,
    },
    /// The objects of a model down to its pods, read from the cluster now.
    Tree {
        /// Its schema.
        schema: fn(&mut SchemaGenerator) -> Schema,
    },
    /// Lines of a container, as text, read from the cluster now.
    Log,
    /// Server-sent events, for as long as somebody reads them.
    Stream,
    /// The OpenAPI document.
    OpenApi,
}

/// A parameter of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiParameter {
    /// Its name.
    pub name: &'static str,
    /// Where it stands.
    pub place: ParameterPlace,
    /// What it is for.
    pub description: &'static str,
    /// Values that are allowed, where these are a list.
    pub allowed: &'static [&'static str],
    /// What a value has to look like, as a regular expression; empty where anything goes.
    pub pattern: &'static str,
    /// How many characters a value may have; 0 where as many as an address may.
    pub max_length: usize,
}

/// Where a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterPlace {
    /// In the path.
    Path,
    /// In the query, once.
    Query,
    /// In the query, as often as one likes.
    RepeatedQuery,
    /// In the query, as a number from 1 to this one.
    NumberQuery(u64),
}

/// What is asked of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiRequest {
    /// The parameters of the path, in their order.
    pub path: Vec<String>,
    /// The query, without its `?`.
    pub query: String,
}

impl ApiAnswer {
    /// Whether it is asked by sending something.
    pub fn takes_body(&self) -> bool {
        match self {
            Self::Draft { .. } | Self::Proposal { .. } | Self::Action { .. } => true,
            Self::Json { .. } | Self::Tree { .. } | Self::Log | Self::Stream | Self::OpenApi => false,
        }
    }
}

impl ApiEndpoint {
    /// The method that it is asked with; what is read with GET is also with HEAD.
    pub fn method(&self) -> &'static str {
        if self.answer.takes_body() { "POST" } else { "GET" }
    }

    /// The names of its parameters of the query.
    pub fn query_names(&self) -> Vec<&'static str> {
        self.parameters.iter().filter(|one| one.place != ParameterPlace::Path).map(|one| one.name).collect()
    }

    /// What is asked of this endpoint by a path and a query; `None` where the path is another one's.
    pub fn request(&self, path: &str, query: &str) -> Option<ApiRequest> {
        let (own, asked): (Vec<&str>, Vec<&str>) = (self.path.split('/').collect(), path.split('/').collect());
        if own.len() != asked.len() {
            return None;
        }
        let mut values = Vec::new();
        for (own, asked) in own.into_iter().zip(asked) {
            if own.starts_with('{') {
                values.push(query_string::decode(asked));
            } else if own != asked {
                return None;
            }
        }
        Some(ApiRequest { path: values, query: query.to_owned() })
    }
}

impl ApiRequest {
    /// The model that `{namespace}` and `{name}` of the path mean.
    ///
    /// # Errors
    /// Where there is none.
    pub fn model<'a>(&self, observation: &'a FleetObservation) -> Result<FoundModel<'a>, ProblemDetails> {
        let at = |at: usize| self.path.get(at).map(String::as_str).unwrap_or_default();
        observation.model(at(0), at(1))
    }

    /// The source that `{namespace}` and `{name}` of the path mean.
    ///
    /// # Errors
    /// Where there is none.
    pub fn source<'a>(&self, observation: &'a FleetObservation) -> Result<&'a SourceFacts, ProblemDetails> {
        let at = |at: usize| self.path.get(at).map(String::as_str).unwrap_or_default();
        observation.source(at(0), at(1))
    }

    /// That there is no query, for endpoints that know no parameter.
    ///
    /// # Errors
    /// With each parameter that there is.
    pub fn refuse_query(&self) -> Result<(), ProblemDetails> {
        let errors: Vec<RequestFault> = query_string::parse(&self.query)
            .take(10)
            .map(|(name, _)| RequestFault {
                pointer: format!("#/query/{}", name.replace('~', "~0").replace('/', "~1")),
                detail: format!("there is no parameter `{name}`"),
                help: Some("omit it; this address has no parameters".to_owned()),
                ..RequestFault::default()
            })
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(ProblemDetails::of_parameters(errors)) }
    }
}

/// A document as it is sent.
pub(super) fn document(value: &impl Serialize) -> String {
    // Views have a JSON form: their maps have texts as keys.
    serde_json::to_string(value).unwrap_or_default()
}

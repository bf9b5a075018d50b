//! Why there is nothing to show, as RFC 9457 has it: what is wrong, where, what is allowed.

use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;

/// The kinds of problems. Each has a page of its own, which `type` leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// A parameter is unknown, or its value is.
    InvalidParameter,
    /// Nobody signed in.
    SignInRequired,
    /// Nobody signed in where that takes a token.
    TokenRequired,
    /// Who signed in may not see it.
    Forbidden,
    /// The API server did not say who somebody is, or what they may see.
    ReviewFailed,
    /// The request names another host than the one that answers.
    WrongHost,
    /// There is nothing of that address.
    NotFound,
    /// Only reading is possible.
    MethodNotAllowed,
    /// A page is asked for that belongs to other filters, or another order.
    Expired,
    /// More is open than may be.
    TooManyStreams,
    /// Too many tokens that nobody knows came from the same address.
    TooManyAttempts,
    /// The request comes from another site.
    CrossOrigin,
    /// The body took too long to come.
    BodyLate,
    /// The body is longer than may be.
    BodyTooLarge,
    /// The body is of a type that is not read here.
    MediaType,
    /// The model that was sent has errors.
    InvalidModel,
    /// The replicas that were changed are not git's to decide.
    ReplicasNotOwned,
    /// The request timed out.
    OutOfTime,
}

/// Every kind.
pub const KINDS: [ProblemKind; 18] = [
    ProblemKind::InvalidParameter,
    ProblemKind::SignInRequired,
    ProblemKind::TokenRequired,
    ProblemKind::Forbidden,
    ProblemKind::ReviewFailed,
    ProblemKind::WrongHost,
    ProblemKind::NotFound,
    ProblemKind::MethodNotAllowed,
    ProblemKind::Expired,
    ProblemKind::TooManyStreams,
    ProblemKind::TooManyAttempts,
    ProblemKind::CrossOrigin,
    ProblemKind::BodyLate,
    ProblemKind::BodyTooLarge,
    ProblemKind::MediaType,
    ProblemKind::InvalidModel,
    ProblemKind::ReplicasNotOwned,
    ProblemKind::OutOfTime,
];

impl ProblemKind {
    /// The last part of its page's path.
    pub fn slug(self) -> &'static str {
        match self {
            Self::InvalidParameter => "invalid-parameter",
            Self::SignInRequired => "sign-in-required",
            Self::TokenRequired => "token-required",
            Self::Forbidden => "forbidden",
            Self::ReviewFailed => "review-failed",
            Self::WrongHost => "wrong-host",
            Self::NotFound => "not-found",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::Expired => "expired",
            Self::TooManyStreams => "too-many-streams",
            Self::TooManyAttempts => "too-many-attempts",
            Self::CrossOrigin => "cross-origin",
            Self::BodyLate => "body-late",
            Self::BodyTooLarge => "body-too-large",
            Self::MediaType => "media-type",
            Self::InvalidModel => "invalid-model",
            Self::ReplicasNotOwned => "replicas-not-owned",
            Self::OutOfTime => "out-of-time",
        }
    }

    /// The status of the answer.
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidParameter => 400,
            Self::SignInRequired | Self::TokenRequired => 401,
            Self::CrossOrigin | Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::BodyLate => 408,
            Self::ReplicasNotOwned => 409,
            Self::Expired => 410,
            Self::BodyTooLarge => 413,
            Self::MediaType => 415,
            Self::WrongHost => 421,
            Self::InvalidModel => 422,
            Self::TooManyAttempts => 429,
            Self::TooManyStreams | Self::OutOfTime | Self::ReviewFailed => 503,
        }
    }

    /// What it is, in a few words that are the same every time.
    pub fn title(self) -> &'static str {
        match self {
            Self::InvalidParameter => "A parameter is not allowed",
            Self::SignInRequired => "Open the link that stator printed",
            Self::TokenRequired => "Sign in with a token",
            Self::Forbidden => "You may not see this",
            Self::ReviewFailed => "The API server could not check your access",
            Self::WrongHost => "The address names another host",
            Self::NotFound => "This address does not exist",
            Self::MethodNotAllowed => "This address does not support the method",
            Self::Expired => "The list changed its filters or its order",
            Self::TooManyStreams => "Too many streams are open",
            Self::TooManyAttempts => "Too many tokens were refused",
            Self::CrossOrigin => "The request comes from another site",
            Self::BodyLate => "The request took too long to arrive",
            Self::BodyTooLarge => "The request is too large",
            Self::MediaType => "The content type is not supported",
            Self::InvalidModel => "The model has errors",
            Self::ReplicasNotOwned => "Git does not set these replicas",
            Self::OutOfTime => "The request timed out",
        }
    }

    /// What to do about it.
    pub fn help(self) -> &'static str {
        match self {
            Self::InvalidParameter => "Correct the named parameter, or omit it.",
            Self::SignInRequired => {
                "stator prints a link with a token when it starts. The link works once; once it is used, stator prints \
                 a new one. A cookie keeps the browser signed in until stator ends."
            }
            Self::TokenRequired => {
                "Sign in with a token of the cluster for the audience of these pages: `kubectl create token NAME \
                 --audience AUDIENCE` creates one for a service account. The audience is `stator`, unless the \
                 controller sets another. Programs send the token as `Authorization: Bearer`."
            }
            Self::Forbidden => "Ask an administrator of the cluster to grant the named right.",
            Self::ReviewFailed => "Try again in a moment. stator shows nothing until it knows your rights.",
            Self::WrongHost => {
                "Pages that listen on this machine answer only to the address that stator printed, so that no other site \
                 can read them through a name of its own."
            }
            Self::NotFound => {
                "The model, the source or the page does not exist, or no longer does. See the list of models."
            }
            Self::MethodNotAllowed => {
                "This address is read-only. To change a model, change it in git: pages and API write nothing."
            }
            Self::Expired => "Start again from the first page of the list.",
            Self::TooManyStreams => "Close pages that are open elsewhere, or read the list again from time to time.",
            Self::TooManyAttempts => {
                "The API server refused many tokens from your address, and is asked about no more for a minute. Wait, and \
                 sign in with a token that is valid."
            }
            Self::CrossOrigin => {
                "A request with a body must show that it comes from these pages: browsers do so by themselves. A \
                 program must send the header `Origin` with the address of these pages, `http://` included."
            }
            Self::BodyLate => "Send it again.",
            Self::BodyTooLarge => "Send one model of at most 1 MiB, and keep data out of it.",
            Self::MediaType => {
                "Send a model as `application/yaml` or as `application/json`; forms send `application/x-www-form-urlencoded`."
            }
            Self::InvalidModel => "Correct each named field.",
            Self::ReplicasNotOwned => {
                "A planner or a scaling adapter sets the replicas: change the bounds in `scaling`, or remove `scaling` \
                 to set the replicas in git."
            }
            Self::OutOfTime => "Try again in a moment; there were too many requests at once.",
        }
    }
}

/// A problem, as `application/problem+json`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Problem")]
pub struct ProblemDetails {
    /// The same, for who goes on with it.
    #[serde(skip)]
    pub of: ProblemKind,
    /// The address of a page about this kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// What kind of problem it is.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// What happened this time; absent where the title says it all.
    pub detail: Option<String>,
    /// Each fault of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub errors: Vec<RequestFault>,
}

/// One fault of a request.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestFault {
    /// Where, as a JSON pointer: `#/query/health` for a parameter, `#/spec/engine` for a field of the model that was sent, `#`
    /// where no field is meant.
    pub pointer: String,
    /// What was found, in a sentence.
    pub detail: String,
    /// The rule that it breaks, as the reference lists them; absent for parameters.
    pub code: Option<String>,
    /// The file that it stands in, from the repository's root; absent for parameters.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column in characters, from 1.
    pub column: Option<u32>,
    /// What stands there, where that is one value.
    pub found: Option<String>,
    /// What is allowed, where that is a list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub allowed: Vec<String>,
    /// The fix.
    pub help: Option<String>,
}

impl ProblemDetails {
    /// A problem of a kind, with nothing more to be said.
    pub fn new(kind: ProblemKind) -> Self {
        Self {
            of: kind,
            kind: format!("/problems/{}", kind.slug()),
            title: kind.title().to_owned(),
            status: kind.status(),
            detail: None,
            errors: Vec::new(),
        }
    }

    /// Parameters that are not allowed.
    pub fn of_parameters(errors: Vec<RequestFault>) -> Self {
        Self::new(ProblemKind::InvalidParameter).with_errors(errors)
    }

    /// The same, with each fault of the request.
    #[must_use]
    pub fn with_errors(self, errors: Vec<RequestFault>) -> Self {
        Self { errors, ..self }
    }

    /// The same, with what happened this time.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }
}

//! Why there is nothing to show, as RFC 9457 has it: what is wrong, where, what is allowed.

use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;

/// The table of problems: status of the answer, last part of the page's path, title and help of each kind.
macro_rules! problem_kinds {
    ($($(#[$about:meta])* $kind:ident = $status:literal, $slug:literal, $title:literal, $help:literal;)*) => {
        /// The kinds of problems. Each has a page of its own, which `type` leads to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ProblemKind {
            $($(#[$about])* $kind),*
        }

        /// Every kind.
        pub const KINDS: &[ProblemKind] = &[$(ProblemKind::$kind),*];

        impl ProblemKind {
            /// The last part of its page's path.
            pub fn slug(self) -> &'static str {
                match self { $(Self::$kind => $slug),* }
            }

            /// The status of the answer.
            pub fn status(self) -> u16 {
                match self { $(Self::$kind => $status),* }
            }

            /// What it is, in a few words that are the same every time.
            pub fn title(self) -> &'static str {
                match self { $(Self::$kind => $title),* }
            }

            /// What to do about it.
            pub fn help(self) -> &'static str {
                match self { $(Self::$kind => $help),* }
            }
        }
    };
}

problem_kinds! {
    /// A parameter is unknown, or its value is.
    InvalidParameter = 400, "invalid-parameter", "A parameter is not allowed",
        "Correct the named parameter, or omit it.";
    /// Nobody signed in.
    SignInRequired = 401, "sign-in-required", "Open the link that stator printed",
        "stator prints a link with a token when it starts. The link works once; once it is used, stator prints \
         a new one. A cookie keeps the browser signed in until stator ends.";
    /// Nobody signed in where that takes a token.
    TokenRequired = 401, "token-required", "Sign in with a token",
        "Sign in with a token of the cluster for the audience of these pages: `kubectl create token NAME \
         --audience AUDIENCE` creates one for a service account. The audience is `stator`, unless the \
         controller sets another. Programs send the token as `Authorization: Bearer`.";
    /// Who signed in may not see it.
    Forbidden = 403, "forbidden", "You may not see this",
        "Ask an administrator of the cluster to grant the named right.";
    /// The API server did not say who somebody is, or what they may see.
    ReviewFailed = 503, "review-failed", "The API server could not check your access",
        "Try again in a moment. stator shows nothing until it knows your rights.";
    /// The request names another host than the one that answers.
    WrongHost = 421, "wrong-host", "The address names another host",
        "Pages that listen on this machine answer only to the address that stator printed, so that no other site \
         can read them through a name of its own.";
    /// There is nothing of that address.
    NotFound = 404, "not-found", "This address does not exist",
        "The model, the source or the page does not exist, or no longer does. See the list of models.";
    /// Only reading is possible.
    MethodNotAllowed = 405, "method-not-allowed", "This address does not support the method",
        "This address is read-only. To change a model, change it in git: pages and API write nothing.";
    /// A page is asked for that belongs to other filters, or another order.
    Expired = 410, "expired", "The list changed its filters or its order",
        "Start again from the first page of the list.";
    /// More is open than may be.
    TooManyStreams = 503, "too-many-streams", "Too many streams are open",
        "Close pages that are open elsewhere, or read the list again from time to time.";
    /// Too many tokens that nobody knows came from the same address.
    TooManyAttempts = 429, "too-many-attempts", "Too many tokens were refused",
        "The API server refused many tokens from your address, and is asked about no more for a minute. Wait, and \
         sign in with a token that is valid.";
    /// The request comes from another site.
    CrossOrigin = 403, "cross-origin", "The request comes from another site",
        "A request with a body must show that it comes from these pages: browsers do so by themselves. A \
         program must send the header `Origin` with the address of these pages, `http://` included.";
    /// The body took too long to come.
    BodyLate = 408, "body-late", "The request took too long to arrive",
        "Send it again.";
    /// The body is longer than may be.
    BodyTooLarge = 413, "body-too-large", "The request is too large",
        "Send one model of at most 1 MiB, and keep data out of it.";
    /// The body is of a type that is not read here.
    MediaType = 415, "media-type", "The content type is not supported",
        "Send a model as `application/yaml` or as `application/json`; forms send `application/x-www-form-urlencoded`.";
    /// The model that was sent has errors.
    InvalidModel = 422, "invalid-model", "The model has errors",
        "Correct each named field.";
    /// The replicas that were changed are not git's to decide.
    ReplicasNotOwned = 409, "replicas-not-owned", "Git does not set these replicas",
        "A planner or a scaling adapter sets the replicas: change the bounds in `scaling`, or remove `scaling` \
         to set the replicas in git.";
    /// The git host refused the pull request.
    NotProposed = 502, "not-proposed", "The pull request was not opened",
        "Download the patch, apply it in a clone of the repository, and open the pull request there.";
    /// A file or a plan is another one than that which was looked at.
    Stale = 409, "stale", "It was changed meanwhile",
        "Look at it again, and go on from there.";
    /// The source is in another state, or nobody can do it from here.
    NotPossible = 409, "not-possible", "This is not possible now",
        "See the page of the source for its state and for what can be done.";
    /// The cluster did not give what was to be read from it now.
    NotReadNow = 409, "not-read-now", "The cluster does not show this now",
        "See the named reason. `stator tree` and `stator logs` read the same from the command line.";
    /// The request timed out.
    OutOfTime = 503, "out-of-time", "The request timed out",
        "Try again in a moment; there were too many requests at once.";
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

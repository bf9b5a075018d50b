//! The pages that show nothing of the cluster: the description of the API, problems, and where somebody says who they are.

use super::frame::{PageFrame, PageSection};
use super::text::{ProseText, print};
use crate::api::{ApiEndpoint, ENDPOINTS, OPENAPI_PATH};
use crate::problem::{KINDS, ProblemDetails, RequestFault};
use crate::query_string;
use askama::Template;

#[derive(Template)]
#[template(path = "api.html")]
struct ApiPage {
    frame: PageFrame,
    openapi: &'static str,
    endpoints: &'static [ApiEndpoint],
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    frame: PageFrame,
    detail: Option<ProseText>,
    errors: Vec<RequestFault>,
    help: ProseText,
}

/// The page at `/api`.
pub fn api_page() -> String {
    print(&ApiPage {
        frame: PageFrame::fixed("API", Some(PageSection::Api)),
        openapi: OPENAPI_PATH,
        endpoints: ENDPOINTS,
    })
}

/// The page in place of one that there is not.
pub fn problem_page(problem: &ProblemDetails) -> String {
    print(&ProblemPage {
        frame: PageFrame::fixed(&problem.title, None),
        detail: problem.detail.as_deref().map(ProseText::new),
        errors: problem.errors.clone(),
        help: ProseText::new(problem.of.help()),
    })
}

/// The page that a kind of problem has for itself; `None` where there is no such kind.
pub fn problem_kind_page(slug: &str) -> Option<String> {
    let kind = KINDS.iter().find(|kind| kind.slug() == slug)?;
    Some(problem_page(&ProblemDetails::new(*kind)))
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    frame: PageFrame,
    fault: Option<&'a str>,
    audience: &'a str,
    provider: Option<SignInLink<'a>>,
    to: &'a str,
}

/// The link to where people sign in who have no token.
struct SignInLink<'a> {
    host: &'a str,
    href: String,
}

/// The page where people sign in. `to` is the address that it leads to, `audience` what a token has to be for, `provider` the
/// host where people sign in who have none, and `fault` what was wrong the last time.
pub fn sign_in_page(to: &str, audience: &str, provider: Option<&str>, fault: Option<&str>) -> String {
    let href = format!("/sign-in/start{}", query_string::format([("to", to.to_owned())]));
    let provider = provider.map(|host| SignInLink { host, href });
    print(&SignInPage { frame: PageFrame::fixed("Sign in", None), fault, audience, provider, to })
}

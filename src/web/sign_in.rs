//! The page where a token signs in, and out.

use super::answer::{self, HTML, WebRequest};
use super::drafts::{self, FORM_TYPES};
use super::oidc::{OidcAnswer, OidcProvider};
use super::sessions::{SessionProof, cookie_values};
use super::state::WebState;
use super::token_gate::TokenGate;
use crate::server::RefusalReason;
use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, Method, StatusCode, header};
use secrecy::{ExposeSecret as _, SecretString};
use stator_view::page::sign_in_page;
use stator_view::problem::ProblemDetails;
use std::sync::Arc;
use url::form_urlencoded;

/// Where one signs in.
pub(super) const SIGN_IN_PATH: &str = "/sign-in";
/// Where one signs out.
/// The most characters of a provider's reason that are shown.
const MAX_REASON: usize = 500;
pub(super) const SIGN_IN_START_PATH: &str = "/sign-in/start";
pub(super) const SIGN_IN_CALLBACK_PATH: &str = "/sign-in/callback";
pub(super) const SIGN_OUT_PATH: &str = "/sign-out";
/// The most bytes of what is sent: a token and where it leads, percent-encoded.
pub(super) const MAX_SIGN_IN_BYTES: usize = 64 << 10;

/// Answers at a path of signing in.
pub(super) async fn answer(
    state: &WebState,
    gate: &TokenGate,
    question: &WebRequest<'_>,
    host: &str,
    body: Body,
) -> Result<Response, ProblemDetails> {
    if *question.method != Method::POST {
        return Ok(page(gate, StatusCode::OK, "/", None));
    }
    // Nobody is signed in, or out, by another site.
    drafts::check_origin(question.headers, &gate.origins(host))?;
    if question.path == SIGN_OUT_PATH {
        return Ok(answer::redirect(SIGN_IN_PATH, Some(&gate.sign_out(question.headers))));
    }
    drafts::check_media_type(question.headers, &FORM_TYPES)?;
    let (body, _turn) = drafts::read_body(state, question, body, MAX_SIGN_IN_BYTES).await?;
    let body = SecretString::from(body);
    let field = |name: &str| {
        let mut pairs = form_urlencoded::parse(body.expose_secret().as_bytes());
        pairs.find(|(own, _)| own == name).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let to = own_address(&field("to")).unwrap_or("/").to_owned();
    match gate.sign_in(SecretString::from(field("token")), question.peer).await? {
        Some(cookie) => Ok(answer::redirect(&to, Some(&cookie))),
        None => Ok(page(gate, StatusCode::UNAUTHORIZED, &to, Some(&gate.refused_token()))),
    }
}

/// What somebody is answered who did not sign in: programs the problem, people the page, which leads back.
pub(super) fn required(gate: &TokenGate, question: &WebRequest<'_>, problem: ProblemDetails) -> Response {
    let mut response = if question.is_for_api() {
        answer::problem(question, &problem, "")
    } else {
        let asked = match question.query {
            "" => question.path.to_owned(),
            query => format!("{}?{query}", question.path),
        };
        let to = own_address(&asked).filter(|_| *question.method == Method::GET).unwrap_or("/");
        page(gate, StatusCode::UNAUTHORIZED, to, problem.detail.as_deref())
    };
    answer::insert(&mut response, header::WWW_AUTHENTICATE, "Bearer");
    response
}

fn page(gate: &TokenGate, status: StatusCode, to: &str, fault: Option<&str>) -> Response {
    let provider = gate.oidc().map(OidcProvider::host);
    answer::text(status, HTML, sign_in_page(to, gate.audience(), provider, fault))
}

/// Sends a browser to the provider.
pub(super) async fn start(gate: &TokenGate, question: &WebRequest<'_>) -> Response {
    let asked = parameter(question, "to").unwrap_or_default();
    let to = own_address(&asked).unwrap_or("/");
    let Some(provider) = gate.oidc() else { return page(gate, StatusCode::NOT_FOUND, to, None) };
    match provider.start(to).await {
        Ok(started) => answer::redirect(&started.address, Some(&gate.sign_in_cookie(&started.cookie))),
        Err(fault) => page(gate, StatusCode::BAD_GATEWAY, to, Some(&fault.to_string())),
    }
}

/// Signs in who comes back from the provider, and leads on to where they wanted to go.
pub(super) async fn finish(gate: &TokenGate, question: &WebRequest<'_>) -> Response {
    let Some(provider) = gate.oidc() else { return page(gate, StatusCode::NOT_FOUND, "/", None) };
    let error = [parameter(question, "error"), parameter(question, "error_description")];
    let answer = OidcAnswer {
        code: parameter(question, "code").unwrap_or_default(),
        state: parameter(question, "state").unwrap_or_default(),
        issuer: parameter(question, "iss"),
        error: error.into_iter().flatten().next_back().map(|text| text.chars().take(MAX_REASON).collect()),
    };
    let cookie = cookie_values(question.headers, gate.sign_in_cookie_name()).next().unwrap_or_default();
    let finished = provider.finish(cookie, &answer, question.peer).await;
    let mut response = match finished {
        Ok((user, to)) => {
            let name = user.name().to_owned();
            let session = gate.start_session(SessionProof::Person(Arc::new(user)), &name);
            answer::redirect(own_address(&to).unwrap_or("/"), session.as_deref())
        }
        Err(fault) => {
            let mut refused = page(gate, StatusCode::UNAUTHORIZED, "/", Some(&fault.to_string()));
            let reason = format!("a sign-in at the provider failed: {:?}", fault.to_string());
            refused.extensions_mut().insert(RefusalReason(reason));
            refused
        }
    };
    // A code is for once.
    if let Ok(over) = HeaderValue::from_str(&gate.sign_in_cookie("")) {
        response.headers_mut().append(header::SET_COOKIE, over);
    }
    response
}

/// The first value of a parameter of a query.
fn parameter(question: &WebRequest<'_>, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(question.query.as_bytes());
    pairs.find(|(own, _)| own == name).map(|(_, value)| value.into_owned())
}

/// An address, where it is one of these pages and leads nowhere else: browsers take `//host` and `/\\host` for another host.
pub(super) fn own_address(address: &str) -> Option<&str> {
    let is_own = address.starts_with('/') && !address.starts_with("//") && !address.starts_with(SIGN_OUT_PATH);
    let is_plain = |c: char| c.is_ascii_graphic() && c != '\\';
    (is_own && address.len() <= 2048 && address.chars().all(is_plain)).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::own_address;

    #[test]
    fn signing_in_leads_nowhere_else() {
        for own in ["/", "/models/prod/llama", "/?health=Failed&sort=-gpus", "/sources"] {
            assert_eq!(own_address(own), Some(own));
        }
        let far = [
            "",
            "https://evil.example.com/",
            "//evil.example.com",
            "/\\evil.example.com",
            "/a\nb",
            "/a\tb",
            "javascript:1",
        ];
        for far in far {
            assert_eq!(own_address(far), None, "{far}");
        }
    }
}

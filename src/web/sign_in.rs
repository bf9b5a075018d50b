//! The page where a token signs in, and out.

use super::answer::{self, HTML, WebRequest};
use super::drafts::{self, FORM_TYPES};
use super::state::WebState;
use super::token_gate::TokenGate;
use axum::body::Body;
use axum::response::Response;
use http::{Method, StatusCode, header};
use secrecy::{ExposeSecret as _, SecretString};
use stator_view::page::sign_in_page;
use stator_view::problem::ProblemDetails;
use url::form_urlencoded;

/// Where one signs in.
pub(super) const SIGN_IN_PATH: &str = "/sign-in";
/// Where one signs out.
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
    answer::text(status, HTML, sign_in_page(to, gate.audience(), fault))
}

/// An address, where it is one of these pages and leads nowhere else: browsers take `//host` and `/\\host` for another host.
fn own_address(address: &str) -> Option<&str> {
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

//! The page where somebody says who they are.

use super::frame::PageFrame;
use super::text::print;
use askama::Template;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    frame: PageFrame,
    fault: Option<&'a str>,
    audience: &'a str,
    to: &'a str,
}

/// The page where a token signs in. `to` is the address that it leads to, `audience` what the token has to be for, and `fault`
/// what was wrong with the last one.
pub fn sign_in_page(to: &str, audience: &str, fault: Option<&str>) -> String {
    print(&SignInPage { frame: PageFrame::fixed("Sign in", None), fault, audience, to })
}

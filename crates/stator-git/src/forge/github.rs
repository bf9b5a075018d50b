//! GitHub, in the cloud and on premises.
//!
//! Every shape that is read or written is held against GitHub's own description in the tests.

pub mod app;

use super::api::ForgeLimits;
use super::client::ForgeClient;
use super::github_family::GithubFamily;
use super::pages::{NextPage, PageStyle};

/// A repository at GitHub.
#[derive(Default)]
pub(super) struct Github;

impl GithubFamily for Github {
    const NAME: &'static str = "GitHub";
    const LIMITS: ForgeLimits = ForgeLimits { description: 140, comment: 65_536, html: true };
    /// A hundred of a page are the most that GitHub gives.
    const PAGES: PageStyle = PageStyle { size: ("per_page", 100), next: NextPage::Numbered };
    const COMMENT_PAGES: PageStyle = Self::PAGES;
    const OLDEST_FIRST: &'static [(&'static str, &'static str)] = &[("sort", "created"), ("direction", "asc")];

    fn prepare(client: ForgeClient) -> ForgeClient {
        with_api_version(client)
    }
}

/// With the version of GitHub's API that is meant.
fn with_api_version(client: ForgeClient) -> ForgeClient {
    client.with_header("x-github-api-version", "2022-11-28")
}

//! Gitea and Forgejo.

use super::api::ForgeLimits;
use super::github_family::GithubFamily;
use super::pages::{NextPage, PageStyle};

/// A repository at a Gitea or Forgejo server.
#[derive(Default)]
pub(super) struct Gitea;

impl GithubFamily for Gitea {
    const NAME: &'static str = "Gitea";
    /// No limit is documented for descriptions (they are shown on one line), nor for comments.
    const LIMITS: ForgeLimits = ForgeLimits { description: 255, comment: 65_536, html: true };
    /// Fifty of a page are the most that a server gives as it comes (`MAX_RESPONSE_ITEMS`). One may be set to give fewer.
    const PAGES: PageStyle = PageStyle { size: ("limit", 50), next: NextPage::NumberedToEmpty };
    const COMMENT_PAGES: PageStyle = PageStyle::UNPAGED;
    const OLDEST_FIRST: &'static [(&'static str, &'static str)] = &[("sort", "oldest")];
}

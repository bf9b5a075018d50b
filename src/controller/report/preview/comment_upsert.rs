//! One comment a pull request and source: found by its marker, edited in its place, and left alone when it says it all.

use super::PreviewRunner;
use super::trees::PullRequestReader;
use stator_cluster::cluster::Fence;
use stator_git::forge::{ForgeApi, ForgeError, PullRequestComment};
use stator_model::present::preview::{self, CommentMarker, PreviewComment, PreviewContent};

impl<F: ForgeApi + 'static, C: PullRequestReader> PreviewRunner<F, C> {
    /// Writes the comment's text where it is not there yet. Without `add`, only a comment that is there is edited. Nothing
    /// is written any more once another replica may have taken over: what it finds there it puts right itself.
    pub(super) async fn upsert_comment(&mut self, number: u64, body: &str, add: bool) -> Result<(), ForgeError> {
        let wanted = CommentMarker::parse(body);
        if let Some(comment) = self.known.get(&number).and_then(|known| known.comment.clone()) {
            if CommentMarker::parse(&comment.body) == wanted {
                return Ok(());
            }
            match self.edit_comment(number, &comment, body).await {
                // Somebody deleted it, or wrote it meanwhile: the host is asked again.
                Err(ForgeError::NotFound { .. } | ForgeError::Conflict { .. }) => {}
                done => return done,
            }
        }
        let scope = wanted.as_ref().map(|marker| marker.scope.clone());
        let own =
            |comment: &PullRequestComment| CommentMarker::parse(&comment.body).map(|marker| marker.scope) == scope;
        let mut ours = self.forge.list_own_comments(number).await?.into_iter().filter(own);
        match ours.next() {
            Some(first) => {
                if CommentMarker::parse(&first.body) == wanted {
                    self.remember_comment(number, first);
                } else {
                    self.edit_comment(number, &first, body).await?;
                }
            }
            None if add => {
                if !self.wait_until_writable().await {
                    return Ok(());
                }
                let comment = self.forge.create_comment(number, body).await?;
                // The host's own account of the text may differ (line ends, a mark at its end): ours is what is compared.
                self.remember_comment(number, PullRequestComment { body: body.to_owned(), ..comment });
            }
            None => {}
        }
        for double in ours {
            let moved = self.closing_comment("", PreviewContent::Superseded);
            if CommentMarker::parse(&double.body) != CommentMarker::parse(&moved) {
                if !self.wait_until_writable().await {
                    return Ok(());
                }
                self.forge.update_comment(number, &double, &moved).await?;
            }
        }
        Ok(())
    }

    async fn edit_comment(&mut self, number: u64, comment: &PullRequestComment, body: &str) -> Result<(), ForgeError> {
        if !self.wait_until_writable().await {
            return Ok(());
        }
        let edited = self.forge.update_comment(number, comment, body).await?;
        self.remember_comment(number, PullRequestComment { body: body.to_owned(), ..edited });
        Ok(())
    }

    /// Waits for a write that the host takes. False where it is not to be made any more: the process ends, or another
    /// replica may have taken over.
    async fn wait_until_writable(&self) -> bool {
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => false,
            () = self.budget.take() => self.settings.fence.as_ref().is_none_or(Fence::is_valid),
        }
    }

    /// Of the text only the marker is kept: there may be a thousand of them.
    fn remember_comment(&mut self, number: u64, comment: PullRequestComment) {
        let body = comment.body.lines().next().unwrap_or_default().to_owned();
        self.known.entry(number).or_default().comment = Some(PullRequestComment { body, ..comment });
    }

    /// What is left of a comment whose pull request is not previewed any more.
    pub(super) fn closing_comment(&self, head: &str, content: PreviewContent<'_>) -> String {
        let environment = self.environment();
        let preview = PreviewComment {
            scope: &self.settings.scope,
            environment: &environment,
            head,
            content,
            models: None,
            notes: &[],
            link: None,
        };
        preview::render_comment(&preview, self.comment_budget())
    }
}

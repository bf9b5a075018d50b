//! One comment a pull request and source: found by its marker, edited in its place, and left alone when it says it all.

use super::Previews;
use super::commits::Commits;
use stator_cluster::cluster::kube::Fence;
use stator_git::forge::{Comment, Forge, ForgeError};
use stator_model::present::preview::{self, Marker, Preview, Shown};

impl<F: Forge + 'static, C: Commits> Previews<F, C> {
    /// Writes the comment's text where it is not there yet. Without `add`, only a comment that is there is edited. Nothing
    /// is written any more once another replica may have taken over: what it finds there it puts right itself.
    pub(super) async fn upsert(&mut self, number: u64, body: &str, add: bool) -> Result<(), ForgeError> {
        let wanted = Marker::read(body);
        if let Some(comment) = self.known.get(&number).and_then(|known| known.comment.clone()) {
            if Marker::read(&comment.body) == wanted {
                return Ok(());
            }
            match self.edit(number, &comment, body).await {
                // Somebody deleted it, or wrote it meanwhile: the host is asked again.
                Err(ForgeError::NotFound { .. } | ForgeError::Conflict { .. }) => {}
                done => return done,
            }
        }
        let scope = wanted.as_ref().map(|marker| marker.scope.clone());
        let own = |comment: &Comment| Marker::read(&comment.body).map(|marker| marker.scope) == scope;
        let mut ours = self.forge.own_comments(number).await?.into_iter().filter(own);
        match ours.next() {
            Some(first) => {
                if Marker::read(&first.body) == wanted {
                    self.remember(number, first);
                } else {
                    self.edit(number, &first, body).await?;
                }
            }
            None if add => {
                self.budget.wait().await;
                if !self.may_write() {
                    return Ok(());
                }
                let comment = self.forge.add_comment(number, body).await?;
                // The host's own account of the text may differ (line ends, a mark at its end): ours is what is compared.
                self.remember(number, Comment { body: body.to_owned(), ..comment });
            }
            None => {}
        }
        for double in ours {
            let moved = self.moved();
            if Marker::read(&double.body) != Marker::read(&moved) {
                self.budget.wait().await;
                if !self.may_write() {
                    return Ok(());
                }
                self.forge.edit_comment(number, &double, &moved).await?;
            }
        }
        Ok(())
    }

    async fn edit(&mut self, number: u64, comment: &Comment, body: &str) -> Result<(), ForgeError> {
        self.budget.wait().await;
        if !self.may_write() {
            return Ok(());
        }
        let edited = self.forge.edit_comment(number, comment, body).await?;
        self.remember(number, Comment { body: body.to_owned(), ..edited });
        Ok(())
    }

    fn may_write(&self) -> bool {
        self.settings.fence.as_ref().is_none_or(Fence::holds)
    }

    /// Of the text only the marker is kept: there may be a thousand of them.
    fn remember(&mut self, number: u64, comment: Comment) {
        let body = comment.body.lines().next().unwrap_or_default().to_owned();
        self.known.entry(number).or_default().comment = Some(Comment { body, ..comment });
    }

    fn moved(&self) -> String {
        let environment = self.environment();
        let preview = Preview {
            scope: &self.settings.scope,
            environment: &environment,
            head: "",
            shown: Shown::Moved,
            models: None,
            notes: &[],
            link: None,
        };
        preview::comment(&preview, self.comment_budget())
    }
}

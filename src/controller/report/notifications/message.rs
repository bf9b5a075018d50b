//! The words of a notification, and the form that its receiver takes.

use crate::controller::sources::registry::source_events::SourceEvent;
use crate::controller::status_wording::{commit_label, prefix_commit};
use serde_json::json;
use stator_git::source::model_source::{NotificationEvent, NotificationKind};
use stator_git::source::transport::http::sanitize_text;
use stator_model::present::escape;

/// Characters of a message. Slack shows 3,000 of a text in one piece.
const MAX_MESSAGE_CHARS: usize = 2000;

/// One notification, whoever it goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationMessage {
    /// What it is called.
    pub event: NotificationEvent,
    /// In which environment it happened, where that is known.
    pub environment: Option<String>,
    /// What happened; its message is from a repository in parts.
    pub source_event: SourceEvent,
}

impl NotificationMessage {
    /// The body for a receiver, as JSON.
    pub fn body(&self, kind: NotificationKind) -> Vec<u8> {
        let body = match kind {
            NotificationKind::Slack => json!({
                "text": self.slack_text(),
                // Nothing in it is markup, and no address in it is fetched.
                "mrkdwn": false, "unfurl_links": false, "unfurl_media": false,
            }),
            NotificationKind::Webhook => json!({
                "apiVersion": "stator.dev/v1alpha1",
                "kind": "Notification",
                "event": self.event.as_str(),
                "reason": self.source_event.kind.as_str(),
                "source": {"namespace": self.source_event.source.namespace, "name": self.source_event.source.name},
                "environment": self.environment,
                "revision": self.source_event.revision,
                "message": self.sanitized_message(),
                "time": self.source_event.at.to_string(),
            }),
        };
        body.to_string().into_bytes()
    }

    fn sanitized_message(&self) -> String {
        sanitize_text(escape::line(&self.source_event.message).as_bytes(), MAX_MESSAGE_CHARS)
    }

    /// One line for people, in which nothing is markup or calls anybody.
    fn slack_text(&self) -> String {
        let environment = self.environment.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let SourceEvent { source, revision, .. } = &self.source_event;
        let at = revision.as_ref().map(|commit| format!(" at {}", commit_label(commit))).unwrap_or_default();
        let text = self.sanitized_message();
        // The commit is named before already.
        let text = match revision {
            Some(commit) => text.strip_prefix(&prefix_commit(commit, "")).unwrap_or(&text),
            None => &text,
        };
        escape_markup(&format!("{} {source}{environment}{at}: {text}", event_title(self.event)))
    }
}

/// As Slack wants text escaped; and an `@` is followed by a character of no width, since Mattermost reads mentions in plain
/// text.
fn escape_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '@' => out.push_str("@\u{200b}"),
            c => out.push(c),
        }
    }
    out
}

fn event_title(event: NotificationEvent) -> &'static str {
    match event {
        NotificationEvent::Synced => "Synced:",
        NotificationEvent::Failed => "Failed:",
        NotificationEvent::Recovered => "Recovered:",
        NotificationEvent::Held => "Held back:",
        NotificationEvent::Drifted => "Drifted:",
    }
}

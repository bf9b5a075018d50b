//! The words of a notification, and the form that its receiver takes.

use crate::controller::sources::SourceKey;
use crate::controller::verdicts::short;
use serde_json::json;
use stator_git::source::model_source::{NotificationEvent, NotificationKind};
use stator_git::source::transport::http::plain;
use stator_model::present::escape;

/// Characters of a message. Slack shows 3,000 of a text in one piece.
const LONGEST: usize = 2000;

/// One notification, whoever it goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What happened.
    pub event: NotificationEvent,
    /// The same, as events of the cluster have it: `HealthCheckFailed`.
    pub reason: &'static str,
    /// To which source.
    pub source: SourceKey,
    /// In which environment, where that is known.
    pub environment: Option<String>,
    /// Of which commit, where it is about one.
    pub revision: Option<String>,
    /// In a sentence, from a repository in parts.
    pub text: String,
    /// When.
    pub at: jiff::Timestamp,
}

impl Message {
    /// The body for a receiver, as JSON.
    pub fn body(&self, kind: NotificationKind) -> Vec<u8> {
        let body = match kind {
            NotificationKind::Slack => json!({
                "text": self.line(),
                // Nothing in it is markup, and no address in it is fetched.
                "mrkdwn": false, "unfurl_links": false, "unfurl_media": false,
            }),
            NotificationKind::Webhook => json!({
                "apiVersion": "stator.dev/v1alpha1",
                "kind": "Notification",
                "event": word(self.event),
                "reason": self.reason,
                "source": {"namespace": self.source.namespace, "name": self.source.name},
                "environment": self.environment,
                "revision": self.revision,
                "message": plain(escape::line(&self.text).as_bytes(), LONGEST),
                "time": self.at.to_string(),
            }),
        };
        body.to_string().into_bytes()
    }

    /// One line for people, in which nothing is markup or calls anybody.
    fn line(&self) -> String {
        let environment = self.environment.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let revision = self.revision.as_ref().map(|commit| format!(" at {}", short(commit))).unwrap_or_default();
        let text = plain(escape::line(&self.text).as_bytes(), LONGEST);
        // What happened to a commit begins with its name.
        let text = match &self.revision {
            Some(commit) => text.strip_prefix(&format!("{}: ", short(commit))).unwrap_or(&text),
            None => &text,
        };
        inert(&format!("{} {}{environment}{revision}: {text}", title(self.event), self.source))
    }
}

/// As Slack wants text escaped; and an `@` is followed by a character of no width, since Mattermost reads mentions in plain
/// text.
fn inert(text: &str) -> String {
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

/// As `spec.notifications` spells it.
pub fn word(event: NotificationEvent) -> &'static str {
    match event {
        NotificationEvent::Synced => "synced",
        NotificationEvent::Failed => "failed",
        NotificationEvent::Recovered => "recovered",
        NotificationEvent::Held => "held",
        NotificationEvent::Drifted => "drifted",
    }
}

fn title(event: NotificationEvent) -> &'static str {
    match event {
        NotificationEvent::Synced => "Synced:",
        NotificationEvent::Failed => "Failed:",
        NotificationEvent::Recovered => "Well again:",
        NotificationEvent::Held => "Held back:",
        NotificationEvent::Drifted => "Drifted:",
    }
}

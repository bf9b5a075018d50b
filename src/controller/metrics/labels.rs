//! What labels may say.

use stator_git::source::model_source::{ForgeKind, NotificationKind};

/// A word for each of a few cases, and all of them.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$said:meta])* $case:ident = $word:literal),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$said])* $case),*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$case),*];

            /// As labels have it.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$case => $word),*
                }
            }
        }
    };
}

words! {
    /// How a look at a repository ended.
    Look {
        /// Nothing moved.
        Same = "same",
        /// There is a newer commit.
        Moved = "moved",
        /// It failed.
        Failed = "failed",
    }
}

words! {
    /// How a sync ended.
    Ending {
        /// All is as git says, and healthy.
        Success = "success",
        /// The commit is at fault.
        Failure = "failure",
        /// stator, the cluster or the network is.
        Error = "error",
        /// A newer commit came, or the process ended.
        Cancelled = "cancelled",
    }
}

words! {
    /// What became of a delivery.
    Delivery {
        /// Taken as a hint.
        Accepted = "accepted",
        /// Genuine, and about nothing that is synced.
        Ignored = "ignored",
        /// Taken before.
        Duplicate = "duplicate",
        /// Not genuine.
        Refused = "refused",
        /// Too large, too slow, no JSON.
        Unreadable = "unreadable",
    }
}

words! {
    /// Work on a source's mirror.
    Operation {
        /// Asking for the refs.
        List = "list",
        /// Fetching a commit.
        Fetch = "fetch",
        /// Reading a commit's files, or its signature.
        Read = "read",
        /// Fetching and reading both sides of a pull request.
        Preview = "preview",
    }
}

words! {
    /// A part of an attempt.
    Stage {
        /// Reading a commit's files.
        Read = "read",
        /// Making desired objects of them.
        Render = "render",
        /// Reading what is live.
        Look = "look",
        /// Comparing both.
        Plan = "plan",
        /// Applying, and waiting for health.
        Sync = "sync",
    }
}

words! {
    /// What became of an object.
    Apply {
        /// Created or changed.
        Applied = "applied",
        /// Deleted.
        Deleted = "deleted",
        /// A call is tried again.
        Retried = "retried",
    }
}

words! {
    /// How a preview ended.
    Previewed {
        /// It was planned.
        Planned = "planned",
        /// The pull request cannot be planned.
        Faulty = "faulty",
        /// The git host or the repository could not be asked.
        Failed = "failed",
    }
}

words! {
    /// What became of a notification.
    Notified {
        /// Taken by whoever it is for.
        Sent = "sent",
        /// Refused for good.
        Refused = "refused",
        /// Not taken, however often it was tried.
        Failed = "failed",
        /// There was no room for it.
        Dropped = "dropped",
    }
}

words! {
    /// What GPUs a source's graphs ask for.
    Gpus {
        /// As they are.
        Live = "live",
        /// As git wants them.
        Desired = "desired",
        /// At most on the way there.
        Peak = "peak",
    }
}

words! {
    /// What waits.
    Queue {
        /// Commit statuses, for git hosts.
        Statuses = "statuses",
        /// Notifications.
        Notifications = "notifications",
    }
}

/// How something that either works or does not ended.
pub(super) fn result_label(well: bool) -> &'static str {
    if well { "success" } else { "failure" }
}

/// A host's word in paths and labels.
pub fn forge_label(forge: ForgeKind) -> &'static str {
    match forge {
        ForgeKind::Github => "github",
        ForgeKind::Gitlab => "gitlab",
        ForgeKind::Gitea => "gitea",
        ForgeKind::Bitbucket => "bitbucket",
        ForgeKind::Azure => "azure",
    }
}

/// The host of a word.
pub fn parse_forge_label(text: &str) -> Option<ForgeKind> {
    use ForgeKind::{Azure, Bitbucket, Gitea, Github, Gitlab};
    [Github, Gitlab, Gitea, Bitbucket, Azure].into_iter().find(|kind| forge_label(*kind) == text)
}

/// A receiver's word in labels.
pub(super) fn notification_label(kind: NotificationKind) -> &'static str {
    match kind {
        NotificationKind::Slack => "slack",
        NotificationKind::Webhook => "webhook",
    }
}

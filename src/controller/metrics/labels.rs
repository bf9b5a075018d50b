//! The values that labels of metrics may have.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Git hosts that have their own label value: a tenant creates sources, and with each a host, at any time.
const MAX_HOST_LABELS: usize = 200;
/// What all others are called.
pub(super) const OTHER_LABEL: &str = "other";

/// An enum of label values, with the text that each has in a scrape.
macro_rules! label_values {
    ($(#[$about:meta])* $name:ident { $($(#[$about_case:meta])* $case:ident = $word:literal),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$about_case])* $case),*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$case),*];

            /// The label value in a scrape.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$case => $word),*
                }
            }
        }
    };
}

label_values! {
    /// How a look at a repository ended.
    PollOutcome {
        /// Nothing moved.
        Same = "same",
        /// There is a newer commit.
        Moved = "moved",
        /// It failed.
        Failed = "failed",
    }
}

label_values! {
    /// What became of a delivery of a webhook.
    DeliveryOutcome {
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

label_values! {
    /// Work on a source's mirror.
    MirrorOperation {
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

label_values! {
    /// What became of a commit that may have ended the process before.
    TrialResult {
        /// It is tried, and nothing else meanwhile.
        Alone = "alone",
        /// It is not tried again.
        Refused = "refused",
    }
}

label_values! {
    /// A part of an attempt.
    SyncStage {
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

label_values! {
    /// What became of an object.
    ObjectWriteKind {
        /// Created or changed.
        Applied = "applied",
        /// Deleted.
        Deleted = "deleted",
        /// A call is tried again.
        Retried = "retried",
    }
}

label_values! {
    /// How a preview ended.
    PreviewOutcome {
        /// It was planned.
        Planned = "planned",
        /// The pull request cannot be planned.
        Faulty = "faulty",
        /// The git host or the repository could not be asked.
        Failed = "failed",
        /// It comes from a fork, or too many are open.
        LeftOut = "left-out",
    }
}

label_values! {
    /// What became of a notification.
    NotificationResult {
        /// Taken by whoever it is for.
        Sent = "sent",
        /// Refused for good.
        Refused = "refused",
        /// Not taken, however often it was tried.
        Failed = "failed",
        /// The queue was full.
        Dropped = "dropped",
    }
}

label_values! {
    /// What GPUs a source's graphs ask for.
    GpuCountKind {
        /// As they are.
        Live = "live",
        /// As git wants them.
        Desired = "desired",
        /// At most on the way there.
        Peak = "peak",
    }
}

label_values! {
    /// Which queue a length is of.
    QueueKind {
        /// Commit statuses, for git hosts.
        Statuses = "statuses",
        /// Notifications.
        Notifications = "notifications",
    }
}

/// The label value of something that either works or fails.
pub(super) fn result_label(well: bool) -> &'static str {
    if well { "success" } else { "failure" }
}

/// The git hosts that have a label value of their own.
#[derive(Debug, Default)]
pub(super) struct HostLabels(Mutex<BTreeSet<String>>);

impl HostLabels {
    /// The label value of a host: its name, or that of all others once there are too many.
    pub(super) fn label(&self, host: &str) -> String {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.contains(host) || (hosts.len() < MAX_HOST_LABELS && hosts.insert(host.to_owned())) {
            return host.to_owned();
        }
        OTHER_LABEL.to_owned()
    }
}

//! What people requested and did not get, in words.

use super::machine::RejectedRequest;
use crate::controller::sources::manual_requests::OUTSIDE_WINDOWS_ANNOTATION;
use crate::controller::status_wording::commit_label;
use std::fmt;

impl fmt::Display for RejectedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StaleApproval { approval, newest } => {
                let newest = commit_label(newest);
                write!(f, "the approval `{approval}` is for another commit and approves nothing of {newest}")
            }
            Self::StalePlanApproval { approval } => write!(
                f,
                "the approval `{approval}` is for another plan: the held changes differ now, and need a new approval"
            ),
            Self::TooFewApprovers { approval, given, needed } => write!(
                f,
                "the approval `{approval}` is by {given} of {needed} required approvers: another person must approve the same plan"
            ),
            Self::StaleWindowOverride { revision, newest } => {
                let (revision, newest) = (commit_label(revision), commit_label(newest));
                write!(f, "a sync outside the windows was requested for {revision}, but the newest commit is {newest}")
            }
            Self::SyncWhileSuspended => {
                f.write_str("a sync was requested, but the source is suspended: set `spec.suspend` to false")
            }
            Self::SyncWithoutWindow => write!(
                f,
                "a sync was requested, but no sync window is open: annotate the source with {OUTSIDE_WINDOWS_ANNOTATION}=<commit> to sync that commit anyway"
            ),
            Self::SyncWithoutPolicyWindow => write!(
                f,
                "a sync was requested, but the windows of a fleet policy are closed; {OUTSIDE_WINDOWS_ANNOTATION} does not open them"
            ),
        }
    }
}

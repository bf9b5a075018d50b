//! What policies say of a source as a whole: where it comes from and goes to, who signed it, and when it may sync.

use super::binding::{BoundPolicies, EarlierSource, KeyVerdict};
use super::compiled::CompiledFleetPolicy;
use super::rules;
use crate::present::pluralize;
use crate::windows::{SyncWindow, SyncWindowState, Window, evaluate_window_sets};
use jiff::Timestamp;
use stator_core::finding::{Finding, Location, Rule};

/// Windows of policies that let no sync in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedWindows {
    /// The first policy whose windows are closed.
    pub policy: String,
    /// When the windows of all policies let a sync in, or are to be asked again; `None` where they never do.
    pub opens: Option<Timestamp>,
}

/// Why a source is refused, and what to do.
struct Refusal {
    rule: Rule,
    message: String,
    help: &'static str,
}

impl Refusal {
    fn into_finding(self) -> Finding {
        Finding::error(self.rule, Location::file("stator.yaml"), self.message, self.help)
    }
}

impl BoundPolicies {
    /// What keeps the whole source from being synced.
    pub fn refusals(&self) -> Vec<Finding> {
        let mut refusals: Vec<Refusal> = self.unreadable().map(unreadable).collect();
        for policy in &self.policies {
            let of_policy = [
                self.refuse_destination(policy),
                self.refuse_repository(policy),
                self.refuse_signature(policy),
                self.refuse_rank(policy),
                self.refuse_size(policy),
            ];
            refusals.extend(of_policy.into_iter().flatten());
        }
        let windows = self.source.written_at.and_then(|now| self.refuse_windows(now));
        refusals.into_iter().map(Refusal::into_finding).chain(windows).collect()
    }

    /// What keeps anything from being written at `now`: a window.
    pub fn refuse_windows(&self, now: Timestamp) -> Option<Finding> {
        self.closed_windows(now).map(|one| closed(one).into_finding())
    }

    /// What the windows of the policies say at `now`: `None` where they let a sync in, or there are none.
    pub fn closed_windows(&self, now: Timestamp) -> Option<ClosedWindows> {
        let mut sets: Vec<Vec<SyncWindow>> = Vec::new();
        let mut first = None;
        for policy in self.policies.iter().filter(|policy| !policy.document.spec.windows.is_empty()) {
            let Some(windows) = policy.document.spec.windows.iter().map(Window::read).collect::<Option<Vec<_>>>()
            else {
                // Reading the policy refuses such windows. Should they ever come here, they let nothing in.
                return Some(ClosedWindows { policy: policy.name.clone(), opens: None });
            };
            if first.is_none() && evaluate_window_sets(&[&windows], now) != SyncWindowState::Open {
                first = Some(policy.name.clone());
            }
            sets.push(windows);
        }
        let policy = first?;
        let sets: Vec<&[SyncWindow]> = sets.iter().map(Vec::as_slice).collect();
        let opens = match evaluate_window_sets(&sets, now) {
            SyncWindowState::Open => Some(now),
            SyncWindowState::Closed(opens) => opens,
        };
        Some(ClosedWindows { policy, opens })
    }

    fn refuse_destination(&self, policy: &CompiledFleetPolicy) -> Option<Refusal> {
        let allowed = policy.destinations.as_ref().filter(|allowed| !allowed.is_match(&self.destination))?;
        let message = format!(
            "fleet policy `{}`: objects would be written to namespace `{}`; allowed: {}",
            policy.name,
            self.destination,
            allowed.describe()
        );
        let help =
            "Correct `namespace` of the environment in the root stator.yaml, or `targetNamespace` of the source.";
        Some(Refusal { rule: rules::DESTINATION, message, help })
    }

    fn refuse_repository(&self, policy: &CompiledFleetPolicy) -> Option<Refusal> {
        let allowed = policy.repositories.as_ref()?;
        let address = self.source.repository.as_deref();
        if address.is_some_and(|address| allowed.is_match(address)) {
            return None;
        }
        let found = address.map_or("a local folder".to_owned(), |at| format!("`{at}`"));
        let message =
            format!("fleet policy `{}`: the repository is {found}; allowed: {}", policy.name, allowed.describe());
        Some(Refusal { rule: rules::REPOSITORY, message, help: "Follow a repository that the policy allows." })
    }

    /// Keys that a source names for itself prove nothing: whoever configures it would sign for himself.
    fn refuse_signature(&self, policy: &CompiledFleetPolicy) -> Option<Refusal> {
        let signatures = policy.document.spec.signatures.as_ref().filter(|signatures| signatures.required)?;
        let rule = rules::SIGNATURE;
        if signatures.keys.is_empty() {
            let message =
                format!("fleet policy `{}`: signatures are required, but the policy names no keys", policy.name);
            let help = "Ask an administrator to add the public keys that may sign to `signatures.keys` of the policy; \
                        keys that a source names for itself do not count.";
            return Some(Refusal { rule, message, help });
        }
        let verdicts = self.source.signatures.as_ref()?;
        let reason = match verdicts.iter().find(|verdict| verdict.keys == signatures.keys) {
            Some(KeyVerdict { refusal: None, .. }) => return None,
            Some(KeyVerdict { refusal: Some(reason), .. }) => reason.as_str(),
            None => "its signature was not verified",
        };
        let message =
            format!("fleet policy `{}`: the commit is not signed by a key of the policy: {reason}", policy.name);
        let help = "Sign the commit with one of these keys (`git commit -S`) and push again, or ask an administrator \
                    to add the key to `signatures.keys` of the policy.";
        Some(Refusal { rule, message, help })
    }

    /// Of a commit that has more to read than a policy allows, nothing is applied, and nothing is pruned.
    fn refuse_size(&self, policy: &CompiledFleetPolicy) -> Option<Refusal> {
        let exceeded = policy.exceeded_sizes(self.source.size?);
        let message = format!("fleet policy `{}`: the commit has {}", policy.name, exceeded.first()?);
        let help = "Split the repository, or ask an administrator for more.";
        Some(Refusal { rule: rules::QUOTA, message, help })
    }

    /// Of too many sources of a namespace, those that were created last are refused.
    fn refuse_rank(&self, policy: &CompiledFleetPolicy) -> Option<Refusal> {
        let most = policy.document.spec.quotas.as_ref()?.sources?;
        let namespace = self.source.namespace.as_deref()?;
        // One that does not say where it syncs to may sync to wherever this one does.
        let binds = |one: &&EarlierSource| {
            policy.binds(namespace, Some(&one.name), one.destination.as_deref().unwrap_or(&self.destination))
        };
        let before = self.source.earlier.as_ref()?.iter().filter(binds).count();
        if u64::try_from(before).is_ok_and(|before| before < u64::from(most)) {
            return None;
        }
        let message = format!(
            "fleet policy `{}`: namespace `{namespace}` has {} before this one; allowed: at most {most}",
            policy.name,
            pluralize(before, "source", "sources")
        );
        let help = "Remove a source of the namespace, or ask an administrator for more.";
        Some(Refusal { rule: rules::QUOTA, message, help })
    }
}

fn unreadable(reason: &str) -> Refusal {
    let message = format!("the policies of the fleet cannot be read: {reason}");
    let help = "Ask an administrator to correct the policies; until then, nothing is written.";
    Refusal { rule: rules::UNREADABLE, message, help }
}

fn closed(closed: ClosedWindows) -> Refusal {
    let (opens, help) = match closed.opens {
        Some(opens) => (
            format!("the next one opens at {opens}"),
            "Wait until then, or ask an administrator to change `windows` of the policy.",
        ),
        None => ("none will open".to_owned(), "Ask an administrator to correct `windows` of the policy."),
    };
    let message = format!("fleet policy `{}`: no sync window of the policy is open; {opens}", closed.policy);
    Refusal { rule: rules::WINDOW, message, help }
}

#[cfg(test)]
mod tests;

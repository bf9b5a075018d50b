//! Who sends a request, and what they see.

use super::access::Visitor;
use super::state::WebState;
use super::token_gate::SignedInUser;
use stator_view::facts::SourceFacts;
use stator_view::observation::FleetObservation;
use stator_view::problem::{ProblemDetails, ProblemKind};
use stator_view::reader::{PROPOSE_RIGHT, RequiredRight};
use stator_view::source_action::SourceAction;

/// The newest observation, as far as whoever sends a request may see it.
#[derive(Clone, Debug)]
pub(super) struct RequestScope {
    pub(super) visitor: Visitor,
    pub(super) observation: FleetObservation,
}

impl RequestScope {
    /// For a request that may be about one model, of a namespace and a name.
    pub(super) async fn new(
        state: &WebState,
        visitor: Visitor,
        about: Option<(&str, &str)>,
    ) -> Result<Self, ProblemDetails> {
        let whole = state.board.observation();
        let observation = match &visitor {
            Visitor::LinkHolder => (*whole).clone(),
            Visitor::User(SignedInUser { user, has_token: _ }, gate) => {
                let mut seen = gate.shown_to(user, &whole).await?;
                if let Some(found) = about.and_then(|(namespace, name)| seen.model(namespace, name).ok()) {
                    seen.reader.details = gate.details(user, &found).await?;
                }
                seen
            }
        };
        Ok(Self { visitor, observation })
    }

    /// Whether whoever looks may list a resource of a namespace, named as rights name it.
    pub(super) async fn may_list(&self, resource: &str, namespace: &str) -> Result<bool, ProblemDetails> {
        let Visitor::User(SignedInUser { user, has_token: _ }, gate) = &self.visitor else { return Ok(true) };
        gate.may_list(user, resource, namespace).await
    }

    /// That whoever looks has a right in a namespace, for the object of a name or for all.
    pub(super) async fn check_right(
        &self,
        right: RequiredRight,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<(), ProblemDetails> {
        let Visitor::User(SignedInUser { user, has_token: _ }, gate) = &self.visitor else { return Ok(()) };
        if gate.may(user, right, Some(namespace), name).await? {
            return Ok(());
        }
        let RequiredRight { verb, resource, .. } = right;
        let detail = format!("You need the right to `{verb} {resource}` in namespace {namespace}.");
        Err(ProblemDetails::new(ProblemKind::Forbidden).with_detail(detail))
    }

    /// What whoever looks may ask of a source.
    pub(super) async fn allowed_actions(&self, source: &SourceFacts) -> Result<Vec<SourceAction>, ProblemDetails> {
        let Visitor::User(SignedInUser { user, has_token: _ }, gate) = &self.visitor else {
            return Ok(SourceAction::ALL.to_vec());
        };
        let mut allowed = Vec::new();
        for action in SourceAction::ALL {
            if gate.may_act(user, source, action).await? {
                allowed.push(action);
            }
        }
        Ok(allowed)
    }

    /// That whoever looks may ask this of a source.
    pub(super) async fn check_action(&self, source: &SourceFacts, action: SourceAction) -> Result<(), ProblemDetails> {
        let Visitor::User(SignedInUser { user, has_token: _ }, gate) = &self.visitor else { return Ok(()) };
        if gate.may_act(user, source, action).await? {
            return Ok(());
        }
        let RequiredRight { verb, group, resource } = action.right();
        Err(ProblemDetails::new(ProblemKind::Forbidden).with_detail(format!(
            "You need the right to `{verb} {resource}.{group}` in namespace {}, or for the source {}.",
            source.namespace, source.name
        )))
    }

    /// That a model of a source may be written in the form, and planned.
    ///
    /// # Errors
    /// Where it may not.
    pub(super) async fn check_propose(&self, source: &SourceFacts) -> Result<(), ProblemDetails> {
        if source.cluster.is_some() {
            let detail = "These pages show several clusters and read no repository: edit the model in its own.";
            return Err(ProblemDetails::new(ProblemKind::NotPossible).with_detail(detail));
        }
        let Visitor::User(SignedInUser { user, has_token: _ }, gate) = &self.visitor else { return Ok(()) };
        let namespace = source.models_namespace.as_deref();
        let sees_models = namespace.is_none_or(|namespace| self.observation.reader.models.contains(namespace));
        if sees_models && gate.may_propose(user, source).await? {
            return Ok(());
        }
        Err(ProblemDetails::new(ProblemKind::Forbidden).with_detail(format!(
            "To edit models of {}, you need the rights to list them and to `{} {}.{}` in namespace {}.",
            source.label(),
            PROPOSE_RIGHT.verb,
            PROPOSE_RIGHT.resource,
            PROPOSE_RIGHT.group,
            source.namespace
        )))
    }
}

//! What another release of Dynamo does to an environment of a repository.

use super::DesiredState;
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::release::Release;
use stator_core::object::{Object, ObjectIdentity};
use stator_model::fleet_policy::SourcePolicies;
use stator_model::intent::{ResolvedEnvironment, SourceTree, Workspace};
use stator_model::plan::UpgradeForesight;
use stator_model::upgrade::{RenderedSide, UpgradeQuestion, foresee};
use std::collections::BTreeMap;

/// An environment, as it can be rendered for any release.
pub struct UpgradedEnvironment<'a> {
    /// Its name.
    pub name: &'a str,
    /// The files of the repository.
    pub tree: &'a SourceTree,
    /// Selects it from these files, corrected or not; `None` where that cannot be.
    pub select: &'a dyn Fn(&Workspace) -> Option<ResolvedEnvironment>,
    /// What administrators allow.
    pub policies: &'a SourcePolicies,
    /// What the cluster has beside Dynamo.
    pub platform: &'a Platform,
    /// Which models are asked about, by their file.
    pub is_asked: &'a dyn Fn(&str) -> bool,
    /// Objects as the cluster has them, where it was asked.
    pub live: &'a BTreeMap<ObjectIdentity, Object>,
}

impl UpgradedEnvironment<'_> {
    /// What happens when `to` takes over from `from`.
    pub fn foresee(&self, from: Release, to: Release) -> UpgradeForesight {
        let render = |tree: &SourceTree, release: Release| {
            let Some(mut selection) = (self.select)(&Workspace::parse(tree)) else { return RenderedSide::default() };
            selection.environment.platform =
                Some(Platform { dynamo: Some(release), served: None, ..self.platform.clone() });
            let desired = DesiredState::render(selection, self.policies);
            RenderedSide { models: desired.rendered, broken: desired.selection.broken }
        };
        foresee(&UpgradeQuestion {
            environment: self.name,
            from,
            to,
            platform: self.platform,
            tree: self.tree,
            is_asked: self.is_asked,
            live: self.live,
            render: &render,
        })
    }
}

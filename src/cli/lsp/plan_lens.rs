//! What a change of a model would do, said above it: against the commit that is checked out, without a cluster.

use crate::cli::args::EnvironmentArgs;
use crate::cli::error::CliError;
use crate::cli::repository::OpenedRepository;
use crate::cli::revisions::plan_between;
use crate::cli::targets::TargetedModels;
use lsp_types::{CodeLens, Command, Range};
use stator_git::source::{self, RepositoryScope};
use stator_model::fleet_policy::FleetPolicies;
use stator_model::intent::Workspace;
use stator_model::present::plan::totals_text;
use std::path::PathBuf;

/// The commit that was read last: it is the same one for as long as nobody commits.
#[derive(Debug, Default)]
pub struct PlanLenses {
    base: Option<(PathBuf, String, Workspace)>,
}

impl PlanLenses {
    /// A line for each environment that has the model. None outside of git, where there is nothing to compare with.
    pub fn of_model(&mut self, opened: &OpenedRepository, file: &str, policies: FleetPolicies) -> Vec<CodeLens> {
        let Ok(Some((base_revision, base))) = self.base_of(opened) else { return Vec::new() };
        let policies = opened.held_to(policies);
        let scope = RepositoryScope::intent(file);
        let models = TargetedModels::of_scope(scope);
        let revision = opened.checkout.revision.clone();
        let mut lenses = Vec::new();
        for name in opened.workspace.environment_names() {
            let environment = EnvironmentArgs { environment: Some(name.clone()), ..EnvironmentArgs::default() };
            let head = (&opened.workspace, revision.as_str());
            let Ok(plan) = plan_between(&models, (base, base_revision), head, &environment, &policies) else {
                continue;
            };
            if plan.changes.is_empty() && plan.findings.is_empty() {
                continue;
            }
            let text = totals_text(&plan);
            let lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches('.')).collect();
            let command = Command { title: format!("{name}: {}", lines.join(" · ")), ..Command::default() };
            lenses.push(CodeLens { range: Range::default(), command: Some(command), data: None });
        }
        lenses
    }

    fn base_of(&mut self, opened: &OpenedRepository) -> Result<Option<(&str, &Workspace)>, CliError> {
        let root = &opened.checkout.root;
        let commit = opened.checkout.revision.trim_end_matches("-dirty");
        if commit.is_empty() {
            return Ok(None);
        }
        let is_known = self.base.as_ref().is_some_and(|(of, revision, _)| of == root && revision == commit);
        if !is_known {
            let (tree, _) = source::read_tree_at(root, commit)?;
            self.base = Some((root.clone(), commit.to_owned(), Workspace::parse(&tree)));
        }
        Ok(self.base.as_ref().map(|(_, revision, base)| (revision.as_str(), base)))
    }
}

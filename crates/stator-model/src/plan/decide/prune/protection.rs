//! Which models are left alone because git cannot say what it wants of them.

use crate::intent::{BrokenIntent, UnreadCause, UnreadPlace};
use crate::plan::context::PlanContext;
use crate::plan::reason::describe_unread;
use crate::plan::{KeptBy, PlanInput, rules};
use stator_core::finding::{Finding, Location};
use std::collections::{BTreeMap, BTreeSet};

/// Models whose objects are left alone because git cannot say what it wants of them.
pub(super) struct PruneProtection<'a> {
    /// Models that render with errors, and those that git no longer renders and a file with errors may declare.
    models: BTreeSet<&'a str>,
    /// Models that git no longer renders, with what is not read where they were.
    unread: BTreeMap<&'a str, &'a UnreadPlace>,
    /// A file with errors that does not say whose it is, or has a name that no record has: any model that git no longer renders
    /// may be its.
    nameless_source: Option<&'a str>,
}

impl<'a> PruneProtection<'a> {
    pub(super) fn new(context: &PlanContext<'a>) -> Self {
        let input = context.input;
        let faulty = input.rendered.iter().filter(|one| one.findings.iter().any(Finding::is_error));
        let mut models: BTreeSet<&str> = faulty.map(|one| one.model.as_str()).collect();
        let mut nameless_source = None;
        let claims = NameClaims::of(input);
        for broken in &input.broken {
            match claims.trusted_name(broken) {
                Some(name) => {
                    models.insert(name);
                    // Nobody has seen a model of this name: it may be any other under a new one.
                    if !context.records().contains_key(name) {
                        nameless_source = nameless_source.or(Some(broken.source.as_str()));
                    }
                }
                None => nameless_source = nameless_source.or(Some(broken.source.as_str())),
            }
            // The name in the file may be a new one of the model that is recorded there.
            let at = context.records().values().filter(|record| record.source == broken.source);
            models.extend(at.map(|record| record.model.as_str()).filter(|model| !context.renders(model)));
        }
        let gone = context.records().values().filter(|record| !context.renders(&record.model));
        let unread = gone
            .filter_map(|record| {
                let mut places = input.unread.iter();
                Some((record.model.as_str(), places.find(|place| place.may_hold(&record.model, &record.source))?))
            })
            .collect();
        Self { models, unread, nameless_source }
    }

    /// What protects a model. One that is rendered without errors needs no protection from anybody's file.
    pub(super) fn protecting_cause(&self, context: &PlanContext<'_>, model: &str) -> Option<KeptBy> {
        if self.models.contains(model) {
            return Some(KeptBy::ModelErrors);
        }
        if let Some(place) = self.unread.get(model) {
            return Some(KeptBy::UnreadPlace((*place).clone()));
        }
        let source = self.nameless_source.filter(|_| !context.renders(model))?;
        Some(KeptBy::UnreadableSource { source: source.to_owned() })
    }

    /// One error a model that may be somewhere that is not read.
    pub(super) fn unread_findings(&self, context: &PlanContext<'_>) -> Vec<Finding> {
        let asked_for = self.unread.iter().filter(|(model, _)| context.input.scope.covers(model));
        let ours = asked_for.filter(|(model, _)| context.other_folder_reason(model).is_none());
        ours.map(|(model, place)| unread_finding(model, place)).collect()
    }
}

/// The error that a model may be somewhere that is not read.
pub(in crate::plan) fn unread_finding(model: &str, place: &UnreadPlace) -> Finding {
    let help = match &place.cause {
        UnreadCause::Misnamed { meant, model: _ } => {
            format!("rename it to `{meant}`; to remove the model, delete the file")
        }
        UnreadCause::Submodule | UnreadCause::SymbolicLink => {
            "put the model's files there themselves; to remove the model, delete its folder, sync, and add this afterwards"
                .to_owned()
        }
    };
    let message = format!("model {model} is not pruned: {}", describe_unread(place));
    Finding::error(rules::UNREAD_SOURCE, Location::file(place.path.clone()), message, help)
}

/// Which folders say that a model is theirs. A name that two folders claim is a mistake in one of them, and then that
/// one's own name is unknown.
struct NameClaims<'a> {
    folders: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> NameClaims<'a> {
    fn of(input: &'a PlanInput) -> Self {
        let rendered = input.rendered.iter().map(|one| (one.model.as_str(), one.source.as_str()));
        let broken = input.broken.iter().filter_map(|one| Some((one.name.as_deref()?, one.source.as_str())));
        let mut folders: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (model, source) in rendered.chain(broken) {
            folders.entry(model).or_default().insert(folder_of(source));
        }
        Self { folders }
    }

    /// The name of a file's model, where nobody else claims it.
    fn trusted_name(&self, broken: &'a BrokenIntent) -> Option<&'a str> {
        broken.name.as_deref().filter(|name| self.folders.get(name).is_some_and(|folders| folders.len() == 1))
    }
}

/// The folder of a file, which holds one model's files.
fn folder_of(source: &str) -> &str {
    source.rsplit_once('/').map_or("", |(folder, _)| folder)
}

//! A policy made ready for judging many models.

use super::document::{FleetPolicy, FleetPolicySpec, PodException};
use super::patterns::CompiledPatterns;
use super::pod_security::{PodField, PodList, PodViolation};
use super::references::describe_size;
use crate::intent::TreeSize;
use crate::intent::policy::CompiledPolicy;
use stator_core::object::Quantity;
use std::collections::BTreeMap;
use strum::VariantArray as _;

/// A policy whose patterns and expressions are compiled.
#[derive(Debug)]
pub(super) struct CompiledFleetPolicy {
    pub(super) name: String,
    pub(super) document: FleetPolicy,
    pub(super) repositories: Option<CompiledPatterns>,
    pub(super) destinations: Option<CompiledPatterns>,
    pub(super) secrets: Option<CompiledPatterns>,
    pub(super) claim_size: Option<Quantity>,
    pub(super) claims_size: Option<Quantity>,
    pub(super) files_size: Option<Quantity>,
    pub(super) rules: CompiledPolicy,
    namespaces: CompiledPatterns,
    sources: CompiledPatterns,
    exceptions: Vec<(PodField, Option<CompiledPatterns>)>,
    lists: BTreeMap<PodList, CompiledPatterns>,
}

impl FleetPolicySpec {
    /// The patterns of a list, where it is there.
    pub(super) fn listed(&self, list: PodList) -> Option<Vec<&str>> {
        macro_rules! texts {
            ($list:expr) => {
                $list.as_ref().map(|list| list.iter().map(|one| one.as_str()).collect())
            };
        }
        let pods = &self.pods;
        match list {
            PodList::ServiceAccounts => texts!(self.service_accounts),
            PodList::Images => texts!(self.images.as_ref().and_then(|images| images.registries.as_ref())),
            PodList::Tolerations => texts!(pods.tolerations),
            PodList::PriorityClasses => texts!(pods.priority_classes),
            PodList::RuntimeClasses => texts!(pods.runtime_classes),
            PodList::Schedulers => texts!(pods.schedulers),
            PodList::Volumes => texts!(pods.volumes),
            PodList::Labels => texts!(pods.labels),
        }
    }
}

impl PodList {
    /// Whether a pattern means everything below a folder too.
    pub(super) fn means_folders(self) -> bool {
        match self {
            Self::Images => true,
            Self::ServiceAccounts
            | Self::Tolerations
            | Self::PriorityClasses
            | Self::RuntimeClasses
            | Self::Schedulers
            | Self::Volumes
            | Self::Labels => false,
        }
    }

    fn compile(self, patterns: &[&str]) -> CompiledPatterns {
        let patterns = patterns.iter().copied();
        if self.means_folders() {
            CompiledPatterns::of_addresses(patterns)
        } else {
            CompiledPatterns::of_names(patterns)
        }
    }
}

impl CompiledFleetPolicy {
    pub(super) fn new(document: FleetPolicy) -> Self {
        let spec = &document.spec;
        macro_rules! names {
            ($list:expr) => {
                $list.as_ref().map(|list| CompiledPatterns::of_names(list.iter().map(|one| one.as_str())))
            };
        }
        macro_rules! addresses {
            ($list:expr) => {
                $list.as_ref().map(|list| CompiledPatterns::of_addresses(list.iter().map(|one| one.as_str())))
            };
        }
        let scope = spec.applies_to.clone().unwrap_or_default();
        let size =
            |size: Option<&crate::intent::scalar::Quantity>| size.and_then(|size| Quantity::parse(size.as_str()));
        let quotas = spec.quotas.as_ref();
        let exception = |one: &PodException| {
            let values = one.values.as_ref();
            let values = values.map(|list| CompiledPatterns::of_addresses(list.iter().map(String::as_str)));
            (one.field, values)
        };
        Self {
            name: document.metadata.name.to_string(),
            repositories: addresses!(spec.repositories),
            destinations: names!(spec.destinations),
            secrets: names!(spec.secrets),
            claim_size: size(quotas.and_then(|quotas| quotas.claim_size.as_ref())),
            claims_size: size(quotas.and_then(|quotas| quotas.claims_size.as_ref())),
            files_size: size(quotas.and_then(|quotas| quotas.files_size.as_ref())),
            rules: CompiledPolicy::new(&spec.rules),
            namespaces: CompiledPatterns::of_names(scope.namespaces.iter().map(|one| one.as_str())),
            sources: CompiledPatterns::of_addresses(scope.sources.iter().map(|one| one.as_str())),
            exceptions: spec.pods.exceptions.iter().map(exception).collect(),
            lists: PodList::VARIANTS
                .iter()
                .filter_map(|list| Some((*list, list.compile(&spec.listed(*list)?))))
                .collect(),
            document,
        }
    }

    /// Whether the policy binds what is synced to a namespace, from a source in one. A source whose name is not known may
    /// be any of its namespace.
    pub(super) fn binds(&self, namespace: &str, name: Option<&str>, destination: &str) -> bool {
        let Some(scope) = &self.document.spec.applies_to else { return true };
        let by_namespace = [namespace, destination].iter().any(|namespace| self.namespaces.is_match(namespace));
        let by_source = match name {
            Some(name) => self.sources.is_match(&format!("{namespace}/{name}")),
            None => scope.sources.iter().any(|pattern| {
                let namespaces = pattern.as_str().split('/').next();
                CompiledPatterns::of_names(namespaces).is_match(namespace)
            }),
        };
        by_namespace || by_source
    }

    /// What of a commit is more than the policy lets stator read.
    pub(super) fn exceeded_sizes(&self, size: TreeSize) -> Vec<String> {
        let most = self.document.spec.quotas.as_ref().and_then(|quotas| quotas.files);
        let files = most.filter(|most| size.files > *most as usize).map(|most| {
            let files = crate::present::pluralize(size.files, "file", "files");
            format!("{files} to read; allowed: at most {most}")
        });
        let found = Quantity::parse(&size.bytes.to_string());
        let bytes = self
            .files_size
            .filter(|most| found.is_some_and(|found| found > *most))
            .map(|most| format!("{} bytes of files to read; allowed: at most {}", size.bytes, describe_size(most)));
        files.into_iter().chain(bytes).collect()
    }

    /// What pods may name of a list; nothing where the policy does not limit it.
    pub(super) fn allowed(&self, list: PodList) -> Option<&CompiledPatterns> {
        self.lists.get(&list)
    }

    /// Whether an exception covers what a level does not allow: all of its values.
    pub(super) fn excepts(&self, violation: &PodViolation) -> bool {
        self.exceptions.iter().filter(|(field, _)| *field == violation.field).any(|(_, values)| match values {
            None => true,
            Some(values) => {
                // A path that leads back out is not below what it begins with.
                let is_allowed = |value: &String| !value.split('/').any(|part| part == "..") && values.is_match(value);
                !violation.values.is_empty() && violation.values.iter().all(is_allowed)
            }
        })
    }
}

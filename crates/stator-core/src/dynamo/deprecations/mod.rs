//! What Dynamo is giving up: versions, kinds, fields, values, labels, variables and flags, with what takes their place and
//! the release that removes them.
//!
//! Source: the CRDs and release notes from 1.2 to 1.5, and for the fields of v1alpha1 the proposal that formalised the API
//! ("DEP: Kubernetes API Formalization"), which gives the releases of notice.

mod table;
mod usages;

pub use table::ALL;
pub use usages::{DeprecatedUsage, OLDEST_SUPPORTED_RELEASE, find_deprecated};

/// What is deprecated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeprecatedItem {
    /// A version of a kind.
    Version(&'static str, &'static str),
    /// A field of a kind, with `*` for names and `[]` for items.
    Field(&'static str, &'static str),
    /// A label.
    Label(&'static str),
    /// An annotation.
    Annotation(&'static str),
    /// An environment variable; one that ends with `_` stands for the family.
    Variable(&'static str),
    /// A flag of a Dynamo command.
    Flag(&'static str),
    /// A value of such a flag.
    FlagValue(&'static str, &'static str),
}

impl DeprecatedItem {
    /// The kind whose field it is.
    pub fn kind(self) -> Option<&'static str> {
        match self {
            Self::Field(kind, _) => Some(kind),
            Self::Version(..)
            | Self::Label(_)
            | Self::Annotation(_)
            | Self::Variable(_)
            | Self::Flag(_)
            | Self::FlagValue(..) => None,
        }
    }

    /// How a message names it.
    pub fn name(self) -> String {
        match self {
            Self::Version(kind, version) => format!("{kind} at {version}"),
            Self::Field(_, path) => format!("`{path}`"),
            Self::Label(name) => format!("the label `{name}`"),
            Self::Annotation(name) => format!("the annotation `{name}`"),
            Self::Variable(name) => format!("the variable `{name}{}`", if name.ends_with('_') { "…" } else { "" }),
            Self::Flag(name) => format!("the flag `{name}`"),
            Self::FlagValue(name, value) => format!("`{value}` of the flag `{name}`"),
        }
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deprecation {
    /// What.
    pub subject: DeprecatedItem,
    /// The release that deprecated it.
    pub since: &'static str,
    /// The release that removes it; `None` where none is announced.
    pub removed_in: Option<&'static str>,
    /// What to use instead, as a sentence.
    pub replacement: &'static str,
}

impl Deprecation {
    /// What is the matter, in a sentence.
    pub fn message(&self) -> String {
        let end = self
            .removed_in
            .map_or_else(|| "no release removes it yet".to_owned(), |release| format!("release {release} removes it"));
        format!("{} is deprecated since release {}; {end}", self.subject.name(), self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamo::release::Release;
    use serde_json::Value;

    fn shown(text: &str) -> String {
        let document: Value = serde_saphyr::from_str(text).unwrap();
        find_deprecated(&document, Release::V1_2)
            .into_iter()
            .map(|found| {
                format!("{}: {}. {}\n", found.path, found.deprecation.message(), found.deprecation.replacement)
            })
            .collect()
    }

    #[test]
    fn a_graph_of_yesterday_is_told_what_to_write_today() {
        insta::assert_snapshot!(shown(
            r"
            apiVersion: nvidia.com/v1alpha1
            kind: DynamoGraphDeployment
            metadata: {name: q}
            spec:
              pvcs: [{name: cache}]
              services:
                Worker:
                  autoscaling: {enabled: true}
                  dynamoNamespace: q
                  envs: [{name: DYN_KVBM_CPU_CACHE_GB, value: '4'}, {name: FINE, value: DYN_CONNECTOR}]
                  extraPodSpec:
                    mainContainer:
                      command: [sh, -c]
                      args: ['exec python3 -m dynamo.vllm --is-prefill-worker --disaggregation-mode=prefill_and_decode']
            "
        ), @r#"
    apiVersion: DynamoGraphDeployment at nvidia.com/v1alpha1 is deprecated since release 1.2; no release removes it yet. Write nvidia.com/v1beta1; `stator import` converts.
    spec.services.Worker.autoscaling: `spec.services.*.autoscaling` is deprecated since release 0.7; release 1.0 removes it. Switch a scaling adapter on (`scaling`) and scale that with an autoscaler or the planner.
    spec.services.Worker.dynamoNamespace: `spec.services.*.dynamoNamespace` is deprecated since release 0.8; release 1.0 removes it. Leave it out: the Dynamo namespace follows from the graph's namespace and name.
    spec.pvcs: `spec.pvcs` is deprecated since release 1.2; no release removes it yet. Write a PersistentVolumeClaim beside the graph (`cache`), and name it in a volume.
    spec.services.Worker.extraPodSpec.mainContainer.args[0]: the flag `--is-prefill-worker` is deprecated since release 1.2; release 1.4 removes it. Write `--disaggregation-mode prefill`.
    "#);
    }

    #[test]
    fn a_graph_of_today_is_told_nothing() {
        for manifest in ["vllm-disagg", "sglang-disagg", "trtllm-disagg", "mocker-agg"] {
            let path = format!(
                "{}/tests/data/dynamo/canonical/{manifest}.yaml",
                concat!(env!("CARGO_MANIFEST_DIR"), "/../..")
            );
            assert_eq!(shown(&fs_err::read_to_string(path).unwrap()), "", "{manifest}");
        }
    }

    #[test]
    fn what_a_later_release_deprecates_counts_from_that_release_on() {
        let graph = |version: &str| {
            format!(
                "{{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {{name: q}}, spec: {{components: [
                 {{name: w, experimental: {{checkpoint: {{identity: {{model: m}}}}}}, podTemplate: {{spec: {{containers: [
                 {{name: main, args: [--enforce-disagg], image: 'nvcr.io/nvidia/ai-dynamo/vllm-runtime:{version}'}}]}}}}}}]}}}}"
            )
        };
        let described = |version: &str, release: Release| -> Vec<String> {
            let document: Value = serde_saphyr::from_str(&graph(version)).unwrap();
            let found = find_deprecated(&document, release).into_iter();
            found.map(|found| found.deprecation.subject.name()).collect()
        };
        // The API is the operator's, and the command line the image's.
        assert_eq!(described("1.2.0", Release::V1_2), Vec::<String>::new());
        assert_eq!(described("latest", Release::V1_3), ["`spec.components[].experimental.checkpoint.identity`"]);
        assert_eq!(described("1.4.0-rc1", Release::V1_2), ["the flag `--enforce-disagg`"]);
    }

    #[test]
    fn the_table_has_no_line_twice() {
        let mut subjects: Vec<DeprecatedItem> = ALL.iter().map(|line| line.subject).collect();
        subjects.sort();
        subjects.dedup();
        assert_eq!(subjects.len(), ALL.len());
    }
}

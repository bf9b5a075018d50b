//! How long names may be: what the operator derives from them must fit Kubernetes' limits and Grove's.

/// The most characters of a label's value.
pub const MAX_LABEL: usize = 63;
/// What Grove leaves for the names that it puts together (admission of release 1.2 on clusters with Grove).
pub const MAX_GROVE: usize = 45;
/// The fewest characters that the operator leaves of a graph's name on Grove.
const MIN_GROVE_SET: usize = 8;
/// Characters of the hash that the operator puts behind a worker's name, with its hyphen.
const WORKER_HASH_LENGTH: usize = 9;
/// The most components of a graph (the CRD's `spec.components.maxItems`).
pub const MAX_COMPONENTS: usize = 25;

/// Characters of the name of what runs a component outside Grove: `<graph>-<component>`, and for workers their hash.
/// It is the value of the label by which its pods are found (`nvidia.com/selector`), so it must fit [`MAX_LABEL`].
pub fn workload_length(graph: &str, component: &str, worker: bool) -> usize {
    graph.len() + 1 + component.len() + if worker { WORKER_HASH_LENGTH } else { 0 }
}

/// How the operator names a graph on Grove, which puts pods' names together from graph, group and role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroveNameLength {
    /// Characters of the graph's name there: cut, and given a hash, when the longest component needs the space.
    pub length: usize,
    /// True when it is cut.
    pub truncated: bool,
}

impl GroveNameLength {
    /// Of a graph and its components: name, nodes of one replica where there are several, and whether its GPU memory is
    /// shared between pods. Source: `dynamo.PCSNameForDGD` of release 1.2.
    pub fn for_graph<'a>(graph: &str, components: impl IntoIterator<Item = (&'a str, Option<i64>, bool)>) -> Self {
        let longest =
            components.into_iter().map(|(name, nodes, shared)| Self::component_share(name, nodes, shared)).max();
        let available = MAX_GROVE.saturating_sub(longest.unwrap_or_default()).max(MIN_GROVE_SET);
        Self { length: graph.len().min(available), truncated: graph.len() > available }
    }

    /// What a component takes of [`MAX_GROVE`]: its name; on several nodes, and where GPU memory is shared between pods,
    /// the name of its group and of its longest role (`-ldr`, `-gms-0`, `-wkr-<rank>`).
    pub fn component_share(component: &str, nodes: Option<i64>, shared: bool) -> usize {
        let name = component.len();
        let rank = nodes.map_or(0, |nodes| nodes.saturating_sub(1).to_string().len());
        match (nodes.is_some(), shared) {
            (false, false) => name,
            (true, false) => 2 * name + "-ldr".len(),
            (false, true) => 2 * name + "-gms-0".len(),
            (true, true) => 2 * name + "-gms-0".len().max("-wkr-".len() + rank),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graphs_name_is_cut_to_what_its_longest_component_leaves() {
        let names = |graph: usize, component: usize, nodes: Option<i64>| {
            let component = "c".repeat(component);
            let names = GroveNameLength::for_graph(&"g".repeat(graph), [(component.as_str(), nodes, false)]);
            (names.length, names.truncated, names.length + GroveNameLength::component_share(&component, nodes, false))
        };
        assert_eq!(names(20, 8, None), (20, false, 28));
        assert_eq!(names(37, 8, None), (37, false, 45));
        assert_eq!(names(60, 8, None), (37, true, 45));
        assert_eq!(names(60, 37, None), (8, true, 45));
        assert_eq!(names(60, 38, None), (8, true, 46), "a component that long is refused");
        assert_eq!(names(60, 16, Some(2)), (9, true, 45));
        assert_eq!(names(60, 17, Some(2)), (8, true, 46));
    }
}

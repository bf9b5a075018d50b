//! How long names may be: what the operator derives from them must fit Kubernetes' limits and Grove's.

/// The most characters of a label's value, and of a service's name (`<graph>-<component>`).
pub const MAX_LABEL: usize = 63;
/// What Grove leaves for graph and component together (admission of release 1.2 on clusters with Grove).
pub const MAX_GROVE: usize = 45;
/// The most components of a graph (the CRD's `spec.components.maxItems`).
pub const MOST_COMPONENTS: usize = 25;

/// What a component takes of [`MAX_GROVE`], in characters: a pod is named after graph and component; one of several
/// nodes after its group, its role in the group (`ldr` is the longest), and its component.
pub fn grove_length(graph: &str, component: &str, multinode: bool) -> usize {
    if multinode { graph.len() + 2 * component.len() + "-ldr".len() } else { graph.len() + component.len() }
}

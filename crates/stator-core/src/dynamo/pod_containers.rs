//! The containers of pods, as somebody who wants to read their output sees them.

use super::health::pods::LABEL_COMPONENT;
use crate::object::{Object, ObjectRef};
use serde_json::Value;

/// The annotation by which a pod names the container that people mean ("kubectl.kubernetes.io/default-container" of the
/// well-known labels, annotations and taints of Kubernetes).
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// The container of a component that Dynamo's operator runs the engine in.
const MAIN_CONTAINER: &str = "main";

/// Which containers of a pod are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContainerSelection {
    /// The one that the pod names, else `main`, else the first.
    #[default]
    Default,
    /// The one of this name, in pods that have it.
    Named(String),
    /// All, init containers first.
    All,
}

/// One container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodContainer {
    /// The pod.
    pub pod: ObjectRef,
    /// The pod's uid: another pod may come by the same name.
    pub uid: String,
    /// The component that the pod is of; `None` for a Job's.
    pub component: Option<String>,
    /// The container's name.
    pub name: String,
    /// How often it was started again. The output of each start is a log of its own.
    pub restarts: u64,
    /// Whether it runs or has run, so that there is output to read.
    pub has_started: bool,
    /// Whether it runs now, so that more may come.
    pub is_running: bool,
    /// Why it has not started: the kubelet's word, such as `ImagePullBackOff`, or the phase of the pod.
    pub waits_for: String,
}

/// The containers of a pod that are meant, in the order of the pod's spec.
pub fn select_containers(pod: &Object, selection: &ContainerSelection) -> Vec<PodContainer> {
    let names = |list: &str| -> Vec<&str> {
        let containers = pod.spec().get(list).and_then(Value::as_array);
        containers.into_iter().flatten().filter_map(|one| one.get("name")?.as_str()).collect()
    };
    let (inits, mains) = (names("initContainers"), names("containers"));
    let chosen: Vec<&str> = match selection {
        ContainerSelection::All => inits.iter().chain(&mains).copied().collect(),
        ContainerSelection::Named(wanted) => {
            inits.iter().chain(&mains).copied().filter(|name| *name == wanted.as_str()).collect()
        }
        ContainerSelection::Default => {
            let annotated = pod.annotations().get(DEFAULT_CONTAINER).copied();
            let named = [annotated, Some(MAIN_CONTAINER)].into_iter().flatten().find(|name| mains.contains(name));
            named.or(mains.first().copied()).into_iter().collect()
        }
    };
    chosen.into_iter().map(|name| describe_container(pod, name)).collect()
}

fn describe_container(pod: &Object, name: &str) -> PodContainer {
    let lists = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
    let statuses = lists.iter().filter_map(|list| pod.status().get(list)?.as_array()).flatten();
    let status = statuses.into_iter().find(|status| status.get("name").and_then(Value::as_str) == Some(name));
    let at = |pointer: &str| status.and_then(|status| status.pointer(pointer));
    let has_started =
        ["/state/running", "/state/terminated", "/lastState/terminated"].iter().any(|path| at(path).is_some());
    let waits_for = at("/state/waiting/reason").and_then(Value::as_str).or_else(|| pod.str_at("/status/phase"));
    PodContainer {
        pod: pod.reference().clone(),
        uid: pod.uid().unwrap_or_default().to_owned(),
        component: pod.labels().get(LABEL_COMPONENT).map(|&component| component.to_owned()),
        name: name.to_owned(),
        restarts: at("/restartCount").and_then(Value::as_u64).unwrap_or_default(),
        has_started,
        is_running: at("/state/running").is_some(),
        waits_for: waits_for.unwrap_or("Pending").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(change: impl FnOnce(&mut Value)) -> Object {
        let mut value = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "chat-0", "namespace": "prod", "uid": "u-1", "labels": {"nvidia.com/dynamo-component": "worker"}},
            "spec": {
                "initContainers": [{"name": "wait"}],
                "containers": [{"name": "sidecar"}, {"name": "main"}],
            },
            "status": {"phase": "Pending", "containerStatuses": [
                {"name": "main", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                 "lastState": {"terminated": {"exitCode": 1}}},
                {"name": "sidecar", "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}},
            ]},
        });
        change(&mut value);
        Object::from_value(value).unwrap()
    }

    fn names(pod: &Object, selection: &ContainerSelection) -> Vec<String> {
        select_containers(pod, selection).into_iter().map(|one| one.name).collect()
    }

    #[test]
    fn the_container_that_is_meant_is_the_one_that_the_pod_names_or_main_or_the_first() {
        let default = ContainerSelection::Default;
        assert_eq!(names(&pod(|_| {}), &default), ["main"]);
        let annotated = pod(|pod| pod["metadata"]["annotations"] = json!({DEFAULT_CONTAINER: "sidecar"}));
        assert_eq!(names(&annotated, &default), ["sidecar"]);
        let wrong = pod(|pod| pod["metadata"]["annotations"] = json!({DEFAULT_CONTAINER: "gone"}));
        assert_eq!(names(&wrong, &default), ["main"]);
        let other = pod(|pod| pod["spec"]["containers"] = json!([{"name": "download"}, {"name": "b"}]));
        assert_eq!(names(&other, &default), ["download"]);
        assert_eq!(names(&pod(|_| {}), &ContainerSelection::All), ["wait", "sidecar", "main"]);
        assert_eq!(names(&pod(|_| {}), &ContainerSelection::Named("wait".to_owned())), ["wait"]);
        assert!(names(&pod(|_| {}), &ContainerSelection::Named("other".to_owned())).is_empty());
    }

    /// A container that crashed has output, though it waits.
    #[test]
    fn a_container_has_output_once_it_was_started() {
        let described: Vec<String> = select_containers(&pod(|_| {}), &ContainerSelection::All)
            .iter()
            .map(|one| format!("{} {} {} {}", one.name, one.restarts, one.has_started, one.waits_for))
            .collect();
        assert_eq!(
            described,
            ["wait 0 false Pending", "sidecar 0 false ImagePullBackOff", "main 3 true CrashLoopBackOff"]
        );
    }

    #[test]
    fn a_pod_of_any_shape_is_read() {
        let odd = pod(|pod| {
            pod["spec"] = json!({"containers": [7, {"name": 3}, {"name": "a"}], "initContainers": "none"});
            pod["status"] = json!({"containerStatuses": {"name": "a"}});
        });
        assert_eq!(names(&odd, &ContainerSelection::All), ["a"]);
    }
}

//! The level `baseline`: the table, held against a pod.

use super::table::{AllowedValue, CONTROLS, ControlledItems, PodControl, PodPlace};
use super::{PodJudge, items, present, value_at};
use serde_json::Value;
use stator_core::object::{FieldPath, PathSegment};

pub(super) fn judge(judge: &mut PodJudge<'_>) {
    for control in CONTROLS {
        for (base, owner) in judge.places(control.place) {
            judge_control(judge, control, &base, owner);
        }
    }
}

fn judge_control(judge: &mut PodJudge<'_>, control: &PodControl, base: &FieldPath, owner: &Value) {
    let Some(value) = value_at(owner, control.path) else {
        // A volume of the node without a path is one all the same.
        if let (AllowedValue::Nothing, [first, _]) = (control.allowed, control.path)
            && let Some(value) = present(owner.get(*first))
        {
            judge.forbid(control.field, base, &[first], value, control.expected);
        }
        return;
    };
    let path = || control.path.iter().fold(base.clone(), |path, name| path.field(*name));
    match control.items {
        ControlledItems::Whole if !control.allowed.allows(value) => {
            judge.forbid(control.field, base, control.path, value, control.expected);
        }
        ControlledItems::Whole => {}
        ControlledItems::Each => {
            for (segment, item) in items(Some(value)).filter(|(_, item)| !control.allowed.allows(item)) {
                judge.forbid(control.field, &path().join(segment), &[], item, control.expected);
            }
        }
        ControlledItems::FieldOfEach(field) => {
            for (segment, item) in items(Some(value)) {
                let found = match item.as_object() {
                    Some(map) => present(map.get(field)),
                    None => Some(item),
                };
                if let Some(found) = found.filter(|found| !control.allowed.allows(found)) {
                    let item_path = path().join(item_segment(item, segment));
                    judge.forbid(control.field, &item_path, &[field], found, control.expected);
                }
            }
        }
        ControlledItems::Keys => {
            for key in value.as_object().into_iter().flatten().map(|(key, _)| Value::from(key.as_str())) {
                if !control.allowed.allows(&key) {
                    judge.forbid(control.field, &path(), &[key.as_str().unwrap_or_default()], &key, control.expected);
                }
            }
        }
        ControlledItems::ValuesBelow(prefix) => {
            for (key, value) in value.as_object().into_iter().flatten() {
                if key.starts_with(prefix) && !control.allowed.allows(value) {
                    judge.forbid(control.field, &path(), &[key], value, control.expected);
                }
            }
        }
    }
}

/// Ports are keyed by number and protocol.
fn item_segment(item: &Value, position: PathSegment) -> PathSegment {
    use stator_core::object::KeyValue;
    let keys = ["containerPort", "protocol"].into_iter();
    let keyed = keys.map(|key| Some((key.to_owned(), KeyValue::new(item.get(key)?))));
    keyed.collect::<Option<_>>().map_or(position, PathSegment::Key)
}

impl AllowedValue {
    /// Whether a value that is there is allowed. What is no text is none of the words.
    fn allows(self, value: &Value) -> bool {
        let text = value.as_str();
        match self {
            // Whatever is not plainly `false` is taken for `true`.
            Self::False => *value == Value::Bool(false),
            Self::Zero => value.as_u64() == Some(0),
            Self::Nothing => false,
            Self::Word(words) => text.is_some_and(|text| words.contains(&text)),
            Self::WordOrBelow(words, prefix) => {
                text.is_some_and(|text| words.contains(&text) || text.starts_with(prefix))
            }
            Self::NotBelow(prefixes, except) => text
                .is_some_and(|text| !prefixes.iter().any(|prefix| text.starts_with(prefix)) || except.contains(&text)),
        }
    }
}

impl<'a> PodJudge<'a> {
    /// Every value of a pod that is a place, with its path.
    fn places(&self, place: PodPlace) -> Vec<(FieldPath, &'a Value)> {
        let pod = self.pod;
        match place {
            PodPlace::Pod => vec![(pod.path.clone(), pod.spec)],
            PodPlace::Contexts => self.security_contexts(),
            PodPlace::Containers => pod.containers.iter().map(|one| (one.path.clone(), one.value)).collect(),
            PodPlace::Volumes => pod.volumes(),
            PodPlace::Metadata => pod.metadata.iter().map(|(path, value)| (path.clone(), *value)).collect(),
        }
    }
}

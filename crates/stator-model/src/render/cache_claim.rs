//! The claim (PVC) that holds the weights, when the intent gives a size. Otherwise it must exist already.

use super::{ApplyStage, ObjectDraft, RenderContext, object_metadata};
use crate::intent::model::AccessMode;
use serde_json::json;
use stator_core::dynamo::kinds;

pub(super) fn draft_claim(context: &RenderContext<'_>) -> Option<ObjectDraft> {
    let cache = context.intent.model.spec.cache.as_ref()?;
    let size = cache.size.as_ref()?;
    // Pods of several nodes read the same weights.
    let mode = match cache.access_mode.unwrap_or(AccessMode::ReadWriteMany) {
        AccessMode::ReadWriteOnce => "ReadWriteOnce",
        AccessMode::ReadWriteMany => "ReadWriteMany",
        AccessMode::ReadOnlyMany => "ReadOnlyMany",
        AccessMode::ReadWriteOncePod => "ReadWriteOncePod",
    };
    let mut spec = json!({"accessModes": [mode], "resources": {"requests": {"storage": size.as_str()}}});
    if let (Some(class), Some(map)) = (&cache.storage_class, spec.as_object_mut()) {
        map.insert("storageClassName".to_owned(), class.as_str().into());
    }
    Some(ObjectDraft {
        kind: kinds::CLAIM,
        value: object_metadata::new_object(context, kinds::CLAIM, cache.claim.as_str(), spec, false),
        path: "spec.cache".to_owned(),
        stage: ApplyStage::Cache,
        prune: cache.prune.unwrap_or(false),
    })
}

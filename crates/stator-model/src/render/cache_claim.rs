//! The claims (PVC) that hold weights, when the intent gives a size. Otherwise they must exist already.

use super::{ApplyStage, ObjectDraft, RenderContext, object_metadata};
use crate::intent::model::AccessMode;
use crate::intent::scalar::{DnsName, Quantity};
use serde_json::json;
use stator_core::dynamo::kinds;

/// What a claim is rendered from.
struct ClaimFields<'a> {
    name: &'a DnsName,
    size: &'a Quantity,
    storage_class: Option<&'a DnsName>,
    access_mode: Option<AccessMode>,
    prune: Option<bool>,
    path: &'static str,
}

/// The claims of `cache` and of `weights`.
pub(super) fn draft_claims(context: &RenderContext<'_>) -> Vec<ObjectDraft> {
    let spec = &context.intent.model.spec;
    let cache = spec.cache.as_ref().and_then(|cache| {
        Some(ClaimFields {
            name: &cache.claim,
            size: cache.size.as_ref()?,
            storage_class: cache.storage_class.as_ref(),
            access_mode: cache.access_mode,
            prune: cache.prune,
            path: "spec.cache",
        })
    });
    let weights = spec.weights.as_ref().and_then(|weights| {
        let claim = weights.claim.as_ref()?;
        Some(ClaimFields {
            name: &claim.name,
            size: claim.size.as_ref()?,
            storage_class: claim.storage_class.as_ref(),
            access_mode: claim.access_mode,
            prune: claim.prune,
            path: "spec.weights.claim",
        })
    });
    cache.into_iter().chain(weights).map(|claim| draft_claim(context, &claim)).collect()
}

fn draft_claim(context: &RenderContext<'_>, claim: &ClaimFields<'_>) -> ObjectDraft {
    // Pods of several nodes read the same weights.
    let mode = match claim.access_mode.unwrap_or(AccessMode::ReadWriteMany) {
        AccessMode::ReadWriteOnce => "ReadWriteOnce",
        AccessMode::ReadWriteMany => "ReadWriteMany",
        AccessMode::ReadOnlyMany => "ReadOnlyMany",
        AccessMode::ReadWriteOncePod => "ReadWriteOncePod",
    };
    let mut spec = json!({"accessModes": [mode], "resources": {"requests": {"storage": claim.size.as_str()}}});
    if let (Some(class), Some(map)) = (claim.storage_class, spec.as_object_mut()) {
        map.insert("storageClassName".to_owned(), class.as_str().into());
    }
    ObjectDraft {
        kind: kinds::CLAIM,
        value: object_metadata::new_object(context, kinds::CLAIM, claim.name.as_str(), spec, false),
        path: claim.path.to_owned(),
        stage: ApplyStage::Cache,
        prune: claim.prune.unwrap_or(false),
    }
}

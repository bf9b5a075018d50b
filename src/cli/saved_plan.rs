//! `sync --plan FILE`: the plan that somebody looked at is the plan that is carried out.

use super::error::{CliError, CliErrorKind};
use serde::Deserialize;
use stator_model::plan::Plan;
use std::collections::BTreeMap;
use std::path::Path;

/// As much of a saved plan as is needed to compare it.
#[derive(Debug, Deserialize)]
struct SavedPlan {
    kind: String,
    digest: String,
    #[serde(default)]
    environment: String,
    #[serde(default)]
    changes: Vec<serde_json::Value>,
}

/// How many differences are named.
const MAX_LISTED_DIFFERENCES: usize = 20;

/// Refuses when the plan in the file and the plan of now would not do the same, saying what moved.
pub fn check_saved_plan(file: &Path, plan: &Plan) -> Result<(), CliError> {
    let text = fs_err::read_to_string(file)?;
    let saved: SavedPlan =
        serde_json::from_str(&text).ok().filter(|saved: &SavedPlan| saved.kind == "Plan").ok_or_else(|| {
            CliError::input(format!("{} is not a saved plan", file.display()))
                .with_hint("write one with `stator plan -o json > plan.json`")
        })?;
    if saved.digest == plan.digest {
        return Ok(());
    }
    let mut lines = if saved.environment == plan.environment {
        describe_differences(&saved, plan)?
    } else {
        vec![format!("it is for environment `{}`, not `{}`", saved.environment, plan.environment)]
    };
    if lines.is_empty() {
        lines.push("the content to write differs, although the same fields change".to_owned());
    }
    let rest = lines.len().saturating_sub(MAX_LISTED_DIFFERENCES);
    lines.truncate(MAX_LISTED_DIFFERENCES);
    if rest > 0 {
        lines.push(format!("and {rest} more"));
    }
    Err(CliError::new(
        CliErrorKind::Refused,
        format!("the plan in {} is out of date:\n  {}", file.display(), lines.join("\n  ")),
    )
    .with_hint("plan again, review the new plan, and sync that one"))
}

/// What differs, one line an object.
fn describe_differences(saved: &SavedPlan, plan: &Plan) -> Result<Vec<String>, CliError> {
    let now = serde_json::to_value(&plan.changes)?;
    let before = by_object(&saved.changes);
    let after = by_object(now.as_array().map(Vec::as_slice).unwrap_or_default());
    let mut lines = Vec::new();
    for (object, old) in &before {
        match after.get(object) {
            None => lines.push(format!("{object}: was {}, is no longer part of the plan", action(old))),
            Some(new) if action(old) != action(new) => {
                lines.push(format!("{object}: was {}, is {}", action(old), action(new)))
            }
            Some(new) if old.get("fields") != new.get("fields") => lines.push(format!("{object}: other fields change")),
            Some(_) => {}
        }
    }
    lines.extend(
        after
            .iter()
            .filter(|(object, _)| !before.contains_key(*object))
            .map(|(object, new)| format!("{object}: new, {}", action(new))),
    );
    Ok(lines)
}

fn by_object(changes: &[serde_json::Value]) -> BTreeMap<String, &serde_json::Value> {
    changes
        .iter()
        .map(|change| {
            let part = |pointer: &str| change.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or("?");
            (format!("{} {}/{}", part("/object/kind"), part("/object/namespace"), part("/object/name")), change)
        })
        .collect()
}

fn action(change: &serde_json::Value) -> &str {
    change.get("action").and_then(serde_json::Value::as_str).unwrap_or("?")
}

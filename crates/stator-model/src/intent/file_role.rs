//! What a file of a repository is to stator, by its name.

/// What a file is, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRole {
    /// `stator.yaml`: settings of the repository or of a folder.
    Settings,
    /// `model.yaml`.
    Intent,
    /// `model.<environment>.yaml`: an overlay for that environment.
    Overlay(String),
    /// `model.lock.yaml` or `model.<environment>.lock.yaml`: a lock, for all environments or for one.
    Lock(Option<String>),
    /// Nearly one of these names, such as `model.yml`: read only to see whether it was meant to be one.
    Misnamed {
        /// The name that it would need.
        meant: String,
    },
    /// Anything else, which is not read.
    Other,
}

impl FileRole {
    /// The role of a file of this name, without its folder.
    pub fn of_name(name: &str) -> Self {
        match name {
            "stator.yaml" => return Self::Settings,
            "model.yaml" => return Self::Intent,
            _ => {}
        }
        let middle = name.strip_prefix("model.").and_then(|rest| rest.strip_suffix(".yaml"));
        match middle {
            Some("lock") => Self::Lock(None),
            Some(middle) if !middle.is_empty() => match middle.strip_suffix(".lock") {
                Some(environment) => Self::Lock(Some(environment.to_owned())),
                None => Self::Overlay(middle.to_owned()),
            },
            Some(_) | None => meant_name(name).map_or(Self::Other, |meant| Self::Misnamed { meant }),
        }
    }
}

/// The name that a file should have whose name is nearly one of ours: other case, `.yml`, or `model-prod.yaml`.
fn meant_name(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let stem = lower.strip_suffix(".yaml").or_else(|| lower.strip_suffix(".yml"))?;
    match stem {
        "model" | "stator" => return Some(format!("{stem}.yaml")),
        _ => {}
    }
    let rest = stem.strip_prefix("model")?;
    let environment = rest.strip_prefix(['.', '-', '_']).filter(|rest| !rest.is_empty())?;
    Some(format!("model.{environment}.yaml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row C8 of the review: names that are nearly right.
    #[test]
    fn a_name_that_is_nearly_right_says_which_one_was_meant() {
        for (name, meant) in [
            ("Model.yaml", "model.yaml"),
            ("model.yml", "model.yaml"),
            ("MODEL.YAML", "model.yaml"),
            ("stator.yml", "stator.yaml"),
            ("Stator.yaml", "stator.yaml"),
            ("model-prod.yaml", "model.prod.yaml"),
            ("model_prod.yml", "model.prod.yaml"),
            ("model.prod.yml", "model.prod.yaml"),
            ("Model.prod.yaml", "model.prod.yaml"),
        ] {
            assert_eq!(FileRole::of_name(name), FileRole::Misnamed { meant: meant.to_owned() }, "{name}");
        }
        for name in
            ["model", "model.json", "models.yaml", "a.yaml", "my-model.yaml", "model-.yaml", "model..yaml", ".yaml"]
        {
            assert_eq!(FileRole::of_name(name), FileRole::Other, "{name}");
        }
    }
}

//! Links to other tools, whose addresses name a model.

use std::str::FromStr;
use url::Url;

/// What a template may name of a model.
const PLACEHOLDERS: [&str; 4] = ["{namespace}", "{name}", "{environment}", "{source}"];

/// A link of every model's page to another tool, such as a dashboard of Grafana.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTemplate {
    /// What is there.
    pub title: String,
    url: String,
}

impl LinkTemplate {
    /// The address, with values in the order of [`PLACEHOLDERS`] that are safe in any part of it.
    pub(crate) fn filled(&self, values: [&str; 4]) -> String {
        PLACEHOLDERS.iter().zip(values).fold(self.url.clone(), |url, (name, value)| url.replace(name, value))
    }
}

impl FromStr for LinkTemplate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (title, url) = text
            .split_once('=')
            .ok_or("write TITLE=URL, such as Grafana=https://grafana.example.com/d/1?var-model={name}")?;
        if title.trim().is_empty() {
            return Err("the title before the `=` is empty".to_owned());
        }
        let filled = PLACEHOLDERS.iter().fold(url.to_owned(), |url, one| url.replace(one, "x"));
        if filled.contains(['{', '}']) {
            return Err(format!("use only {} in the URL", PLACEHOLDERS.join(", ")));
        }
        let parsed = Url::parse(&filled).map_err(|error| format!("it is not a URL: {error}"))?;
        // A name of a model never says which host is opened.
        let is_plain = parsed.username().is_empty() && parsed.password().is_none();
        let host = url.split('/').nth(2).unwrap_or_default();
        match parsed.scheme() {
            "https" | "http" if is_plain && !host.contains('{') => {
                Ok(Self { title: title.trim().to_owned(), url: url.to_owned() })
            }
            "https" | "http" => Err("write a host without a user, a password or a placeholder".to_owned()),
            _ => Err("it must begin with https:// or http://".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_never_chooses_the_host() {
        for (text, why) in [
            ("Grafana", "write TITLE=URL"),
            ("=https://a.example", "the title"),
            ("a=javascript:alert(1)", "it must begin with"),
            ("a=https://{name}.example.com/", "placeholder"),
            ("a=https://u:p@example.com/", "without a user"),
            ("a=https://example.com/{model}", "use only {namespace}"),
            ("a=nothing", "not a URL"),
        ] {
            let refused = text.parse::<LinkTemplate>().unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}

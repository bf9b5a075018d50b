//! What containers of a model write: what is asked, and the last lines.

use crate::models::query::{MAX_VALUE_LENGTH, fault, flag_word, one_of};
use crate::problem::{ProblemDetails, RequestFault};
use crate::query_string;
use stator_core::finding::did_you_mean;

/// Lines where nobody says how many.
pub const DEFAULT_LINES: u64 = 200;
/// The most lines.
pub const MAX_LINES: u64 = 5000;
/// The parameters, as they are written.
pub(crate) const PARAMETERS: [&str; 6] = ["pod", "container", "lines", "previous", "timestamps", "follow"];

/// Which lines of which container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuery {
    /// The pod; the first of the model without.
    pub pod: Option<String>,
    /// The container; without, the one that the pod means.
    pub container: Option<String>,
    /// How many of the last lines.
    pub lines: u64,
    /// Whether of the container before its last restart.
    pub previous: bool,
    /// Whether each line begins with its time.
    pub timestamps: bool,
    /// Whether lines that come later follow.
    pub follow: bool,
}

impl Default for LogQuery {
    fn default() -> Self {
        let (pod, container) = (None, None);
        Self { pod, container, lines: DEFAULT_LINES, previous: false, timestamps: false, follow: false }
    }
}

impl LogQuery {
    /// Reads a query string without its `?`.
    ///
    /// # Errors
    /// Every parameter that is unknown or has a value that is not allowed, all at once.
    pub fn parse(text: &str) -> Result<Self, ProblemDetails> {
        let (mut query, mut errors) = (Self::default(), Vec::new());
        for (name, value) in query_string::parse(text).take(2 * PARAMETERS.len()) {
            errors.extend(query.take(&name, value).err().map(|error| *error));
        }
        if errors.is_empty() { Ok(query) } else { Err(ProblemDetails::of_parameters(errors)) }
    }

    fn take(&mut self, name: &str, value: String) -> Result<(), Box<RequestFault>> {
        let flag = || one_of(name, &value, &[true, false], flag_word);
        if value.chars().count() > MAX_VALUE_LENGTH {
            let detail = format!("a value has at most {MAX_VALUE_LENGTH} characters");
            return Err(fault(name, detail, &[], None).into());
        }
        match name {
            "pod" => self.pod = Some(value),
            "container" => self.container = Some(value),
            "lines" => {
                let lines = value.parse().ok().filter(|lines| (1..=MAX_LINES).contains(lines));
                let detail = || format!("`lines` is `{value}`; use a number from 1 to {MAX_LINES}");
                self.lines = lines.ok_or_else(|| fault(name, detail(), &[], None))?;
            }
            "previous" => self.previous = flag()?,
            "timestamps" => self.timestamps = flag()?,
            "follow" => self.follow = flag()?,
            other => {
                let help = did_you_mean(other, PARAMETERS);
                return Err(fault(other, format!("there is no parameter `{other}`"), &PARAMETERS, help).into());
            }
        }
        Ok(())
    }

    /// The address of the same lines at a path.
    pub fn address(&self, path: &str) -> String {
        let Self { pod, container, lines, previous, timestamps, follow } = self;
        let mut list: Vec<(&'static str, String)> = Vec::new();
        list.extend(pod.iter().map(|pod| ("pod", pod.clone())));
        list.extend(container.iter().map(|container| ("container", container.clone())));
        if *lines != DEFAULT_LINES {
            list.push(("lines", lines.to_string()));
        }
        let flags = [("previous", previous), ("timestamps", timestamps), ("follow", follow)];
        list.extend(flags.into_iter().filter(|(_, is_set)| **is_set).map(|(name, _)| (name, "true".to_owned())));
        format!("{path}{}", query_string::format(list))
    }
}

/// The last lines of a container, with the other containers of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLogView {
    /// Which these are.
    pub query: LogQuery,
    /// Every container of the model's pods.
    pub containers: Vec<LogContainer>,
    /// The lines, each with its time before it.
    pub lines: Vec<String>,
    /// Why there are none, or not all.
    pub note: Option<String>,
}

/// A container that may be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogContainer {
    /// Its pod.
    pub pod: String,
    /// Its name.
    pub name: String,
    /// How often it was restarted.
    pub restarts: u64,
    /// What it does: `Running`, or the reason why not.
    pub state: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_fault_of_a_query_is_told() {
        let refused = LogQuery::parse("pod=a&lines=0&follow=yes&contaner=b").unwrap_err();
        let faults: Vec<String> =
            refused.errors.iter().map(|one| format!("{} {} {:?}", one.pointer, one.detail, one.help)).collect();
        insta::assert_snapshot!(faults.join("\n"), @r#"
        #/query/lines `lines` is `0`; use a number from 1 to 5000 None
        #/query/follow `follow` is `yes` None
        #/query/contaner there is no parameter `contaner` Some("did you mean `container`?")
        "#);
    }

    proptest! {
        #[test]
        fn an_address_is_read_back(
            pod in proptest::option::of("[ -~]{1,12}"),
            container in proptest::option::of("[ -~]{1,12}"),
            lines in 1..=MAX_LINES,
            previous: bool,
            timestamps: bool,
            follow: bool,
        ) {
            let query = LogQuery { pod, container, lines, previous, timestamps, follow };
            let address = query.address("/logs");
            let text = address.trim_start_matches("/logs").trim_start_matches('?');
            prop_assert_eq!(LogQuery::parse(text).unwrap(), query);
        }
    }
}

//! Tokens and other secrets in files of the repository: whoever may read the repository has them.

use super::rules;
use stator_core::finding::{Finding, Location};
use stator_core::mask::{self, redact_source_line, star_tokens};

/// A warning about each token of a known form in a file. None quotes it.
pub(super) fn token_findings(path: &str, bytes: &[u8]) -> Vec<Finding> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Vec::new() };
    let tokens = mask::find_tokens(text).into_iter();
    tokens.filter_map(|token| Some(token_finding(locate(path, text, token.range)?, token.what))).collect()
}

/// The place of a token; of one in several lines, the first.
fn locate(path: &str, text: &str, token: std::ops::Range<usize>) -> Option<Location> {
    let before = text.get(..token.start)?;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let first_line = text.get(token)?.lines().next()?;
    Some(Location {
        file: path.to_owned(),
        line: count(before.matches('\n').count()).saturating_add(1),
        column: count(before.chars().rev().take_while(|c| *c != '\n').count()).saturating_add(1),
        length: count(first_line.chars().count()).max(1),
    })
}

fn token_finding(location: Location, what: &str) -> Finding {
    Finding::warning(
        rules::SECRET_IN_GIT,
        location,
        format!("{what} is in plain text in git"),
        "Revoke it: it stays in the history. Put the new one into a Secret, and name that under `env`: `NAME: {secret: SECRET, key: KEY}`.",
    )
}

/// A warning about each token in a file, and about the first other line that looks like a secret.
pub(super) fn secrets_of_file(path: &str, bytes: &[u8]) -> Vec<Finding> {
    token_findings(path, bytes).into_iter().chain(first_secret(path, bytes)).collect()
}

fn first_secret(path: &str, bytes: &[u8]) -> Option<Finding> {
    let (number, column) = secret_line(std::str::from_utf8(bytes).ok()?)?;
    Some(secret_finding(Location {
        file: path.to_owned(),
        line: u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1),
        column: u32::try_from(column).unwrap_or(0).saturating_add(1),
        length: 1,
    }))
}

/// How many lines are before the first that looks like a secret, and how many blanks are at its begin. A token of a known
/// form is reported on its own.
pub(super) fn secret_line(text: &str) -> Option<(usize, usize)> {
    let starred = star_tokens(text);
    let (number, line) = starred.lines().enumerate().find(|(_, line)| redact_source_line(line) != *line)?;
    Some((number, line.chars().take_while(|c| c.is_whitespace()).count()))
}

pub(super) fn secret_finding(location: Location) -> Finding {
    Finding::warning(
        rules::MODEL_FILE_SECRET,
        location,
        "this looks like a secret in plain text in git, and becomes part of a ConfigMap",
        "Put it into a Secret, and give it to the pods as a variable under `env`.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_is_reported_at_its_place_and_not_quoted() {
        // In two pieces: a git host refuses a file with a whole one.
        let first = ["gh", "p_9aQ2mZxW7LkP0vRtY4bNc6HdJs8UfE1gTiKo"].concat();
        let second = ["nv", "api-9aQ2mZxW7LkP0vRtY4bNc6HdJs8UfE1gTiKo"].concat();
        let text = format!("a: 1\nb: é {first}  # and {second}\n");
        let found = token_findings("m/model.yaml", text.as_bytes());
        let places: Vec<(u32, u32, u32)> =
            found.iter().map(|one| (one.location.line, one.location.column, one.location.length)).collect();
        assert_eq!(places, [(2, 6, 40), (2, 54, 42)]);
        assert_eq!(found[0].message, "a GitHub token is in plain text in git");
        assert!(found.iter().all(|one| !one.is_error() && !one.message.contains(&first) && !one.help.contains(&first)));
    }
}

//! Text from outside, made fit for a message.

use crate::mask;

/// The most that a text may be, with the ellipsis that marks a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextLimit {
    /// Unicode scalar values, as Kubernetes counts `maxLength`.
    Characters(usize),
    /// UTF-16 code units. Git hosts count characters in one way or another, and no way counts more than this one.
    Utf16Units(usize),
}

impl TextLimit {
    fn size(self) -> usize {
        match self {
            Self::Characters(size) | Self::Utf16Units(size) => size,
        }
    }

    fn cost_of(self, character: char) -> usize {
        match self {
            Self::Characters(_) => 1,
            Self::Utf16Units(_) => character.len_utf16(),
        }
    }
}

/// A text on one line within a limit: white space, control characters and what shows as nothing become single spaces, none
/// at the ends, and `…` stands for what was cut off. Tokens are hidden first: a part of one looks like none.
pub fn one_line(text: &str, limit: TextLimit) -> String {
    let most = limit.size();
    let mut line = String::with_capacity(text.len().min(most.saturating_mul(4)));
    let (mut used, mut gap) = (0_usize, false);
    // How much of the line leaves space for the ellipsis.
    let mut cut_at = 0;
    for character in mask::redact_tokens(text).chars() {
        if character.is_control() || character.is_whitespace() || is_invisible(character) {
            gap = !line.is_empty();
            continue;
        }
        used = used.saturating_add(limit.cost_of(character)).saturating_add(usize::from(gap));
        if used > most {
            line.truncate(cut_at);
            if most > 0 {
                line.push('…');
            }
            return line;
        }
        if std::mem::take(&mut gap) {
            line.push(' ');
        }
        line.push(character);
        if used < most {
            cut_at = line.len();
        }
    }
    line
}

/// What shows as nothing, or turns the direction of what comes after it.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// An error with everything that it says it comes from, each said once.
pub fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_text_ends_in_an_ellipsis() {
        assert_eq!(one_line("14 models healthy", TextLimit::Utf16Units(140)), "14 models healthy");
        assert_eq!(one_line("models/llama/model.yaml:7: `gpu`", TextLimit::Utf16Units(12)), "models/llam…");
        assert_eq!(one_line("🦙🦙🦙🦙", TextLimit::Utf16Units(6)), "🦙🦙…");
        assert_eq!(one_line("🦙🦙🦙🦙", TextLimit::Characters(4)), "🦙🦙🦙🦙");
        assert_eq!(one_line("🦙🦙🦙🦙", TextLimit::Characters(3)), "🦙🦙…");
        assert_eq!(one_line("ab cd", TextLimit::Characters(4)), "ab…");
        assert_eq!(one_line("ab", TextLimit::Characters(0)), "");
    }

    #[test]
    fn a_token_is_hidden_before_the_text_is_cut() {
        let token = ["gh", "p_9aQ2mZxW7LkP0vRtY4bNc6HdJs8UfE1gTiKo"].concat();
        let text = format!("refused: {token} is no token");
        assert_eq!(one_line(&text, TextLimit::Characters(30)), "refused: *** is no token");
        assert_eq!(one_line(&text, TextLimit::Utf16Units(14)), "refused: ***…");
    }

    #[test]
    fn what_steers_a_terminal_becomes_a_space() {
        assert_eq!(one_line(" two\r\n\n\u{1b}[31mlines\u{202e} ", TextLimit::Characters(140)), "two [31mlines");
    }

    proptest! {
        #[test]
        fn a_line_keeps_to_its_limit_and_stays_as_it_is_the_second_time(text in any::<String>(), most in 0_usize..60) {
            let units = one_line(&text, TextLimit::Utf16Units(most));
            prop_assert!(units.encode_utf16().count() <= most);
            let characters = one_line(&text, TextLimit::Characters(most));
            prop_assert!(characters.chars().count() <= most);
            prop_assert!(!characters.chars().any(char::is_control));
            prop_assert_eq!(characters.trim(), characters.as_str());
            prop_assert_eq!(one_line(&characters, TextLimit::Characters(most)), characters);
        }
    }
}

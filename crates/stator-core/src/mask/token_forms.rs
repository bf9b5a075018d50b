//! Tokens by their form: what their issuers document, in the table `token_forms.yaml`.
//!
//! A text is searched for keywords first, and an expression is compiled only where a keyword and what must follow it occur:
//! a program that meets no token compiles none.

use regex::Regex;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

/// One form of tokens.
struct TokenForm {
    what: &'static str,
    keywords: &'static [&'static str],
    least: usize,
    starts_word: bool,
    is_mixed: bool,
    form: &'static str,
    compiled: OnceLock<Option<Regex>>,
}

include!(concat!(env!("OUT_DIR"), "/token_forms.rs"));

/// A token in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundToken {
    /// Its bytes in the text.
    pub range: Range<usize>,
    /// What it is, as in "a GitHub token".
    pub what: &'static str,
}

/// No text that is shorter holds a token.
const SHORTEST_TEXT: usize = 16;
/// Parts of what people write in place of a token.
const PLACEHOLDER_WORDS: [&str; 9] =
    ["example", "placeholder", "changeme", "replace", "redacted", "your-", "your_", "xxxxxx", "......"];
/// How many characters a token has that differ, at least.
const FEWEST_CHARACTERS: usize = 4;

impl TokenForm {
    /// Adds the tokens of this form in a text.
    fn find(&'static self, text: &str, found: &mut Vec<FoundToken>) {
        let Some(form) = self.compiled.get_or_init(|| Regex::new(self.form).ok()) else { return };
        for captures in form.captures_iter(text) {
            let Some(secret) = captures.get(1).or_else(|| captures.get(0)) else { continue };
            let is_glued = self.starts_word && !begins_word(text.as_bytes(), secret.start());
            let is_word = self.is_mixed && !is_mixed(secret.as_str());
            if !is_glued && !is_word && !self.is_placeholder(secret.as_str()) {
                found.push(FoundToken { range: secret.range(), what: self.what });
            }
        }
    }

    /// Whether a keyword is followed by as much as a token of this form has.
    fn may_begin(&self, text: &[u8], keyword: Range<usize>) -> bool {
        let follows = text.get(keyword.end..).unwrap_or_default().iter().take(self.least);
        (!self.starts_word || begins_word(text, keyword.start))
            && follows.filter(|byte| byte.is_ascii_graphic() && !b"\"'`<>()[]{},;".contains(byte)).count() == self.least
    }

    fn is_placeholder(&self, secret: &str) -> bool {
        let prefix = self.keywords.iter().filter(|keyword| secret.starts_with(**keyword)).map(|keyword| keyword.len());
        let rest = secret.get(prefix.max().unwrap_or(0)..).unwrap_or(secret).to_ascii_lowercase();
        let mut characters: Vec<u8> = rest.bytes().collect();
        characters.sort_unstable();
        characters.dedup();
        characters.len() < FEWEST_CHARACTERS || PLACEHOLDER_WORDS.iter().any(|word| rest.contains(word))
    }
}

/// Whether no letter or digit is before a place, other than those of an escaped character (`\n`, `%3D`, `\u003c`) or of a
/// terminal's colour.
fn begins_word(text: &[u8], at: usize) -> bool {
    match text.get(..at).unwrap_or_default() {
        [] | [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
        [.., b'\\', b'u', a, b, c, d] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => true,
        [color @ .., b'm'] => {
            let digits = color.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
            color.get(..color.len() - digits).is_some_and(|before| before.ends_with(b"\x1b["))
        }
        [.., last] => !last.is_ascii_alphanumeric(),
    }
}

fn is_mixed(secret: &str) -> bool {
    secret.contains(|c: char| c.is_ascii_digit()) && secret.contains(|c: char| c.is_ascii_alphabetic())
}

/// Where keywords begin.
struct KeywordFilter {
    /// A bit for each pair of bytes with which a keyword begins.
    pairs: [u64; 1024],
    /// Keywords and the index of their form, by first byte.
    by_first: Vec<Vec<(&'static [u8], usize)>>,
}

static KEYWORD_FILTER: LazyLock<KeywordFilter> = LazyLock::new(|| {
    let mut filter = KeywordFilter { pairs: [0; 1024], by_first: vec![Vec::new(); 256] };
    for (index, form) in TOKEN_FORMS.iter().enumerate() {
        for keyword in form.keywords.iter().map(|keyword| keyword.as_bytes()) {
            let [first, second, ..] = keyword else { continue };
            let (word, bit) = place_of_pair(*first, *second);
            if let Some(word) = filter.pairs.get_mut(word) {
                *word |= bit;
            }
            if let Some(list) = filter.by_first.get_mut(usize::from(*first)) {
                list.push((keyword, index));
            }
        }
    }
    filter
});

fn place_of_pair(first: u8, second: u8) -> (usize, u64) {
    let pair = u16::from_be_bytes([first, second]);
    (usize::from(pair >> 6), 1 << (pair & 63))
}

/// The indices of the forms of which a text may hold a token, as bits.
fn suspected_forms(text: &[u8]) -> u128 {
    let mut suspected = 0;
    if text.len() < SHORTEST_TEXT {
        return suspected;
    }
    let filter = &*KEYWORD_FILTER;
    for (at, pair) in text.windows(2).enumerate() {
        let [first, second] = pair else { continue };
        let (word, bit) = place_of_pair(*first, *second);
        if filter.pairs.get(word).is_none_or(|word| word & bit == 0) {
            continue;
        }
        let rest = text.get(at..).unwrap_or_default();
        for (keyword, index) in filter.by_first.get(usize::from(*first)).into_iter().flatten() {
            if rest.starts_with(keyword)
                && TOKEN_FORMS.get(*index).is_some_and(|form| form.may_begin(text, at..at + keyword.len()))
            {
                suspected |= 1 << index;
            }
        }
    }
    suspected
}

/// The tokens of known forms in a text, in their order; none overlaps another.
pub fn find_tokens(text: &str) -> Vec<FoundToken> {
    let suspected = suspected_forms(text.as_bytes());
    let mut found = Vec::new();
    if suspected != 0 {
        let forms = TOKEN_FORMS.iter().enumerate().filter(|(index, _)| (suspected >> index) & 1 == 1);
        forms.for_each(|(_, form)| form.find(text, &mut found));
    }
    // Of two that begin alike, the longer one first.
    found.sort_by_key(|token| (token.range.start, std::cmp::Reverse(token.range.end)));
    let mut apart: Vec<FoundToken> = Vec::with_capacity(found.len());
    for token in found {
        match apart.last_mut() {
            Some(last) if token.range.start < last.range.end => last.range.end = last.range.end.max(token.range.end),
            Some(_) | None => apart.push(token),
        }
    }
    apart
}

/// A text with every token of a known form replaced.
fn replace_tokens(text: &str, replacement: impl Fn(&str) -> String) -> Cow<'_, str> {
    let found = find_tokens(text);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut hidden = String::with_capacity(text.len());
    let mut from = 0;
    for FoundToken { range, what: _ } in found {
        hidden.push_str(text.get(from..range.start).unwrap_or_default());
        from = range.end;
        hidden.push_str(&replacement(text.get(range).unwrap_or_default()));
    }
    hidden.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(hidden)
}

/// A text with `***` in place of every token of a known form: the last look at what leaves the process.
pub fn redact_tokens(text: &str) -> Cow<'_, str> {
    replace_tokens(text, |_| super::HIDDEN.to_owned())
}

/// A text with every token of a known form starred out, one star a character, so that lines and columns stay. A key in
/// several lines is hidden in each of them, which no look at one line can do.
pub fn star_tokens(text: &str) -> Cow<'_, str> {
    replace_tokens(text, |token| token.chars().map(|c| if matches!(c, '\n' | '\r') { c } else { '*' }).collect())
}

#[cfg(test)]
mod tests;

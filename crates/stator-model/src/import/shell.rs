//! Words of a shell's command, with where each stands. Nothing is run and nothing is expanded: only what is certain from
//! the text alone is read.

use std::ops::Range;

/// A word of a shell's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellWord {
    /// Its place in the script, quotes included.
    pub range: Range<usize>,
    /// Its text without quotes and escapes.
    pub text: String,
    /// Whether it stands for exactly its text: nothing in it is expanded, quoted or escaped.
    pub plain: bool,
    /// Whether it ends a command (`|`, `;`, `&&`, a line's end) or redirects.
    pub operator: bool,
}

/// Splits a script into words and operators. An unclosed quote ends with the script.
pub fn split_words(script: &str) -> Vec<ShellWord> {
    let mut words = Vec::new();
    let mut reader = ShellLexer { script, chars: script.char_indices().peekable() };
    while let Some(word) = reader.next_word() {
        words.push(word);
    }
    words
}

struct ShellLexer<'a> {
    script: &'a str,
    chars: std::iter::Peekable<std::str::CharIndices<'a>>,
}

impl ShellLexer<'_> {
    fn position(&mut self) -> usize {
        self.chars.peek().map_or(self.script.len(), |(at, _)| *at)
    }

    fn next_word(&mut self) -> Option<ShellWord> {
        loop {
            let (at, c) = *self.chars.peek()?;
            match c {
                ' ' | '\t' | '\r' => {
                    self.chars.next();
                }
                '\\' if self.script.get(at..).is_some_and(|rest| rest.starts_with("\\\n")) => {
                    // A line goes on.
                    self.chars.next();
                    self.chars.next();
                }
                '#' => while self.chars.next_if(|(_, c)| *c != '\n').is_some() {},
                '\n' | ';' | '|' | '&' | '(' | ')' | '<' | '>' => return Some(self.operator()),
                _ => return Some(self.word(at)),
            }
        }
    }

    fn operator(&mut self) -> ShellWord {
        let start = self.position();
        let first = self.chars.next().map(|(_, c)| c);
        if first != Some('\n') {
            while self.chars.next_if(|(_, c)| Some(*c) == first || (*c == '&' && first == Some('>'))).is_some() {}
        }
        let end = self.position();
        let text = self.script.get(start..end).unwrap_or_default().to_owned();
        ShellWord { range: start..end, text, plain: false, operator: true }
    }

    fn word(&mut self, start: usize) -> ShellWord {
        let (mut text, mut plain) = (String::new(), true);
        while let Some((_, c)) = self.chars.peek().copied() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '|' | '&' | '(' | ')' | '<' | '>' => break,
                '\'' => {
                    plain = false;
                    self.chars.next();
                    while let Some((_, c)) = self.chars.next_if(|(_, c)| *c != '\'') {
                        text.push(c);
                    }
                    self.chars.next();
                }
                '"' => {
                    plain = false;
                    self.chars.next();
                    self.double_quoted(&mut text);
                }
                '\\' => {
                    plain = false;
                    self.chars.next();
                    if let Some((_, c)) = self.chars.next()
                        && c != '\n'
                    {
                        text.push(c);
                    }
                }
                _ => {
                    plain &= !matches!(c, '$' | '`' | '*' | '?' | '[' | '~' | '{');
                    text.push(c);
                    self.chars.next();
                }
            }
        }
        ShellWord { range: start..self.position(), text, plain, operator: false }
    }

    fn double_quoted(&mut self, text: &mut String) {
        while let Some((_, c)) = self.chars.next_if(|(_, c)| *c != '"') {
            if c != '\\' {
                text.push(c);
                continue;
            }
            match self.chars.next() {
                Some((_, '\n')) | None => {}
                Some((_, c @ ('"' | '\\' | '$' | '`'))) => text.push(c),
                Some((_, c)) => text.extend(['\\', c]),
            }
        }
        self.chars.next();
    }
}

#[cfg(test)]
mod tests {
    use super::split_words;
    use proptest::prelude::*;

    fn texts(script: &str) -> Vec<String> {
        split_words(script).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_read_as_a_shell_reads_them() {
        assert_eq!(
            texts("exec python3 -m dynamo.vllm \\\n --model 'a b' --x \"{\\\"k\\\": 1}\" 2>&1 | tee /tmp/l # end"),
            [
                "exec",
                "python3",
                "-m",
                "dynamo.vllm",
                "--model",
                "a b",
                "--x",
                "{\"k\": 1}",
                "2",
                ">&",
                "1",
                "|",
                "tee",
                "/tmp/l"
            ]
        );
    }

    #[test]
    fn only_what_stands_for_itself_is_plain() {
        let plain: Vec<bool> = split_words("a 'b' $c \"$d\" e\\f ~g").iter().map(|word| word.plain).collect();
        assert_eq!(plain, [true, false, false, false, false, false]);
    }

    proptest! {
        #[test]
        fn any_script_is_read_and_its_words_lie_in_it_in_order(script in "[a-z\"'\\\\ \n$|;&<>#é-]{0,60}") {
            let mut end = 0;
            for word in split_words(&script) {
                prop_assert!(word.range.start >= end && word.range.end > word.range.start);
                prop_assert!(script.get(word.range.clone()).is_some());
                end = word.range.end;
            }
        }
    }
}

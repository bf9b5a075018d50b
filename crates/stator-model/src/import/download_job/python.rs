//! What a short Python program asks `huggingface_hub` for. Only what is certain from the text alone is read: imports,
//! variables of literals, and calls; a program with anything else is not understood.

use std::collections::BTreeMap;

/// One call of `snapshot_download`, by its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCall {
    /// `repo_id`.
    pub repository: String,
    /// `revision`.
    pub revision: Option<String>,
    /// `allow_patterns`.
    pub include: Vec<String>,
    /// `ignore_patterns`.
    pub exclude: Vec<String>,
    /// `local_dir`.
    pub folder: Option<String>,
}

/// Modules whose functions leave nothing on a volume that the serving pods would miss, and those that only make folders.
const HARMLESS_CALLS: [&str; 4] = ["print", "os.makedirs", "sys.stdout.flush", "logging.basicConfig"];
/// How deep brackets may nest.
const MAX_DEPTH: usize = 64;
/// What downloads a repository.
const DOWNLOAD: &str = "snapshot_download";

/// The downloads of a program, with the variables of its environment; `None` when it does anything else.
pub fn read_program(code: &str, environment: &BTreeMap<String, String>) -> Option<Vec<SnapshotCall>> {
    let mut reader =
        ProgramReader { environment, variables: BTreeMap::new(), functions: BTreeMap::new(), calls: Vec::new() };
    for statement in statements(tokenize(code)?) {
        reader.statement(&statement)?;
    }
    Some(reader.calls)
}

/// Whether a program may download something.
pub fn mentions_download(code: &str) -> bool {
    code.contains(DOWNLOAD)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    Text(String),
    /// A text with values in it, which nobody needs to know.
    Formatted,
    Number,
    Mark(char),
    End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expression {
    Text(String),
    List(Vec<Expression>),
    Call(String, Vec<(Option<String>, Expression)>),
    Variable(String),
    Unknown,
}

fn tokenize(code: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut depth = 0_usize;
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' | ';' if depth == 0 => tokens.push(Token::End),
            '\\' if chars.peek() == Some(&'\n') => {
                chars.next();
            }
            c if c.is_whitespace() => {}
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '\'' | '"' => tokens.push(Token::Text(text(c, &mut chars)?)),
            c if c.is_ascii_digit() => {
                while chars.next_if(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_')).is_some() {}
                tokens.push(Token::Number);
            }
            c if c.is_alphabetic() || c == '_' => {
                let mut name = String::from(c);
                while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '.')) {
                    name.push(c);
                }
                match chars.peek().copied().filter(|quote| matches!(quote, '\'' | '"')) {
                    Some(quote) if matches!(name.as_str(), "r" | "R") => {
                        chars.next();
                        tokens.push(Token::Text(text(quote, &mut chars)?));
                    }
                    Some(quote) if matches!(name.as_str(), "f" | "F") => {
                        chars.next();
                        text(quote, &mut chars)?;
                        tokens.push(Token::Formatted);
                    }
                    Some(_) => return None,
                    None => tokens.push(Token::Name(name)),
                }
            }
            '(' | '[' => {
                depth = depth.saturating_add(1);
                if depth > MAX_DEPTH {
                    return None;
                }
                tokens.push(Token::Mark(c));
            }
            ')' | ']' => {
                depth = depth.checked_sub(1)?;
                tokens.push(Token::Mark(c));
            }
            ',' | '=' => tokens.push(Token::Mark(c)),
            _ => return None,
        }
    }
    (depth == 0).then_some(tokens)
}

/// The rest of a text, up to its quote. Nothing is escaped but quotes and backslashes; three quotes are not read.
fn text(quote: char, chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    let mut text = String::new();
    loop {
        match chars.next()? {
            '\\' => match chars.next()? {
                c @ ('\\' | '\'' | '"') => text.push(c),
                _ => return None,
            },
            '\n' => return None,
            c if c == quote => return (!(text.is_empty() && chars.peek() == Some(&quote))).then_some(text),
            c => text.push(c),
        }
    }
}

fn statements(tokens: Vec<Token>) -> Vec<Vec<Token>> {
    let lines = tokens.split(|token| *token == Token::End).map(<[Token]>::to_vec);
    lines.filter(|line| !line.is_empty()).collect()
}

struct ProgramReader<'a> {
    environment: &'a BTreeMap<String, String>,
    variables: BTreeMap<String, Expression>,
    /// What functions are called here, by what they are.
    functions: BTreeMap<String, String>,
    calls: Vec<SnapshotCall>,
}

impl ProgramReader<'_> {
    fn statement(&mut self, tokens: &[Token]) -> Option<()> {
        match tokens {
            [Token::Name(word), rest @ ..] if word == "import" => {
                let is_plain =
                    |token: &Token| matches!(token, Token::Name(name) if name != "as") || *token == Token::Mark(',');
                rest.iter().all(is_plain).then_some(())
            }
            [Token::Name(word), Token::Name(module), Token::Name(import), rest @ ..]
                if word == "from" && import == "import" =>
            {
                for name in rest.split(|token| *token == Token::Mark(',')) {
                    match name {
                        [Token::Name(name)] => self.functions.insert(name.clone(), format!("{module}.{name}")),
                        [Token::Name(name), Token::Name(word), Token::Name(own)] if word == "as" => {
                            self.functions.insert(own.clone(), format!("{module}.{name}"))
                        }
                        _ => return None,
                    };
                }
                Some(())
            }
            [Token::Name(name), Token::Mark('='), value @ ..] if !name.contains('.') => {
                let (value, rest) = self.expression(value)?;
                self.variables.insert(name.clone(), value);
                rest.is_empty().then_some(())
            }
            _ => {
                let (value, rest) = self.expression(tokens)?;
                (rest.is_empty() && matches!(value, Expression::Call(..))).then_some(())
            }
        }
    }

    /// One expression, and what follows it.
    fn expression<'t>(&mut self, tokens: &'t [Token]) -> Option<(Expression, &'t [Token])> {
        let (first, rest) = tokens.split_first()?;
        match first {
            Token::Text(text) => match rest {
                // Texts side by side are one.
                [Token::Text(_) | Token::Formatted, ..] => Some((Expression::Unknown, self.expression(rest)?.1)),
                _ => Some((Expression::Text(text.clone()), rest)),
            },
            Token::Formatted | Token::Number => Some((Expression::Unknown, rest)),
            Token::Mark('[') => {
                let (items, rest) = self.arguments(rest, ']')?;
                Some((Expression::List(items.into_iter().map(|(_, item)| item).collect()), rest))
            }
            Token::Name(name) => match rest {
                [Token::Mark('('), rest @ ..] => {
                    let (arguments, rest) = self.arguments(rest, ')')?;
                    Some((self.call(name, arguments)?, rest))
                }
                [Token::Mark('['), Token::Text(key), Token::Mark(']'), rest @ ..] if name == "os.environ" => {
                    Some((Expression::Text(self.environment.get(key)?.clone()), rest))
                }
                _ => Some((self.value_of(name), rest)),
            },
            Token::Mark(_) | Token::End => None,
        }
    }

    fn value_of(&self, name: &str) -> Expression {
        match name {
            "True" | "False" | "None" => Expression::Variable(name.to_owned()),
            _ => self.variables.get(name).cloned().unwrap_or(Expression::Unknown),
        }
    }

    #[expect(clippy::type_complexity, reason = "what stands between the brackets, and what follows them")]
    fn arguments<'t>(
        &mut self,
        mut tokens: &'t [Token],
        end: char,
    ) -> Option<(Vec<(Option<String>, Expression)>, &'t [Token])> {
        let mut found = Vec::new();
        loop {
            match tokens {
                [Token::Mark(mark), rest @ ..] if *mark == end => return Some((found, rest)),
                [Token::Mark(','), rest @ ..] => tokens = rest,
                [Token::Name(name), Token::Mark('='), rest @ ..] => {
                    let (value, rest) = self.expression(rest)?;
                    found.push((Some(name.clone()), value));
                    tokens = rest;
                }
                _ => {
                    let (value, rest) = self.expression(tokens)?;
                    found.push((None, value));
                    tokens = rest;
                }
            }
        }
    }

    fn call(&mut self, name: &str, arguments: Vec<(Option<String>, Expression)>) -> Option<Expression> {
        let function = self.functions.get(name).map_or(name, String::as_str);
        if function.strip_prefix("huggingface_hub.").is_some_and(|own| own == DOWNLOAD) {
            self.calls.push(snapshot_call(&arguments)?);
            return Some(Expression::Call(function.to_owned(), Vec::new()));
        }
        match (function, arguments.as_slice()) {
            ("os.environ.get" | "os.getenv", [(None, Expression::Text(key)), rest @ ..]) => {
                let default = match rest {
                    [(None, value)] => value.clone(),
                    _ => Expression::Variable("None".to_owned()),
                };
                Some(self.environment.get(key).cloned().map_or(default, Expression::Text))
            }
            (function, _) if HARMLESS_CALLS.contains(&function) => {
                Some(Expression::Call(function.to_owned(), Vec::new()))
            }
            _ => None,
        }
    }
}

/// What a call asks for; `None` where an argument is not certain, or has no place in `weights`.
fn snapshot_call(arguments: &[(Option<String>, Expression)]) -> Option<SnapshotCall> {
    let mut call = SnapshotCall::default();
    let positions = ["repo_id", "repo_type", "revision"];
    for (index, (name, value)) in arguments.iter().enumerate() {
        let name = match name {
            Some(name) => name.as_str(),
            None => positions.get(index)?,
        };
        let text = || match value {
            Expression::Text(text) => Some(text.clone()),
            Expression::List(_) | Expression::Call(..) | Expression::Variable(_) | Expression::Unknown => None,
        };
        let texts = || match value {
            Expression::Text(text) => Some(vec![text.clone()]),
            Expression::List(items) => items
                .iter()
                .map(|item| if let Expression::Text(text) = item { Some(text.clone()) } else { None })
                .collect(),
            Expression::Call(..) | Expression::Variable(_) | Expression::Unknown => None,
        };
        let is_none = *value == Expression::Variable("None".to_owned());
        match name {
            "repo_id" => call.repository = text()?,
            "revision" if !is_none => call.revision = Some(text()?),
            "allow_patterns" if !is_none => call.include = texts()?,
            "ignore_patterns" if !is_none => call.exclude = texts()?,
            "local_dir" if !is_none => call.folder = Some(text()?),
            "revision" | "allow_patterns" | "ignore_patterns" | "local_dir" => {}
            "repo_type" if is_none || text().is_some_and(|kind| kind == "model") => {}
            // How it downloads, and not what.
            "max_workers" | "resume_download" | "local_dir_use_symlinks" | "tqdm_class" | "etag_timeout" => {}
            "token" => {}
            _ => return None,
        }
    }
    (!call.repository.is_empty()).then_some(call)
}

#[cfg(test)]
mod tests {
    use super::{SnapshotCall, read_program};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn read(code: &str) -> Option<Vec<SnapshotCall>> {
        read_program(code, &BTreeMap::from([("REVISION".to_owned(), "v1".to_owned())]))
    }

    #[test]
    fn downloads_are_read_with_their_files_and_folders() {
        let code = "import os, sys\nfrom huggingface_hub import snapshot_download as s\nbase = \"a/b\"\n\
            os.makedirs('/w', exist_ok=True)\ns(base, ignore_patterns=['x/*','y/*']); s('c/d')\n\
            s(\n  repo_id='e/f',  # the draft\n  revision=os.environ.get(\"REVISION\", \"main\"),\n  local_dir='/w/e',\n)\n\
            print(f'done {base}')\n";
        let calls = read(code).unwrap();
        let all: Vec<_> = calls.iter().map(|one| (one.repository.as_str(), one.revision.as_deref())).collect();
        assert_eq!(all, [("a/b", None), ("c/d", None), ("e/f", Some("v1"))]);
        assert_eq!(calls[0].exclude, ["x/*", "y/*"]);
        assert_eq!(calls[2].folder.as_deref(), Some("/w/e"));
    }

    #[test]
    fn a_program_that_does_anything_else_is_not_understood() {
        for code in [
            "from huggingface_hub import snapshot_download\nfor x in ['a/b']: snapshot_download(x)",
            "from huggingface_hub import snapshot_download\nsnapshot_download('a/' + 'b')",
            "from huggingface_hub import snapshot_download\nsnapshot_download(name)",
            "import shutil\nshutil.rmtree('/models')",
            "import os\nos.system('rm -rf /models')",
            "snapshot_download('a/b')",
            "open('/models/x', 'w').write('x')",
            "x = '''a\nb'''",
        ] {
            assert_eq!(read(code), None, "{code}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(code in "[a-z_.='\"\\\\ \n()\\[\\],#;0-9{}é-]{0,80}") {
            let _ = read(&code);
        }
    }
}

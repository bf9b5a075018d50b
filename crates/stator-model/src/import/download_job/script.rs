//! What a download's container runs: the commands of a script, read with certainty or not at all.

use super::DownloadFault;
use super::container::{list, reads_by_itself};
use super::python::{self, SnapshotCall};
use crate::import::shell::{self, ShellWord};
use serde_json::Value;
use std::collections::BTreeMap;

/// Programs that leave the files on a volume as they are, or only make folders.
const HARMLESS: [&str; 27] = [
    "set", "echo", "printf", "true", ":", "date", "ls", "du", "df", "mkdir", "head", "tail", "wc", "sort", "grep",
    "cat", "test", "[", "sleep", "nproc", "free", "which", "whoami", "id", "hostname", "pwd", "sync",
];

/// A repository that a script downloads, and what of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedDownload {
    pub repository: String,
    pub revision: Option<String>,
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    /// Where to; the Hugging Face cache where nothing is said.
    pub folder: Option<String>,
}

/// What a script does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DownloadScript {
    /// What it downloads, in its order.
    pub downloads: Vec<RequestedDownload>,
    /// The variables that it names.
    pub variables: Vec<String>,
    /// What it sets of its environment.
    pub environment: BTreeMap<String, String>,
}

/// A command, with what a shell gives it to read.
struct ShellCommand {
    words: Vec<ShellWord>,
    input: Option<String>,
    /// Whether its output goes to a file.
    writes: bool,
    /// Whether it runs only if another fails, or another runs only if it fails.
    is_alternative: bool,
}

impl DownloadScript {
    /// Reads what a container runs, with the variables of its environment.
    ///
    /// # Errors
    /// When it downloads nothing, or does something else as well.
    pub fn of(container: &Value, environment: &BTreeMap<String, String>) -> Result<Self, DownloadFault> {
        let items: Vec<&str> = ["command", "args"]
            .into_iter()
            .flat_map(|field| list(container, field))
            .filter_map(Value::as_str)
            .collect();
        if !items.iter().any(|item| mentions_download(item)) && !is_download_command(&items) {
            return Err(DownloadFault::None);
        }
        let (commands, positional) = commands_of(&items)?;
        let mut script = Self { environment: environment.clone(), ..Self::default() };
        for command in commands {
            script.run(&command, &positional)?;
        }
        if script.downloads.is_empty() { Err(DownloadFault::None) } else { Ok(script) }
    }

    fn run(&mut self, command: &ShellCommand, positional: &[String]) -> Result<(), DownloadFault> {
        const MORE: DownloadFault = DownloadFault::Other("its script does more than download");
        let words = command.words.as_slice();
        let is_run = |word: &ShellWord| word.text.contains("$(") || word.text.contains('`');
        if command.writes || words.iter().any(is_run) {
            return Err(MORE);
        }
        self.variables.extend(words.iter().flat_map(|word| variable_names(&word.text)));
        let words = match words {
            [first, rest @ ..] if first.text == "exec" => rest,
            _ => words,
        };
        let Some(first) = words.first() else { return Ok(()) };
        if let [only] = words
            && only.text.split_once('=').is_some_and(|(name, _)| is_name(name))
        {
            return self.assign(&only.text).ok_or(MORE);
        }
        let program = first.text.rsplit('/').next().unwrap_or_default();
        let texts: Vec<&str> = words.iter().skip(1).map(|word| word.text.as_str()).collect();
        match (program, texts.as_slice()) {
            ("hf" | "huggingface-cli", ["download", ..]) if !command.is_alternative => {
                let request = self.request(words.get(2..).unwrap_or_default(), positional)?;
                self.downloads.push(request);
                Ok(())
            }
            ("hf" | "huggingface-cli", ["auth" | "login" | "whoami" | "version" | "env", ..]) => Ok(()),
            ("python" | "python3", ["-m", "pip", rest @ ..]) if is_plain_installation(rest) => Ok(()),
            ("python" | "python3", rest) if !command.is_alternative => {
                let code = match (rest, &command.input) {
                    (["-c", code], None) => (*code).to_owned(),
                    (["-"] | [], Some(input)) => input.clone(),
                    _ => return Err(MORE),
                };
                let calls = python::read_program(&code, &self.environment).ok_or(MORE)?;
                self.downloads.extend(calls.into_iter().map(RequestedDownload::from));
                Ok(())
            }
            ("export", _) => words.iter().skip(1).try_for_each(|word| {
                let name = word.text.split('=').next().unwrap_or_default();
                // What the downloader reads has no place in `weights` but in its `env`.
                if reads_by_itself(name) { Err(MORE) } else { self.assign(&word.text).ok_or(MORE) }
            }),
            ("command", ["-v" | "-V", ..]) => Ok(()),
            ("pip" | "pip3", rest) if is_plain_installation(rest) => Ok(()),
            // The words behind are what `$@` stands for from then on.
            ("set", rest) if rest.contains(&"--") => Err(MORE),
            ("sort", rest) if rest.iter().any(|word| word.starts_with("-o") || word.starts_with("--output")) => {
                Err(MORE)
            }
            (program, _) if HARMLESS.contains(&program) => Ok(()),
            (_, _) => Err(MORE),
        }
    }

    /// `NAME=VALUE`.
    fn assign(&mut self, text: &str) -> Option<()> {
        let (name, value) = text.split_once('=')?;
        if !is_name(name) {
            return None;
        }
        let value = self.expand(value)?;
        self.environment.insert(name.to_owned(), value);
        Some(())
    }

    /// A text with its variables put in; `None` where one is not known.
    fn expand(&self, text: &str) -> Option<String> {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some(start) = rest.find('$') {
            filled.push_str(rest.get(..start)?);
            rest = rest.get(start.saturating_add(1)..)?;
            let (expression, after) = match rest.strip_prefix('{') {
                Some(inside) => inside.split_once('}')?,
                None => {
                    rest.split_at(rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len()))
                }
            };
            let (name, default) = expression.split_once(":-").map_or((expression, None), |(name, or)| (name, Some(or)));
            if !is_name(name) {
                return None;
            }
            let known =
                self.environment.get(name).map(String::as_str).filter(|text| default.is_none() || !text.is_empty());
            filled.push_str(known.or(default.filter(|text| !text.contains(['$', '`'])))?);
            rest = after;
        }
        filled.push_str(rest);
        (!filled.contains('`')).then_some(filled)
    }

    fn request(&self, line: &[ShellWord], positional: &[String]) -> Result<RequestedDownload, DownloadFault> {
        let mut texts = Vec::new();
        for word in line {
            if word.text == "$@" {
                texts.extend(positional.iter().cloned());
            } else {
                let unknown = DownloadFault::Other("a word of its command cannot be determined");
                texts.push(self.expand(&word.text).ok_or(unknown)?);
            }
        }
        let (mut revision, mut include, mut exclude, mut folder) = (None, Vec::new(), Vec::new(), None);
        let mut repositories = Vec::new();
        let mut rest = texts.into_iter().peekable();
        while let Some(text) = rest.next() {
            let (flag, joined) = match text.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag.to_owned(), Some(value.to_owned())),
                Some(_) | None => (text, None),
            };
            let mut value = || joined.clone().or_else(|| rest.next());
            match flag.as_str() {
                "--revision" => revision = value(),
                "--include" => include.extend(value()),
                "--exclude" => exclude.extend(value()),
                "--local-dir" => folder = value(),
                // How it downloads, and not what.
                "--quiet" | "--resume-download" => {}
                "--repo-type" if value().is_some_and(|kind| kind == "model") => {}
                "--max-workers" | "--token" | "--local-dir-use-symlinks" => {
                    value();
                }
                flag if flag.starts_with('-') => {
                    return Err(DownloadFault::Other("it downloads in a way that `weights` does not"));
                }
                repository => repositories.push(repository.to_owned()),
            }
        }
        match <[String; 1]>::try_from(repositories) {
            Ok([repository]) if repository.contains('/') => {
                Ok(RequestedDownload { repository, revision, include, exclude, folder })
            }
            Ok(_) | Err(_) => Err(DownloadFault::Other("it downloads single files, or its files cannot be determined")),
        }
    }
}

impl From<SnapshotCall> for RequestedDownload {
    fn from(call: SnapshotCall) -> Self {
        let SnapshotCall { repository, revision, include, exclude, folder } = call;
        Self { repository, revision, include, exclude, folder }
    }
}

/// Whether pip installs packages where it always does.
fn is_plain_installation(words: &[&str]) -> bool {
    let elsewhere = ["-t", "--target", "--prefix", "--root", "-d", "--dest", "--src", "--cache-dir", "--log"];
    words.first() == Some(&"install")
        && !words.iter().any(|word| elsewhere.contains(&word.split('=').next().unwrap_or_default()))
}

/// Whether a text may download something from Hugging Face.
fn mentions_download(text: &str) -> bool {
    text.contains("hf download") || text.contains("huggingface-cli download") || python::mentions_download(text)
}

fn is_download_command(items: &[&str]) -> bool {
    matches!(items, [program, "download", ..] if matches!(program.rsplit('/').next(), Some("hf" | "huggingface-cli")))
}

/// The commands of a container's program, and the arguments of its script.
fn commands_of(items: &[&str]) -> Result<(Vec<ShellCommand>, Vec<String>), DownloadFault> {
    let is_shell = items
        .first()
        .is_some_and(|program| ["sh", "bash", "ash", "dash"].contains(&program.rsplit('/').next().unwrap_or_default()));
    if let (true, Some(at)) = (is_shell, items.iter().position(|item| item.starts_with('-') && item.ends_with('c')))
        && let Some(text) = items.get(at.saturating_add(1))
    {
        // The word after the script is what the shell calls itself.
        let positional = items.iter().skip(at.saturating_add(3)).map(|item| (*item).to_owned()).collect();
        let unknown = DownloadFault::Other("its script cannot be read with certainty");
        return Ok((shell_commands(text).ok_or(unknown)?, positional));
    }
    let words = items.iter().map(|item| ShellWord {
        range: 0..item.len(),
        text: (*item).to_owned(),
        plain: true,
        operator: false,
    });
    let only = ShellCommand { words: words.collect(), input: None, writes: false, is_alternative: false };
    Ok((vec![only], Vec::new()))
}

/// The commands of a script; `None` where it has what is not read here.
fn shell_commands(script: &str) -> Option<Vec<ShellCommand>> {
    let (script, mut documents) = here_documents(script)?;
    let (mut commands, mut words, mut writes, mut is_alternative) = (Vec::new(), Vec::new(), false, false);
    let mut rest = shell::split_words(&script).into_iter().peekable();
    let mut input = None;
    while let Some(word) = rest.next() {
        // In single quotes nothing is expanded, and a word does not say which were.
        if script.get(word.range.clone()).is_some_and(|raw| raw.contains('\'') && raw.contains('$')) {
            return None;
        }
        if !word.operator {
            match documents.iter().position(|(mark, _)| *mark == word.text) {
                Some(at) => input = Some(documents.remove(at).1),
                None => words.push(word),
            }
        } else if word.text.starts_with('>') {
            // `2>&1` and `2>/dev/null`: the number is no argument.
            let is_number =
                |before: &ShellWord| before.range.end == word.range.start && before.text.parse::<u8>().is_ok();
            if words.last().is_some_and(is_number) {
                words.pop();
            }
            let target = rest.next()?;
            writes |= target.text != "/dev/null" && !(word.text.ends_with('&') && target.text.parse::<u8>().is_ok());
        } else if word.text.starts_with('<') || word.text.starts_with('(') {
            return None;
        } else {
            let is_or = word.text == "||";
            let words = std::mem::take(&mut words);
            commands.push(ShellCommand { words, input: input.take(), writes, is_alternative: is_alternative || is_or });
            (writes, is_alternative) = (false, is_or);
        }
    }
    commands.push(ShellCommand { words, input, writes, is_alternative });
    Some(commands)
}

/// What stands for a here-document in the script that is left.
type HereDocuments = Vec<(String, String)>;

/// Takes the here-documents out of a script, and puts a mark where each was named. `None` where one is not closed, or a
/// shell would expand it.
fn here_documents(script: &str) -> Option<(String, HereDocuments)> {
    let (mut left, mut documents) = (String::new(), Vec::new());
    let mut lines = script.split_inclusive('\n');
    while let Some(line) = lines.next() {
        let Some((before, after)) = line.split_once("<<") else {
            left.push_str(line);
            continue;
        };
        let after = after.strip_prefix('-').unwrap_or(after);
        let word = after.split_whitespace().next()?;
        let name = word.trim_matches(['\'', '"']);
        if !is_name(name) {
            return None;
        }
        let mut body = String::new();
        loop {
            let next = lines.next()?;
            if next.trim() == name {
                break;
            }
            body.push_str(next);
        }
        if name.len() == word.len() && body.contains(['$', '`', '\\']) {
            return None;
        }
        let mark = format!("\u{0}{}", documents.len());
        left.push_str(&format!("{before} {mark} {}", after.split_once(word)?.1));
        documents.push((mark, body));
    }
    Some((left, documents))
}

/// The variables that a word names.
fn variable_names(text: &str) -> Vec<String> {
    let parts = text.split('$').skip(1);
    let names =
        parts.map(|part| part.trim_start_matches('{').split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next());
    names.flatten().filter(|name| is_name(name)).map(str::to_owned).collect()
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

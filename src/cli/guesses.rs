//! What people type who come from kubectl, Terraform or Flux, and what leads them on.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::collections::BTreeSet;
use std::ffi::OsString;

/// Commands of other tools, and what does the same here.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["apply", "deploy", "up", "install", "upgrade", "reconcile", "push"], "`stator sync` applies what git declares"),
    (
        &["delete", "destroy", "remove", "rm", "uninstall", "down", "prune"],
        "remove the model's folder from git, then run `stator sync`: it deletes the models that git no longer has",
    ),
    (
        &["new", "add", "generate"],
        "`stator init` creates a repository, `stator import` models from manifests, and `stator create source` a source",
    ),
    (&["list", "ls", "ps", "top"], "`stator status` lists the models"),
    (
        &["show", "inspect"],
        "`stator describe MODEL` shows everything about a model, and `stator plan` what would change",
    ),
    (&["preview"], "`stator plan` shows what would change"),
    (&["lint", "verify"], "`stator validate` checks every file"),
    (&["format"], "`stator fmt` formats every file"),
    (&["template", "build", "kustomize"], "`stator render` prints the Kubernetes objects"),
    (&["undo", "revert"], "`stator rollback MODEL` restores an earlier state of a model"),
    (&["pause"], "`stator suspend SOURCE` stops syncing a source"),
    (&["edit", "patch", "scale", "set"], "change the model.yaml in git, then run `stator sync`"),
    (
        &["adopt", "takeover"],
        "`stator import --from-cluster` writes models for running graphs; `stator sync --allow adopt` takes them over",
    ),
    (&["doctor", "preflight"], "`stator check` tells whether a cluster is ready"),
    (&["watch"], "`stator status --watch` follows the models"),
];

/// Options of other tools, and what does the same here. Those of Terraform have one dash.
const OPTIONS: &[(&[&str], &str)] = &[
    (&["f", "filename", "file", "k", "R"], "files and folders are arguments: `stator plan models/chat`"),
    (
        &["A", "all-namespaces", "all"],
        "a command works on one environment, which -e names; `stator get sources -A` lists the sources of all namespaces",
    ),
    (&["n", "namespace"], "an environment has its namespace; select it with -e"),
    (&["auto-approve", "approve", "force", "assume-yes"], "--yes skips the confirmation"),
    (&["target"], "models are arguments: `stator plan chat`"),
    (&["out"], "save a plan with `stator plan -o json > FILE`, and apply it with `stator sync --plan FILE`"),
    (&["destroy"], "remove the model's folder from git, then run `stator sync`"),
    (&["refresh-only", "detailed-exitcode"], "`stator plan --exit-code` ends with 1 when there are changes"),
];

/// Puts what was most likely meant in place of what clap guesses from the letters.
pub fn lead_on(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let text = |error: &clap::Error, kind| {
        let Some(ContextValue::String(text)) = error.get(kind) else { return None };
        Some(text.clone())
    };
    let tip = if error.kind() == ErrorKind::InvalidSubcommand {
        // Below `get` and `policy` the words are others.
        let first = arguments.iter().skip(1).find(|argument| !argument.as_encoded_bytes().starts_with(b"-"));
        let word = text(&error, ContextKind::InvalidSubcommand)
            .filter(|word| first.is_some_and(|first| first == word.as_str()));
        word.and_then(|word| advice(COMMANDS, &word.to_lowercase()))
    } else if error.kind() == ErrorKind::UnknownArgument {
        text(&error, ContextKind::InvalidArg).and_then(|word| advice(OPTIONS, word.trim_start_matches('-')))
    } else {
        None
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn advice(table: &[(&[&str], &str)], word: &str) -> Option<String> {
    let word = word.split('=').next().unwrap_or(word);
    table.iter().find(|(words, _)| words.contains(&word)).map(|(_, advice)| (*advice).to_owned())
}

/// A long option that is written with one dash, as Terraform has them: clap reads its letters one by one, and may make
/// something of them, as of `-exit-code` the environment `xit-code`.
pub fn refuse_single_dash(arguments: &[OsString], command: &Command) -> Option<clap::Error> {
    let used = arguments.iter().find_map(|argument| command.find_subcommand(argument));
    let commands = used.into_iter().chain([command]);
    let longs: Vec<&str> = commands.flat_map(Command::get_arguments).filter_map(clap::Arg::get_long).collect();
    // Behind `--` are arguments, and no options.
    let options = arguments.iter().take_while(|argument| *argument != "--");
    let (written, tip) = options.filter_map(|argument| argument.to_str()).find_map(|written| {
        let word = written.strip_prefix('-').filter(|word| !word.starts_with('-'))?;
        let name = word.split('=').next().filter(|name| name.len() > 1)?;
        let is_long = || longs.contains(&name).then(|| format!("long options have two dashes: --{name}"));
        Some((written, advice(OPTIONS, name).or_else(is_long)?))
    })?;
    let mut error = clap::Error::new(ErrorKind::UnknownArgument).with_cmd(used.unwrap_or(command));
    error.insert(ContextKind::InvalidArg, ContextValue::String(written.to_owned()));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    Some(error)
}

/// What `sync --dry-run` took as a word of its own.
const DRY_RUNS: [&str; 2] = ["client", "server"];

/// Flags that have another name since 0.1: of which command, the old and the new one.
pub const RENAMED_FLAGS: [(&str, &str, &str); 3] =
    [("validate", "format", "output"), ("controller", "source", "source-file"), ("rollback", "source", "source-file")];

/// Reads the names that commands and options had until 0.1, for one release. Gives the arguments by their names of today,
/// and what to say of each.
pub fn translate_renamed(arguments: Vec<OsString>) -> (Vec<OsString>, Vec<String>) {
    let is_option = |argument: &OsString| argument.as_encoded_bytes().first() == Some(&b'-');
    let behind_color = |at: usize| at.checked_sub(1).is_some_and(|before| arguments[before] == "--color");
    let verb = (1..arguments.len()).find(|at| !is_option(&arguments[*at]) && !behind_color(*at));
    let Some((at, verb)) = verb.and_then(|at| Some((at, arguments[at].to_str()?))) else {
        return (arguments, Vec::new());
    };
    let say = |old: &str, new: &str| format!("warning: `{old}` is now `{new}`; the old name works until 0.2");
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let (before, behind) = (arguments[..at].to_vec(), arguments[at + 1..].to_vec());
    if verb == "events" {
        let told = say("stator events", "stator history --events");
        return ([before, words(&["history", "--events"]), behind].concat(), vec![told]);
    }
    if verb == "diff" {
        // A diff ended with 1 where there was one, unless told otherwise.
        let (code, rest): (Vec<_>, Vec<_>) =
            behind.into_iter().partition(|word| word.as_encoded_bytes().starts_with(b"--exit-code"));
        let off = ["=false", "=no", "=off", "=n", "=f", "=0"];
        let is_off =
            code.last().and_then(|word| word.to_str()).is_some_and(|word| off.iter().any(|end| word.ends_with(end)));
        let plan = words(if is_off { &["plan", "--output=diff"] } else { &["plan", "--output=diff", "--exit-code"] });
        return ([before, plan, rest].concat(), vec![say("stator diff", "stator plan -o diff --exit-code")]);
    }
    if verb == "sync"
        && let Some(at) =
            arguments.windows(2).position(|two| two[0] == "--dry-run" && DRY_RUNS.iter().any(|one| two[1] == *one))
    {
        let mut arguments = arguments;
        let place = arguments.remove(at + 1).to_string_lossy().into_owned();
        arguments[at] = OsString::from(format!("--dry-run={place}"));
        return (arguments, vec![say(&format!("--dry-run {place}"), &format!("--dry-run={place}"))]);
    }
    let Some((_, old, new)) = RENAMED_FLAGS.iter().find(|(of, ..)| *of == verb) else { return (arguments, Vec::new()) };
    let (old, new) = (format!("--{old}"), format!("--{new}"));
    let mut told = BTreeSet::new();
    let translate = |word: OsString| match word.to_str().and_then(|word| word.strip_prefix(&*old)) {
        Some(rest) if rest.is_empty() || rest.starts_with('=') => {
            told.insert(say(&old, &new));
            OsString::from(format!("{new}{rest}"))
        }
        Some(_) | None => word,
    };
    let translated = arguments.into_iter().map(translate).collect();
    (translated, told.into_iter().collect())
}

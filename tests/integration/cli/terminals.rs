//! What a narrow terminal shows, and what a log of a pipeline gets.

use super::{crowd, fleet};
use crate::workbench::{Workbench, mask};
use insta::assert_snapshot;
use std::process::{Command, Stdio};

const OPERATOR: &[&str] = &["--wait", "--simulate-operator", "--simulate-speed", "1000"];

/// Runs on a terminal of so many columns, and gives what is on it.
fn on_terminal(bench: &Workbench, columns: usize, arguments: &[&str]) -> String {
    let words: Vec<_> = arguments.iter().map(|word| shlex_quote(word)).collect();
    let line = format!("{} {}", env!("CARGO_BIN_EXE_stator"), words.join(" "));
    let given = bench.command();
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(bench.root()).env_clear();
    command.envs(given.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("COLUMNS", columns.to_string()).env("TERM", "dumb").stdin(Stdio::null());
    let output = bench.finish(&mut command).success();
    output.stdout.replace('\r', "")
}

fn shlex_quote(word: &str) -> String {
    format!("'{word}'")
}

#[test]
fn narrow_terminals_are_told_what_they_do_not_see() {
    let bench = fleet();
    bench.run(["sync", "-e", "prod", "--yes", "-q"]).success();
    let ages = regex::Regex::new(r"\b\d+s\b").unwrap();
    let shown = |columns: usize, arguments: &[&str]| {
        let text = on_terminal(&bench, columns, arguments);
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
        ages.replace_all(&mask(&text, &bench.root()), "1s").into_owned()
    };
    assert_snapshot!(shown(80, &["status", "-e", "prod", "-q", "-o", "wide"]), @"
    NAME  SYNC    HEALTH   GPUS  REVISION  AGE  NAMESPACE  MESSAGE
    mock  Synced  Unknown  0     -         1s   models     the operator has not
                                                           observed it yet
    No room for KIND, SOURCE, LAST SYNC: widen the terminal, or use `-o json`.
    ");
    assert_snapshot!(shown(60, &["status", "-e", "prod", "-q"]), @"
    NAME  SYNC    HEALTH   GPUS  MESSAGE
    mock  Synced  Unknown  0     the operator has not observed
                                 it yet
    No room for REVISION, AGE: widen the terminal, or use `-o
    json`.
    ");
    assert_snapshot!(shown(60, &["history", "--events", "-e", "prod", "-q"]), @"
    TIME                  MODEL  RESULT  REVISION  MESSAGE
    [TIME]  mock   Synced  -         -
    ");
}

/// A log of a pipeline gets a line now and then, and not one for each step of each model.
#[test]
fn without_a_terminal_a_wait_is_a_few_lines() {
    let bench = crowd(13);
    let start = std::time::Instant::now();
    let output = bench.run([&["sync", "--yes"], OPERATOR].concat()).success();
    let seconds = start.elapsed().as_secs();
    let plan_end = output.stderr.rfind("Plan: ").unwrap();
    let lines: Vec<&str> = output.stderr[plan_end..].lines().skip(1).filter(|line| !line.is_empty()).collect();
    assert!(lines.len() as u64 <= 1 + seconds / 5 + 1, "{lines:#?}");
    // Whoever asks for every step has them.
    let bench = crowd(2);
    let output = bench.run([&["sync", "--yes", "-v"], OPERATOR].concat()).success();
    assert!(output.stderr.contains("applied DynamoGraphDeployment default/mock-0"), "{output}");
}

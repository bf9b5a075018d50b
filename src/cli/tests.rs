//! The command line as a whole.

use super::command;

#[test]
fn the_command_line_is_well_formed() {
    command().debug_assert();
}

/// Flags without a variable: those that override a guard, which a profile must not do for every command, and those that
/// say what is synced or checked at all.
const COMMAND_LINE_ONLY: [(&str, &str); 22] = [
    ("check", "dynamo"),
    ("check", "selector"),
    ("check", "write"),
    ("plan", "allow"),
    ("diff", "allow"),
    ("sync", "allow"),
    ("sync", "yes"),
    ("sync", "outside-windows"),
    ("sync", "source"),
    ("import", "force"),
    ("validate", "selector"),
    ("render", "selector"),
    ("plan", "selector"),
    ("diff", "selector"),
    ("sync", "selector"),
    ("status", "selector"),
    ("tree", "selector"),
    ("logs", "selector"),
    ("get models", "selector"),
    ("wait", "selector"),
    ("lock", "selector"),
    ("lsp", "stdio"),
];

/// Row U13 of the new user's list: a report is had as data in the same forms from every command.
#[test]
fn every_output_is_to_be_had_as_json_and_as_yaml() {
    fn check(command: &clap::Command, path: &str, seen: &mut usize) {
        for argument in command.get_arguments().filter(|argument| argument.get_id() == "output") {
            *seen += 1;
            let values = argument.get_possible_values();
            let takes = |value: &str| values.iter().any(|one| one.matches(value, false));
            assert!(takes("json") && takes("yaml"), "{path} -o");
            // One word for the form that a person reads, whatever the command calls it. Objects have no such form.
            assert!(path == "stator render" || (takes("text") && takes("table")), "{path} -o");
            assert_eq!(argument.get_short(), Some('o'), "{path}");
        }
        for verb in command.get_subcommands() {
            check(verb, &format!("{path} {}", verb.get_name()), seen);
        }
    }
    let mut seen = 0;
    check(&command(), "stator", &mut seen);
    assert!(seen >= 9, "{seen} commands have -o");
}

/// Row U13: a variable means one thing, so that it can be set for all commands.
#[test]
fn a_variable_is_of_one_kind_in_all_commands() {
    fn collect(
        command: &clap::Command,
        found: &mut std::collections::BTreeMap<String, std::collections::BTreeSet<String>>,
    ) {
        for argument in command.get_arguments() {
            let Some(variable) = argument.get_env() else { continue };
            let kind = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
            // A switch reads `true` and `false`, as a `BOOL` does.
            let kind = kind.filter(|kind| argument.get_action().takes_values() && kind != "BOOL");
            let kind = kind.unwrap_or_else(|| "switch".to_owned());
            found.entry(variable.to_string_lossy().into_owned()).or_default().insert(kind);
        }
        command.get_subcommands().for_each(|command| collect(command, found));
    }
    let mut found = std::collections::BTreeMap::new();
    collect(&command(), &mut found);
    let several: Vec<_> = found.iter().filter(|(_, kinds)| kinds.len() > 1).collect();
    // Of what `sync` reads, `client` and `server`, a rollback takes either as a yes: it changes no cluster anyway.
    insta::assert_snapshot!(format!("{several:?}"), @r#"[("STATOR_DRY_RUN", {"WHERE", "switch"})]"#);
}

#[test]
fn every_long_flag_has_a_variable_of_its_name() {
    fn check(command: &clap::Command, path: &str) {
        for argument in command.get_arguments().filter(|argument| !argument.is_positional()) {
            let Some(long) = argument.get_long().filter(|long| !matches!(*long, "help" | "version")) else { continue };
            let env = argument.get_env().map(|env| env.to_string_lossy().into_owned());
            let by_hand = COMMAND_LINE_ONLY.contains(&(path.trim_start_matches("stator "), long));
            assert_eq!(env, (!by_hand).then(|| super::variable_of(long)), "{path} --{long}");
            assert!(argument.get_help().is_some(), "{path} --{long} has no help");
        }
        for verb in command.get_subcommands() {
            assert!(verb.get_about().is_some(), "{path} {} has no help", verb.get_name());
            check(verb, &format!("{path} {}", verb.get_name()));
        }
    }
    check(&command(), "stator");
}

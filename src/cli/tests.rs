//! The command line as a whole.

use super::command;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn the_command_line_is_well_formed() {
    command().debug_assert();
}

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

/// Every flag of every command, with the command's path.
fn each_flag(command: &clap::Command, path: &str, look: &mut dyn FnMut(&str, &clap::Arg)) {
    command.get_arguments().filter(|argument| !argument.is_positional()).for_each(|argument| look(path, argument));
    for verb in command.get_subcommands() {
        assert!(verb.get_about().is_some(), "{path} {} has no help", verb.get_name());
        each_flag(verb, &format!("{path} {}", verb.get_name()), look);
    }
}

/// Row U13: a flag means one thing in all commands: it has one letter, one kind of value, and a variable of its name.
#[test]
fn a_flag_is_the_same_in_all_commands() {
    type Kinds = BTreeMap<String, BTreeSet<(Option<char>, String)>>;
    let (mut flags, mut letters) = (Kinds::new(), BTreeMap::<char, BTreeSet<String>>::new());
    each_flag(&command(), "stator", &mut |path, argument| {
        let Some(long) = argument.get_long() else { panic!("{path}: {argument} has no long name") };
        assert!(argument.get_help().is_some(), "{path} --{long} has no help");
        let value = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
        // A value that may be left out makes a switch of a flag.
        let is_needed = argument.get_num_args().is_none_or(|number| number.min_values() > 0);
        let value = value.filter(|_| argument.get_action().takes_values() && is_needed).unwrap_or_default();
        if let Some(variable) = argument.get_env() {
            assert_eq!(variable.to_string_lossy(), super::variable_of(long), "{path}");
        }
        flags.entry(long.to_owned()).or_default().insert((argument.get_short(), value));
        argument.get_short().into_iter().for_each(|short| {
            letters.entry(short).or_default().insert(long.to_owned());
        });
    });
    let several: Vec<_> = flags.iter().filter(|(_, kinds)| kinds.len() > 1).collect();
    assert!(several.is_empty(), "{several:?}");
    let several: Vec<_> = letters.iter().filter(|(_, flags)| flags.len() > 1).collect();
    assert!(several.is_empty(), "{several:?}");
}

/// The front page of the help is read in one look: every command has one line of a terminal.
#[test]
fn the_help_has_a_line_for_each_command() {
    let command = command().term_width(80);
    let help = command.clone().render_help().to_string();
    assert!(help.lines().count() <= 50 && help.lines().all(|line| line.len() <= 80), "{help}");
    let unnamed: Vec<&str> =
        command.get_subcommands().map(clap::Command::get_name).filter(|name| !help.contains(name)).collect();
    assert!(unnamed.is_empty(), "{unnamed:?}");
}

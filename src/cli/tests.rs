//! The command line as a whole.

use super::command;

#[test]
fn the_command_line_is_well_formed() {
    command().debug_assert();
}

#[test]
fn every_long_flag_has_a_variable_of_its_name() {
    fn check(command: &clap::Command, path: &str) {
        for argument in command.get_arguments().filter(|argument| !argument.is_positional()) {
            let Some(long) = argument.get_long().filter(|long| !matches!(*long, "help" | "version")) else { continue };
            let variable = format!("STATOR_{}", long.to_uppercase().replace('-', "_"));
            let env = argument.get_env().map(|env| env.to_string_lossy().into_owned());
            assert_eq!(env, Some(variable), "{path} --{long}");
            assert!(argument.get_help().is_some(), "{path} --{long} has no help");
        }
        for verb in command.get_subcommands() {
            assert!(verb.get_about().is_some(), "{path} {} has no help", verb.get_name());
            check(verb, &format!("{path} {}", verb.get_name()));
        }
    }
    check(&command(), "stator");
}

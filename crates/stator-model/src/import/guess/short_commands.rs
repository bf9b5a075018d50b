//! Commands that have a field of their own: a shell with `-c`, and Python with `-m`.

use crate::intent::model::ModelSpec;
use std::mem::take;

/// What a command is in short.
#[derive(Debug, PartialEq, Eq)]
enum ShortCommand {
    /// `[SHELL, -c]`.
    Shell(String),
    /// `[python3, -m, MODULE]`.
    Module(String),
}

/// Puts `shell` and `module` in place of commands that are exactly those.
pub fn shorten(spec: &mut ModelSpec) {
    let serving = spec.serving.iter_mut();
    for serving in serving {
        if let Some(frontend) = &mut serving.frontend
            && let Some(short) = frontend.command.as_deref().and_then(read)
        {
            frontend.command = None;
            match short {
                ShortCommand::Shell(shell) => frontend.shell = Some(shell),
                ShortCommand::Module(module) => frontend.module = Some(module),
            }
        }
        for worker in [&mut serving.worker, &mut serving.prefill, &mut serving.decode].into_iter().flatten() {
            if let Some(short) = worker.command.as_deref().and_then(read) {
                worker.command = None;
                match short {
                    ShortCommand::Shell(shell) => worker.shell = Some(shell),
                    ShortCommand::Module(module) => worker.module = Some(module),
                }
            }
        }
    }
    for component in spec.components.values_mut() {
        if let Some(short) = read(&component.command) {
            drop(take(&mut component.command));
            match short {
                ShortCommand::Shell(shell) => component.shell = Some(shell),
                ShortCommand::Module(module) => component.module = Some(module),
            }
        }
    }
}

fn read(command: &[String]) -> Option<ShortCommand> {
    match command {
        [shell, flag] if flag == "-c" && is_shell(shell) => Some(ShortCommand::Shell(shell.clone())),
        [python, flag, module] if python == "python3" && flag == "-m" && is_module(module) => {
            Some(ShortCommand::Module(module.clone()))
        }
        _ => None,
    }
}

fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    name.ends_with("sh") && !program.contains(char::is_whitespace) && !program.contains(['<', '>'])
}

fn is_module(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))
}

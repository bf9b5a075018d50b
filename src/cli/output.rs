//! Where text goes: results to standard output, everything else to standard error. What has the form of a token is hidden in
//! all of it, as the last line of defence. A question goes to a terminal only.

use super::args::{ColorWhen, GlobalArgs};
use super::error::{CliError, CliErrorKind};
use stator_core::mask;
use stator_model::present::{TerminalOptions, Tone, escape};
use std::io::{BufRead as _, IsTerminal as _, Write as _};

/// The two streams, and how each looks.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// How standard output looks.
    pub stdout_style: TerminalOptions,
    /// How standard error looks.
    pub stderr_style: TerminalOptions,
    quiet: bool,
}

impl Output {
    /// Streams of this process, with the options of the command line.
    pub fn new(common: &GlobalArgs) -> Self {
        let out = std::io::stdout();
        let err = std::io::stderr();
        let look = |color: bool, terminal: bool| TerminalOptions {
            color,
            width: if terminal { terminal_width() } else { None },
            verbose: common.verbose > 0,
            rows_only: false,
        };
        Self {
            stdout_style: look(use_color(common.color, anstream::AutoStream::choice(&out)), out.is_terminal()),
            stderr_style: look(use_color(common.color, anstream::AutoStream::choice(&err)), err.is_terminal()),
            quiet: common.quiet,
        }
    }

    /// The same streams, for what is done again and again: notes are said once.
    #[must_use]
    pub fn without_notes(self) -> Self {
        Self { quiet: true, ..self }
    }

    /// Writes a result.
    ///
    /// # Errors
    /// When the stream cannot be written; a reader that went away is an error of its own kind.
    pub fn write_result(&self, text: &str) -> Result<(), CliError> {
        self.write_verbatim(&mask::redact_tokens(text))
    }

    /// Writes a result with the tokens in it: what a command turns into another form, for a file or another program.
    ///
    /// # Errors
    /// As for [`Output::write_result`].
    pub fn write_verbatim(&self, text: &str) -> Result<(), CliError> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }

    /// Says something on standard error, unless `--quiet`. One line; the text is made harmless.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.warn(text);
        }
    }

    /// Says something on standard error in any case.
    pub fn warn(&self, text: &str) {
        self.write_stderr(&(escape::line(text) + "\n"));
    }

    /// Writes text that is already made for a terminal to standard error. A standard error that is closed is no reason
    /// to stop.
    pub fn write_stderr(&self, text: &str) {
        let _ = std::io::stderr().lock().write_all(mask::redact_tokens(text).as_bytes());
    }

    /// Says an error and what to do about it.
    pub fn report_error(&self, error: &CliError) {
        let mut text =
            format!("{}: {}\n", self.stderr_style.paint(Tone::Bad, "error"), escape::lines(&error.to_string()));
        for hint in error.hints() {
            text.push_str(&format!("{}: {}\n", self.stderr_style.paint(Tone::Strong, "hint"), escape::lines(hint)));
        }
        self.write_stderr(&text);
    }

    /// Asks on a terminal, and refuses without one.
    ///
    /// # Errors
    /// Where nobody can be asked, or the answer is no.
    pub fn confirm(&self, yes: bool, no_input: bool, question: &str) -> Result<(), CliError> {
        if yes {
            return Ok(());
        }
        let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if no_input || !terminal {
            return Err(CliError::usage("cannot ask for confirmation: standard input is not a terminal")
                .with_hint("pass --yes to skip the confirmation"));
        }
        let answer = self.read_answer(&format!("{question} [y/N] "))?;
        if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            Ok(())
        } else {
            Err(CliError::new(CliErrorKind::Refused, "aborted; nothing was changed"))
        }
    }

    /// Asks for a value on a terminal, and refuses without one.
    ///
    /// # Errors
    /// Where nobody can be asked, or the answer is empty; `hint` says how to give the value.
    pub fn ask(&self, no_input: bool, question: &str, hint: &str) -> Result<String, CliError> {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let answer = if no_input || !is_terminal { String::new() } else { self.read_answer(&format!("{question}: "))? };
        match answer.trim() {
            "" => Err(CliError::usage(format!("a value is missing: {}", question.to_lowercase())).with_hint(hint)),
            answer => Ok(answer.to_owned()),
        }
    }

    fn read_answer(&self, question: &str) -> Result<String, CliError> {
        self.write_stderr(question);
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        Ok(answer)
    }

    /// True with `--quiet`.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }
}

fn use_color(when: ColorWhen, automatic: anstream::ColorChoice) -> bool {
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto => automatic != anstream::ColorChoice::Never,
    }
}

/// The terminal's width: `COLUMNS` where it is set, as in every other program, else what the terminal says.
fn terminal_width() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|columns| *columns > 0);
    columns.or_else(|| terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)))
}

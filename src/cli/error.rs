//! Errors at the edge: what is said, what to do next, and the exit code.

use std::fmt;

/// How a command ended, as a process exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// All is well.
    Success = 0,
    /// An expected "no": findings, differences, a wait that ended in failure.
    Negative = 1,
    /// Bad usage, unreadable input, an unreachable cluster, or a bug.
    Error = 2,
    /// The time ran out.
    Timeout = 124,
    /// Ctrl-C.
    Interrupted = 130,
}

impl From<ExitStatus> for std::process::ExitCode {
    fn from(exit: ExitStatus) -> Self {
        Self::from(exit as u8)
    }
}

/// Whose fault it is, which decides the tone and the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CliErrorKind {
    /// The command line asks for something that cannot be.
    Usage,
    /// Files cannot be read, or say something that stops the whole command.
    Input,
    /// The cluster said no or did not answer.
    Cluster,
    /// An expected "no" that stops a command half-way.
    Refused,
    /// The time ran out.
    Timeout,
    /// Ctrl-C.
    Interrupted,
    /// The reader of our output went away.
    BrokenPipe,
    /// Our own fault.
    Bug,
}

/// An error as the user sees it.
#[derive(Clone, Debug)]
pub struct CliError {
    kind: CliErrorKind,
    message: String,
    hints: Vec<String>,
}

impl CliError {
    /// An error of a kind.
    pub fn new(kind: CliErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hints: Vec::new() }
    }

    /// With one more sentence about what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        if !hint.is_empty() {
            self.hints.push(hint);
        }
        self
    }

    /// Bad usage.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(CliErrorKind::Usage, message)
    }

    /// Unreadable or unusable input.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(CliErrorKind::Input, message)
    }

    /// Whose fault it is.
    pub fn kind(&self) -> CliErrorKind {
        self.kind
    }

    /// The sentences about what to do next.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The exit code that follows from the kind.
    pub fn exit_status(&self) -> ExitStatus {
        match self.kind {
            // `stator validate | head` is no failure.
            CliErrorKind::BrokenPipe => ExitStatus::Success,
            CliErrorKind::Refused => ExitStatus::Negative,
            CliErrorKind::Usage | CliErrorKind::Input | CliErrorKind::Cluster | CliErrorKind::Bug => ExitStatus::Error,
            CliErrorKind::Timeout => ExitStatus::Timeout,
            CliErrorKind::Interrupted => ExitStatus::Interrupted,
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(CliErrorKind::BrokenPipe, "the reader of the output closed the pipe");
        }
        let full = error.kind() == std::io::ErrorKind::StorageFull;
        let error = Self::input(error.to_string());
        if full { error.with_hint("free disk space and run the command again; no partial file is left") } else { error }
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(CliErrorKind::Bug, format!("the report cannot be written as JSON: {error}"))
    }
}

impl From<stator_git::source::SourceError> for CliError {
    fn from(error: stator_git::source::SourceError) -> Self {
        Self::input(error.to_string()).with_hint(error.help())
    }
}

impl From<stator_cluster::cluster::ClusterError> for CliError {
    fn from(error: stator_cluster::cluster::ClusterError) -> Self {
        let hint = error.help().into_owned();
        Self::new(CliErrorKind::Cluster, error.to_string()).with_hint(hint)
    }
}

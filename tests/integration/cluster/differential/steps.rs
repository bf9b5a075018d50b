//! What is done to an object: the steps of a sequence, and how they read when a sequence fails.

use serde_json::{Map, Value};
use stator_core::dynamo::kinds::{CLAIM, GRAPH, ObjectKind, RECORD, REQUEST};
use std::fmt;

/// What a sequence is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Graph,
    Claim,
    Request,
    Record,
}

impl Subject {
    pub fn kind(self) -> &'static ObjectKind {
        match self {
            Self::Graph => &GRAPH,
            Self::Claim => &CLAIM,
            Self::Request => &REQUEST,
            Self::Record => &RECORD,
        }
    }
}

/// A life of one object, from before its first apply.
#[derive(Clone)]
pub struct Sequence {
    pub subject: Subject,
    pub steps: Vec<Step>,
}

/// One step. Configurations and patches are without `apiVersion`, `kind` and the object's name.
#[derive(Clone, Debug)]
pub enum Step {
    Apply {
        manager: &'static str,
        config: Value,
        force: bool,
        dry_run: bool,
        /// Of the status subresource.
        status: bool,
        meant: Meant,
    },
    /// A JSON merge patch: an `Update` of that manager.
    Merge {
        manager: &'static str,
        patch: Value,
        status: bool,
    },
    Delete {
        meant: Meant,
    },
}

/// The preconditions of a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meant {
    pub uid: Which,
    pub version: Which,
}

/// Which value a precondition has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// There is no such precondition.
    #[default]
    Any,
    /// The object's own; that of nothing where there is no object.
    Live,
    /// One that the object does not have.
    Other,
}

pub fn apply(manager: &'static str, config: Value) -> Step {
    Step::Apply { manager, config, force: false, dry_run: false, status: false, meant: Meant::default() }
}

pub fn merge(manager: &'static str, patch: Value) -> Step {
    Step::Merge { manager, patch, status: false }
}

pub fn delete() -> Step {
    Step::Delete { meant: Meant::default() }
}

impl Step {
    pub fn forced(mut self) -> Self {
        if let Self::Apply { force, .. } = &mut self {
            *force = true;
        }
        self
    }

    /// Whether it is an apply with a map or list in the metadata that has nothing in it.
    pub fn empties_metadata(&self) -> bool {
        let Self::Apply { config, .. } = self else { return false };
        let empty = |name: &str| config["metadata"][name].as_object().is_some_and(Map::is_empty);
        empty("labels")
            || empty("annotations")
            || config["metadata"]["finalizers"].as_array().is_some_and(Vec::is_empty)
    }

    /// Through the status subresource.
    pub fn of_status(mut self) -> Self {
        match &mut self {
            Self::Apply { status, .. } | Self::Merge { status, .. } => *status = true,
            Self::Delete { .. } => {}
        }
        self
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::Live => "its own",
            Self::Other => "another",
        })
    }
}

impl fmt::Display for Meant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.uid != Which::Any {
            write!(f, ", meaning {} uid", self.uid)?;
        }
        if self.version != Which::Any {
            write!(f, ", meaning {} resource version", self.version)?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apply { manager, config, force, dry_run, status, meant } => {
                let words = [(*force, ", forced"), (*dry_run, ", dry run"), (*status, ", of the status")];
                let words: String = words.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect();
                write!(f, "apply by {manager}{words}{meant}: {config}")
            }
            Self::Merge { manager, patch, status } => {
                write!(f, "merge by {manager}{}: {patch}", if *status { " into the status" } else { "" })
            }
            Self::Delete { meant } => write!(f, "delete{meant}"),
        }
    }
}

/// A sequence is shown as the list of its steps, which is what a regression is written from.
impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}:", self.subject)?;
        self.steps.iter().enumerate().try_for_each(|(number, step)| writeln!(f, "  {number}. {step}"))
    }
}

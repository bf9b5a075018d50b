//! When the frontends of a model's graphs are asked what they serve: as rarely as a wait for adapters allows.

use stator_core::dynamo::served_models::FrontendService;
use std::collections::BTreeMap;
use std::time::Duration;

/// The first pause between two questions to one frontend, and the longest. Each is twice the one before.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// Answers in a row that say nothing, but may in a moment, before what is served counts as not known.
const MAX_SILENT_ANSWERS: u32 = 3;

/// The questions of one wait.
#[derive(Debug, Default)]
pub(super) struct FrontendQuestions {
    asked: BTreeMap<FrontendService, AskedFrontend>,
}

/// A frontend that was asked.
#[derive(Debug, Default)]
struct AskedFrontend {
    questions: u32,
    silent_answers: u32,
    /// When it may be asked again about the same.
    next: Duration,
}

impl FrontendQuestions {
    /// An answer came. True where it is worth to wait for a better one.
    pub(super) fn note_answer(&mut self, now: Duration, frontend: &FrontendService, is_silent: bool) -> bool {
        let asked = self.asked.entry(frontend.clone()).or_default();
        let doublings = asked.questions.min(16);
        asked.questions += 1;
        asked.silent_answers = if is_silent { asked.silent_answers + 1 } else { 0 };
        asked.next = now + PAUSES.1.min(PAUSES.0 * 2u32.pow(doublings));
        asked.silent_answers < MAX_SILENT_ANSWERS
    }

    /// When a frontend may be asked again about the same; at once where it never was.
    pub(super) fn next_question(&self, frontend: &FrontendService) -> Duration {
        self.asked.get(frontend).map(|asked| asked.next).unwrap_or_default()
    }
}

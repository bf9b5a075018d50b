//! A model that somebody is writing, before it is in git: what it would become, and what that would change. The program reads,
//! renders and plans it as it does a commit's; here is what is said of that.
//!
//! | File | What lives there |
//! |-|-|
//! | `target` | which file of which source a draft is for |
//! | `judged` | what the program made of a draft |
//! | `faults` | findings as faults of single fields, and what a draft may not change |
//! | `view` | what the API answers |

mod faults;
mod judged;
mod target;
#[cfg(test)]
pub(crate) mod tests;
mod view;

pub use judged::{JudgedDraft, MergedModel, ModelDraft, RefusedObject};
pub(crate) use target::MAX_FILE_LENGTH;
pub use target::{DraftCheck, DraftTarget, MAX_DRAFT_BYTES};
pub use view::{DraftHead, PlannedDraft, RenderedDraft};

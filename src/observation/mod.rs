//! What a process has seen of models and sources, for whoever shows it. Those that look write to a board, each for its own
//! sources; those that show read what is there as one observation.
//! Drafts of models are held against what is there.

mod board;
mod draft_basis;
mod proposals;
mod shown_beside;

pub use board::{ObservationBoard, RequestDesk, SourceRequests};
pub use draft_basis::{DraftBasis, DraftSource};
pub use proposals::{OpenedProposal, Proposal, ProposalDesk, ProposalHost, ProposalRefusal, ProposalRepository};
pub use shown_beside::{RecentEvents, commit_question, with_commits};

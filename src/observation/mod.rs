//! What a process has seen of models and sources, for whoever shows it. Those that look write to a board, each for its own
//! sources; those that show read what is there as one observation.
//! Drafts of models are held against what is there.

mod board;
mod commit_notes;
mod draft_basis;
mod proposals;
mod recent_events;
mod source_requests;

pub use board::ObservationBoard;
pub use commit_notes::{commit_question, with_commits};
pub use draft_basis::{DraftBasis, DraftSource};
pub use proposals::{OpenedProposal, Proposal, ProposalDesk, ProposalHost, ProposalRefusal, ProposalRepository};
pub use recent_events::RecentEvents;
pub use source_requests::{RequestDesk, SourceRequests};

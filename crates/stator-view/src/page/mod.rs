//! The pages. Each is made of views and printed once; everything that anybody may have written is escaped by the templates,
//! and what hides or turns text is made visible in the whole of a page at the end.

mod capacity;
mod changes;
mod form;
mod frame;
mod model;
mod models;
mod other;
mod pods;
mod pull_requests;
mod source;
mod sources;
mod text;

pub use capacity::capacity_page;
pub use changes::changes_page;
pub use form::{FormInput, FormPlace, form_page, text_digest};
pub use frame::{ASSETS, FORM_SCRIPT, FRAME_SCRIPT, LOG_SCRIPT, PageAsset, SCRIPT, STYLE, find_asset};
pub use model::model_page;
pub use models::{model_address, models_page};
pub use other::{api_page, problem_kind_page, problem_page, sign_in_page};
pub use pods::{log_page, tree_page};
pub use pull_requests::{previews_page, proposed_page};
pub use source::{action_page, source_address, source_page};
pub use sources::sources_page;
pub use text::is_shown_as_it_is;

#[cfg(test)]
mod tests;

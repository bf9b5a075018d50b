//! The list of models: a row each, filtered, ordered, counted and cut into pages.

pub(crate) mod filter;
pub(crate) mod list;
mod order;
pub(crate) mod query;
pub(crate) mod row;

pub use filter::ModelFilter;
pub use list::{HealthCounts, ModelListMetadata, ModelListView, ModelSelection};
pub use order::{ModelOrder, SortKey};
pub use query::{DEFAULT_LIMIT, MAX_LIMIT, ModelQuery};
pub use row::{ComponentCount, CostView, GpuCount, LastSyncView, ModelRow, SinceView};

#[cfg(test)]
mod tests;

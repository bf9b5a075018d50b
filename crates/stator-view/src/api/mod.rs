//! The API: a table of endpoints. Routes, answers and the OpenAPI document are made of it, so that none says what another
//! does not.

mod endpoint;
mod openapi;
mod table;
#[cfg(test)]
mod tests;

pub use endpoint::{ApiAnswer, ApiEndpoint, ApiParameter, ApiRequest, ParameterPlace};
pub use openapi::{OPENAPI_PATH, openapi};
pub use table::{ENDPOINTS, STREAM_PATH};

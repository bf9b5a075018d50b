//! From a commit's files to a plan: models are read (`intent`), rendered (`render`), compared (`plan`), shown (`present`),
//! or made of existing manifests (`import`). Pure: values in, values out.

pub mod import;
pub mod intent;
pub mod plan;
pub mod present;
pub mod render;

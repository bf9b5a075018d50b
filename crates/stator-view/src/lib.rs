//! What the pages and the API show. One view of models, sources and capacity is made of what a process has seen, and two
//! printers read it: JSON for programs, HTML for people. Pure: values in, values out.
//!
//! | File | What lives there |
//! |-|-|
//! | `facts` | what a process has seen: sources, models, records, live objects |
//! | `observation` | the facts at one moment, with a row for each model, made once and read by every answer |
//! | `recorded` | models as their records have them, where no repository is read |
//! | `reader` | who looks, and what of it they may see |
//! | `models/` | rows, filters, order, pages and counts |
//! | `model` | everything of one model |
//! | `link_template` | links to other tools |
//! | `way_out` | where a model is reached, and where else it is shown |
//! | `pod_logs` | the last lines of a container |
//! | `sources`, `capacity` | the other views |
//! | `draft/` | a model that somebody is writing: what it would become and change |
//! | `form/` | a form over a model's YAML |
//! | `problem` | what is answered where there is nothing to show, as RFC 9457 has it |
//! | `api/` | the table of endpoints: routes, answers and the OpenAPI document are made of it |
//! | `page/` | the pages |

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read the templates"))]

pub mod api;
pub mod capacity;
pub mod changes;
pub mod draft;
pub mod facts;
pub mod form;
pub mod link_template;
pub mod model;
pub mod models;
pub mod observation;
pub mod page;
pub mod pod_logs;
pub mod problem;
pub mod pull_requests;
mod query_string;
pub mod reader;
pub mod recorded;
#[cfg(test)]
mod samples;
pub mod source_action;
pub mod sources;
pub mod way_out;
mod words;

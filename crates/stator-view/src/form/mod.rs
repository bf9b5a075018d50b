//! A form over a model's YAML: what it shows is read from the text, and what somebody touches is changed in the text, where it
//! stands. Comments, order and fields that no form has stay.
//!
//! | File | What lives there |
//! |-|-|
//! | `fields` | every field of the form, and what it is in the model |
//! | `reading` | from the text to what fields show |
//! | `submission` | what a browser sends |
//! | `merging` | from what was touched to a text that others changed meanwhile |
//! | `writing` | from what was touched to the text |

mod fields;
mod merging;
mod reading;
mod submission;
#[cfg(test)]
mod tests;
mod writing;

pub use fields::{FORM_FIELDS, FieldGroup, FieldKind, FormField, ServingLayout, ServingMode};
pub use merging::{MergedText, merge_fields};
pub use reading::FormReading;
pub use submission::{FormAction, FormStart, FormSubmission};
pub use writing::{FormDraft, apply_submission};

/// What a new model starts from: a small one that renders.
pub const NEW_MODEL: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata:
  name: my-model
spec:
  model: Qwen/Qwen3-0.6B
  engine: vllm
  serving:
    worker:
      replicas: 1
";

//! The rules that importing judges by.

use stator_core::finding::Rule;

/// A document reads.
pub const UNREADABLE: Rule =
    Rule { id: "import/unreadable", summary: "A document is YAML or JSON from its first line to its last." };
/// A template is rendered before it is imported.
pub const TEMPLATE: Rule =
    Rule { id: "import/template", summary: "A Helm template is rendered before it is imported." };
/// An object has what makes it one.
pub const NOT_AN_OBJECT: Rule = Rule {
    id: "import/not-an-object",
    summary: "A document is a Kubernetes object: it has `apiVersion`, `kind` and a name.",
};
/// A kind is one that is known.
pub const UNKNOWN_KIND: Rule = Rule { id: "import/unknown-kind", summary: "A kind and its version are known." };
/// An object becomes part of a model.
pub const NOT_CARRIED: Rule =
    Rule { id: "import/not-carried", summary: "Everything in a manifest can be expressed in a model." };
/// A name is used once.
pub const DUPLICATE_NAME: Rule = Rule { id: "import/twice", summary: "Objects have different names." };
/// What is written is read back.
pub const NO_MODEL: Rule =
    Rule { id: "import/no-model", summary: "The model that was written is valid and renders to the manifest." };
/// Something is said in another way, or needs a look.
pub const DIFFERENCE_NOTE: Rule = Rule { id: "import/note", summary: "A harmless difference that should be reviewed." };

/// Every rule of this room.
pub const ALL: &[Rule] =
    &[NO_MODEL, DIFFERENCE_NOTE, NOT_AN_OBJECT, NOT_CARRIED, TEMPLATE, DUPLICATE_NAME, UNKNOWN_KIND, UNREADABLE];

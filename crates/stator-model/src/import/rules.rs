//! The rules that importing judges by.

stator_core::rules! {
    NO_MODEL = "import/no-model", "The model that was written is valid and renders to the manifest.";
    DIFFERENCE_NOTE = "import/note", "A harmless difference that should be reviewed.";
    NOT_AN_OBJECT = "import/not-an-object", "A document is a Kubernetes object: it has `apiVersion`, `kind` and a name.";
    NOT_CARRIED = "import/not-carried", "Everything in a manifest can be expressed in a model.";
    PLACEHOLDER = "import/placeholder", "A namespace is the name of one, and not a placeholder to be replaced by hand.";
    TEMPLATE = "import/template", "A Helm template is rendered before it is imported.";
    DUPLICATE_NAME = "import/twice", "Objects have different names.";
    UNKNOWN_KIND = "import/unknown-kind", "A kind and its version are known.";
    UNREADABLE = "import/unreadable", "A document is YAML or JSON from its first line to its last.";
}

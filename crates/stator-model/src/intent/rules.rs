//! Every rule that an intent, an overlay, a lock or a `stator.yaml` can break.

stator_core::rules! {
    FILE_UNREADABLE = "file/unreadable", "Every file of the repository can be read.";

    YAML_ANCHOR = "yaml/anchor", "A file has no anchors, aliases or merge keys.";
    YAML_DOCUMENTS = "yaml/documents", "A file holds one document.";
    YAML_DUPLICATE_KEY = "yaml/duplicate-key", "A map has each key only once.";
    YAML_EMPTY = "yaml/empty", "A file holds a document.";
    YAML_ENCODING = "yaml/encoding", "A file is UTF-8, without a byte order mark inside.";
    YAML_KEY = "yaml/key", "Keys are strings.";
    YAML_LEADING_ZERO = "yaml/leading-zero", "A number has no leading zero, which some readers take for octal.";
    YAML_NULL = "yaml/null", "A field has a value or is omitted; `null` is not allowed.";
    YAML_NUMBER = "yaml/number", "A number is finite, and an integer fits 64 bits.";
    YAML_SYNTAX = "yaml/syntax", "A file is valid YAML 1.2.";
    YAML_TAG = "yaml/tag", "Values have no tags.";
    YAML_TOO_BIG = "yaml/too-big", "A file has at most 1 MiB and 100 000 values.";
    YAML_TOO_DEEP = "yaml/too-deep", "Lists and maps are nested at most 64 deep.";

    SCHEMA_KIND = "schema/kind", "Each file has the kind that its name and place require.";
    SCHEMA_LENGTH = "schema/length", "Strings and lists are neither too short nor too long.";
    SCHEMA_MISSING = "schema/missing-field", "Required fields are set, in the file or by defaults.";
    SCHEMA_PATTERN = "schema/format", "Names, quantities, durations and images are well formed.";
    SCHEMA_RANGE = "schema/range", "Numbers are in range.";
    SCHEMA_REFUSED = "schema/refused", "A document decodes into stator's types.";
    SCHEMA_TYPE = "schema/type", "Each field has a value of its type.";
    SCHEMA_UNKNOWN_FIELD = "schema/unknown-field", "Only known fields are used.";
    SCHEMA_WORD = "schema/unknown-word", "A field with a fixed set of values has one of them.";

    LAYOUT_DUPLICATE_NAME = "layout/duplicate-name", "A model's name is unique in its environment.";
    LAYOUT_ENVIRONMENT_NAME = "layout/environment-name", "No environment is named `lock`: its overlays would be confused with locks.";
    LAYOUT_FILE_NAME = "layout/file-name", "Files are named `model.yaml`, `model.<environment>.yaml` or `stator.yaml`: others are not read.";
    LAYOUT_GLOB = "layout/glob", "`include` and `exclude` are valid globs.";
    LAYOUT_OVERLAY_ENVIRONMENT = "layout/overlay-environment", "An overlay is named after an environment of the repository.";
    LAYOUT_OVERLAY_NAME = "layout/overlay-name", "An overlay has no name, or the name of its intent.";
    LAYOUT_OVERLAY_ORPHAN = "layout/overlay-orphan", "An overlay is next to the `model.yaml` that it changes.";
    LAYOUT_PATTERN_UNMATCHED = "layout/pattern-unmatched", "Patterns of `include` match a model, and patterns of `exclude` are not misspelled.";

    DYNAMO_RELEASE = "platform/dynamo-release", "An environment names the release of Dynamo that its cluster serves.";

    LOCK_DAMAGED = "lock/damaged", "A lock is for its model and unchanged since `stator lock` wrote it.";
    LOCK_STALE = "lock/stale", "A lock is for the current target of the intent.";
    LOCK_UNUSED = "lock/unused", "A lock is next to a model with `sla`, and for an environment of the repository.";

    MODEL_ADAPTER_ENGINE = "model/adapter-engine", "Adapters need `serving` and an engine that can load them: vLLM.";
    MODEL_ADAPTER_NAME = "model/adapter-name", "Adapters have different names, and clients can tell them apart.";
    MODEL_ARGS = "model/args", "Flags that the operator reads are two items of `args`, flag and value.";
    MODEL_ARGS_CONTRADICT = "model/args-contradict", "Arguments and fields of a worker do not contradict each other.";
    MODEL_COMPONENTS = "model/components", "A graph has at most 25 components, with names that differ, and at most one endpoint picker.";
    MODEL_PROGRAM = "model/program", "A component's program is set only once: by `command`, `shell` or `module`.";
    MODEL_ENGINE = "model/engine", "The engine fits the way the model is served.";
    MODEL_ENV_INJECTED = "model/env-injected", "Variables that Dynamo's operator sets are not set by a model.";
    MODEL_ENV_SECRET = "model/env-secret", "Secrets are referred to by name, not written in plain text.";
    MODEL_FILE = "model/file", "A file that pods mount is in the model's folder, can be read, and fits into a ConfigMap.";
    MODEL_FILE_MOUNT = "model/file-mount", "A file is mounted into components that the model has, at a path that nothing else takes.";
    MODEL_FILE_SECRET = "model/file-secret", "A file that pods mount holds no secrets: every reader of the namespace's ConfigMaps sees it.";
    MODEL_GPUS = "model/gpus", "GPUs, nodes and parallel sizes fit each other.";
    MODEL_IGNORED = "model/ignored", "Every field that is set has an effect.";
    MODEL_IMAGE = "model/image", "Every component has one image, from `runtime` or `image`.";
    MODEL_IMAGE_ENGINE = "model/image-engine", "An image matches the model's engine.";
    MODEL_IMAGE_LATEST = "model/image-latest", "Images have a tag that does not move.";
    MODEL_KEY = "model/metadata-key", "Label and annotation keys are valid, and not those of stator or the operator.";
    MODEL_MANIFEST = "model/manifest", "An object of `spec.manifests` has an allowed kind, a unique name, and no fields that stator or the cluster writes.";
    MODEL_MEMORY = "model/memory", "A size of memory is one that a program can use.";
    MODEL_NAME_BUDGET = "model/name-budget", "Model and component names together are short enough for the objects made from them.";
    MODEL_OVERRIDE = "model/override", "An override changes an object that is rendered, and not its identity.";
    MODEL_ROLLOUT = "model/rollout", "A rollout can make progress.";
    MODEL_ROUTE = "model/route", "A route's hosts, path and weights are valid for a gateway, and it leads to a graph and overlaps with no other route.";
    MODEL_SCALING = "model/scaling", "Replicas, bounds and the planner's settings agree.";
    MODEL_SHAPE = "model/shape", "A model has `serving` or `sla`, and `serving` has one worker or prefill and decode.";
    MODEL_UNSET = "model/unset", "A field that is unset is set by a weaker layer.";
    MODEL_WEIGHTS = "model/weights", "Weights are pinned to an immutable revision, and have a volume of their own.";
    MODEL_WORKLOAD = "model/workload", "A workload has either a concurrency or a request rate.";

    POLICY_COMPILE = "policy/compile", "A policy is a valid CEL expression.";
    POLICY_FAILED = "policy/failed", "A policy gives true or false for every model.";
    POLICY_VIOLATED = "policy/violated", "A model complies with the policies of its repository and environment.";

    SECRET_IN_GIT = "secret/in-git", "No file of the repository holds a token or a private key.";
}

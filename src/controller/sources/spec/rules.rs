//! Every rule that a file of sources can break, besides those of its YAML and its schema.

stator_core::rules! {
    DOCUMENT = "source/document", "A file of sources holds `ModelSource` and `Secret` documents, and at least one source.";
    DUPLICATE = "source/duplicate", "Each source and each secret has its own name, and no two sources sync the same environment.";
    DURATION = "source/duration", "Durations are written as `30s`, `5m` or `1h30m`.";
    FORGE = "source/forge", "The settings for a git host are valid and complete.";
    PATH = "source/path", "A path leads to a folder of the repository.";
    REF = "source/ref", "A source follows one branch, tag, commit or range of versions.";
    SCHEDULE = "source/schedule", "Schedules are five cron fields in a time zone, and match at some time.";
    SECRET = "source/secret", "The secrets that a source names are in the file, with the keys that they are read for.";
    URL = "source/url", "Repositories are fetched over https or ssh, and without credentials in the address.";
}

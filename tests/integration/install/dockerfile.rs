//! The Dockerfile, as far as it can be judged without building an image.

use super::at;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// One instruction, its continuation lines joined.
#[derive(Debug)]
struct Instruction {
    word: String,
    rest: String,
}

/// The instructions of a Dockerfile.
fn instructions(text: &str) -> Vec<Instruction> {
    let mut all = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = open.take().map_or_else(|| line.to_owned(), |before| format!("{before} {line}"));
        if let Some(unfinished) = line.strip_suffix('\\') {
            open = Some(unfinished.trim_end().to_owned());
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        all.push(Instruction { word: word.to_owned(), rest: rest.trim().to_owned() });
    }
    assert!(open.is_none(), "the last line goes on");
    all
}

fn stages(all: &[Instruction]) -> Vec<&[Instruction]> {
    let starts: Vec<usize> = all.iter().enumerate().filter(|(_, one)| one.word == "FROM").map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([all.len()]);
    starts.iter().zip(ends).map(|(start, end)| &all[*start..end]).collect()
}

/// Whether an image is named by a tag that is not the newest one's, and by its digest.
fn is_pinned(image: &str) -> bool {
    static PINNED: LazyLock<regex::Regex> =
        LazyLock::new(|| regex::Regex::new("^[^:@]+(:[0-9]+/[^:@]+)?:([^:@]+)@sha256:[0-9a-f]{64}$").unwrap());
    PINNED.captures(image).is_some_and(|found| &found[2] != "latest")
}

/// The image that reads the file is one as well.
#[test]
fn whatever_is_fetched_to_build_the_image_is_named_by_its_digest() {
    let text = fs_err::read_to_string(at("deploy/Dockerfile")).unwrap();
    let frontend = text.lines().next().unwrap().strip_prefix("# syntax=").unwrap();
    assert!(is_pinned(frontend), "{frontend}");
    for (image, is_fine) in [
        ("rust:1.95.0-slim", false),
        ("rust@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082", false),
        ("rust:latest@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082", false),
        ("host:5000/rust:1@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082", true),
    ] {
        assert_eq!(is_pinned(image), is_fine, "{image}");
    }
}

#[test]
fn the_image_is_small_unprivileged_and_made_for_two_architectures() {
    let text = fs_err::read_to_string(at("deploy/Dockerfile")).unwrap();
    let all = instructions(&text);
    let known = ["ARG", "FROM", "RUN", "COPY", "WORKDIR", "ENV", "LABEL", "USER", "EXPOSE", "ENTRYPOINT"];
    for one in &all {
        assert!(known.contains(&one.word.as_str()), "{one:?}");
    }
    let stages = stages(&all);
    let mut names = BTreeSet::new();
    for stage in &stages {
        let words: Vec<&str> = stage[0].rest.split_whitespace().filter(|word| !word.starts_with("--")).collect();
        let base = words[0];
        // A base is a stage before, or an image with a tag and a digest.
        assert!(names.contains(base) || is_pinned(base), "{base} is not pinned");
        // What a stage copies from is a stage before it.
        for copy in stage.iter().filter(|one| one.word == "COPY") {
            let from = copy.rest.split_whitespace().find_map(|word| word.strip_prefix("--from="));
            assert!(from.is_none_or(|from| names.contains(from)), "{copy:?}");
        }
        if let ["AS", name] = words[1..] {
            names.insert(name);
        }
    }
    // Only the compiler's own architecture runs anything; the last stage is the target's, and runs nothing.
    assert!(stages[0][0].rest.starts_with("--platform=$BUILDPLATFORM "));
    let last = stages.last().unwrap();
    assert!(last[0].rest.contains("distroless") && last[0].rest.contains(":nonroot@sha256:"), "{:?}", last[0]);
    assert!(last.iter().all(|one| one.word != "RUN"), "there is no shell to run anything");
    let of = |word: &str| last.iter().rfind(|one| one.word == word).map(|one| one.rest.as_str()).unwrap_or_default();
    assert_eq!(of("USER"), "65532:65532");
    assert_eq!(of("ENTRYPOINT"), "[\"/usr/local/bin/stator\"]");
    assert!(last.iter().any(|one| one.word == "COPY" && one.rest.starts_with("LICENSE NOTICE ")));
    for label in ["title", "description", "licenses", "version", "revision"] {
        assert!(of("LABEL").contains(&format!("org.opencontainers.image.{label}=")), "{label}");
    }
    // Dependencies are compiled before the sources are there.
    let build = stages.iter().find(|stage| stage[0].rest.ends_with(" AS build")).unwrap();
    let place = |text: &str| build.iter().position(|one| one.rest.contains(text)).unwrap_or_else(|| panic!("{text}"));
    assert!(place("cargo chef cook") < place(". ."), "a change of a line would compile every dependency again");
    for command in ["cargo chef cook", "cargo build"] {
        assert!(build[place(command)].rest.contains(" --profile dist "), "{command} is not of what is given out");
    }
    for architecture in ["amd64) target=x86_64-", "arm64) target=aarch64-"] {
        assert!(text.contains(architecture), "{architecture}");
    }
}

/// Versions that stand in several places are one.
#[test]
fn its_versions_are_the_repositorys() {
    let text = fs_err::read_to_string(at("deploy/Dockerfile")).unwrap();
    let toolchain = fs_err::read_to_string(at("rust-toolchain.toml")).unwrap();
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    assert!(text.contains(&format!(" rust:{channel}-slim-")), "the Dockerfile's Rust is not {channel}");
    let version = env!("CARGO_PKG_VERSION");
    assert!(text.contains(&format!("ARG VERSION={version}\n")), "the Dockerfile's version is not {version}");
    let chart = fs_err::read_to_string(at("deploy/helm/stator/Chart.yaml")).unwrap();
    assert!(chart.contains(&format!("\nappVersion: {version}\n")), "the chart's version is not {version}");
}

/// What is not in the context cannot be compiled, and what is makes a build start anew.
#[test]
fn its_context_holds_what_the_program_is_made_of() {
    let ignore = fs_err::read_to_string(at("deploy/Dockerfile.dockerignore")).unwrap();
    let lines: Vec<&str> = ignore.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines[0], "*");
    let kept: BTreeSet<&str> = lines[1..].iter().map(|line| line.strip_prefix('!').unwrap()).collect();
    for name in &kept {
        assert!(at(name).exists(), "{name}");
    }
    for name in ["Cargo.toml", "Cargo.lock", "crates", "rust-toolchain.toml", "src", "crds", "LICENSE", "NOTICE"] {
        assert!(kept.contains(name), "{name}");
    }
    // Files outside of `src` and `crates` that the program includes lie in folders that are there.
    let mut folders = vec![at("src"), at("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs_err::read_to_string(&path).unwrap_or_default();
            let product = !path.to_string_lossy().contains("/tests");
            for (_, rest) in text.match_indices("include_").filter(|_| product).map(|(at, _)| text.split_at(at)) {
                let Some(path) = rest.split('"').nth(1).filter(|path| path.starts_with("../")) else { continue };
                let included = entry.path().parent().unwrap().join(path).canonicalize().unwrap();
                let from_root = included.strip_prefix(at(".").canonicalize().unwrap()).unwrap();
                let top = from_root.iter().next().unwrap().to_string_lossy();
                assert!(kept.contains(&*top), "{}", from_root.display());
            }
        }
    }
}

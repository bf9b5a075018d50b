//! What a target begins with: the repository's own test data.

use crate::targets::{DELIVERIES, FILE_MARK, FuzzTarget};
use serde_json::Value;
use stator_git::source::model_source::ForgeKind;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a folder whose names are like this.
fn files(folder: &str, like: impl Fn(&str) -> bool) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<(String, Vec<u8>)> = entries
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), path))
        .filter(|(name, _)| like(name))
        .map(|(name, path)| (name, fs::read(path).expect("a file")))
        .collect();
    files.sort();
    files
}

/// Commits, tags and keys that git's own tools made.
pub fn signatures(like: impl Fn(&str) -> bool) -> Vec<(String, Vec<u8>)> {
    files("tests/data/signatures", like)
}

/// Every file below a folder whose name is like this.
fn files_below(folder: &Path, like: &dyn Fn(&str) -> bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files_below(&path, like, found);
        } else if like(&path.file_name().expect("a name").to_string_lossy()) {
            found.push(path);
        }
    }
}

fn documented(file: &str) -> Vec<(String, Value)> {
    let file = fs::File::open(root().join("tests/data/forge").join(file)).expect("a file");
    let all: Vec<Value> = serde_json::from_reader(flate2::read::GzDecoder::new(file)).expect("JSON");
    all.into_iter()
        .map(|mut one| (one["event"].as_str().unwrap_or_default().to_owned(), one["payload"].take()))
        .collect()
}

fn webhooks() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (index, (host, _, event)) in DELIVERIES.iter().enumerate() {
        let file = if *host == ForgeKind::Gitlab { "gitlab-webhooks.json.gz" } else { "github-webhooks.json.gz" };
        for (_, payload) in documented(file).iter().filter(|(of, _)| of == event || *host == ForgeKind::Gitlab).take(20)
        {
            all.push([&[u8::try_from(index).expect("few")], payload.to_string().as_bytes()].concat());
        }
    }
    let others = [
        (4, r#"{"push":{"changes":[{"old":{"type":"branch","name":"a"},"new":{"type":"tag","name":"v1"}}]}}"#),
        (5, r#"{"changes":[{"refId":"refs/heads/main"}]}"#),
        (6, r#"{"pullrequest":{"id":4}}"#),
        (7, r#"{"pullRequest":{"id":5}}"#),
        (8, r#"{"id":"1","eventType":"git.push","resource":{"refUpdates":[{"name":"refs/heads/main"}]}}"#),
        (8, r#"{"id":"1","eventType":"git.pullrequest.updated","resource":{"pullRequestId":6}}"#),
    ];
    all.extend(others.map(|(index, body)| [&[index], body.as_bytes()].concat()));
    all
}

/// Every model of the examples, with the files that lead to it.
fn repositories() -> Vec<Vec<u8>> {
    let mut models = Vec::new();
    files_below(&root().join("examples"), &|name| name == "model.yaml", &mut models);
    files_below(&root().join("tests/data"), &|name| name == "model.yaml", &mut models);
    let repository = "apiVersion: stator.dev/v1alpha1\nkind: Repository\nmetadata: {name: models}\nspec:\n  environments:\n    prod: {namespace: serving}\n";
    let pieces = models.into_iter().map(|path| {
        let folder = path.parent().expect("a folder");
        let mut text = format!("{FILE_MARK}0\n{repository}{FILE_MARK}2\n").into_bytes();
        text.extend(fs::read(&path).expect("a file"));
        for (name, number) in [("model.prod.yaml", 3), ("model.lock.yaml", 4)] {
            if let Ok(content) = fs::read(folder.join(name)) {
                text.extend(format!("{FILE_MARK}{number}\n").into_bytes());
                text.extend(content);
            }
        }
        text
    });
    pieces.collect()
}

fn yaml() -> Vec<Vec<u8>> {
    let cases = fs::read(root().join("tests/data/yaml-test-suite/cases.json")).expect("a file");
    let cases: Vec<Value> = serde_json::from_slice(&cases).expect("JSON");
    let mut all: Vec<Vec<u8>> =
        cases.iter().filter_map(|case| Some(case["yaml"].as_str()?.as_bytes().to_vec())).collect();
    let mut files = Vec::new();
    files_below(&root().join("examples"), &|name| name.ends_with(".yaml"), &mut files);
    all.extend(files.into_iter().map(|path| fs::read(path).expect("a file")));
    all
}

/// Lines of git's protocol.
fn packet_lines(lines: &[&str]) -> Vec<u8> {
    let line = |text: &&str| if text.is_empty() { "0000".to_owned() } else { format!("{:04x}{text}", text.len() + 4) };
    lines.iter().map(line).collect::<String>().into_bytes()
}

fn refs() -> Vec<Vec<u8>> {
    let oid = "1".repeat(40);
    let first = format!("{oid} HEAD\0multi_ack side-band-64k symref=HEAD:refs/heads/main object-format=sha1\n");
    let (branch, tag, peeled) =
        (format!("{oid} refs/heads/main\n"), format!("{oid} refs/tags/v1\n"), format!("{oid} refs/tags/v1^{{}}\n"));
    let none = format!("{} capabilities^{{}}\0side-band-64k\n", "0".repeat(40));
    vec![
        packet_lines(&["# service=git-upload-pack\n", "", &first, &branch, &tag, &peeled, ""]),
        packet_lines(&["version 1", &first, &branch, ""]),
        packet_lines(&[&none, ""]),
        packet_lines(&["ERR access denied\n"]),
        packet_lines(&[&first, &format!("shallow {oid}\n"), ""]),
    ]
}

/// Packs as libgit2 makes them, alone and in the bands of an answer.
fn packs() -> Vec<Vec<u8>> {
    let packed = |bytes: &[u8]| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, bytes).expect("memory");
        encoder.finish().expect("memory")
    };
    let object =
        |kind: u8, size: u8, base: &[u8], content: &[u8]| [&[kind << 4 | size], base, &packed(content)].concat();
    let blob = object(3, 5, &[], b"hello");
    let delta = object(7, 5, &[1; 20], &[5, 5, 0b1001_0000, 5, 0]);
    let offset = object(6, 5, &[12], &[5, 5, 0b1001_0000, 5, 0]);
    let pack = |objects: &[&[u8]]| {
        let count = u32::try_from(objects.len()).expect("few").to_be_bytes();
        [&b"PACK\0\0\0\x02"[..], &count, &objects.concat(), &[0; 20]].concat()
    };
    let mut all = Vec::new();
    for pack in [pack(&[]), pack(&[&blob]), pack(&[&blob, &delta]), pack(&[&blob, &offset])] {
        let nak = packet_lines(&["NAK\n"]);
        let band = [format!("{:04x}\x01", pack.len() + 5).as_bytes(), &pack, b"0000"].concat();
        all.extend([[&nak[..], &band].concat(), [&nak[..], &pack].concat()]);
    }
    all
}

fn known_hosts() -> Vec<Vec<u8>> {
    let key = String::from_utf8(signatures(|name| name == "ssh-ed25519.sshpub").remove(0).1).expect("text");
    let key = key.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    [
        "git.example.com",
        "[git.example.com]:2222",
        "*.example.com,!a.example.com",
        "@revoked *",
        "@cert-authority *",
        "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg=",
        "# a comment",
    ]
    .map(|host| format!("{host} {key} comment\n").into_bytes())
    .to_vec()
}

fn keys() -> Vec<Vec<u8>> {
    let key = signatures(|name| name == "ssh-ecdsa.sshpub").remove(0).1;
    let options = b"a@example.com,*@b namespaces=\"git\",valid-after=\"20260101\",valid-before=\"20270101Z\" ";
    let asc = signatures(|name| name.ends_with(".asc")).into_iter().map(|(_, key)| [&[0][..], &key].concat());
    let ssh = signatures(|name| name.ends_with(".sshpub")).into_iter().map(|(_, key)| [&[1][..], &key].concat());
    asc.chain(ssh).chain([[&[2][..], options, &key].concat(), [&[3][..], &key].concat()]).collect()
}

fn objects() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for folder in ["tests/data/formats", "tests/data/dynamo"] {
        let mut files = Vec::new();
        files_below(&root().join(folder), &|name| name.ends_with(".json") || name.ends_with(".yaml"), &mut files);
        for path in files {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            for document in text.split("\n---\n").filter(|document| document.len() < 20_000) {
                let Ok(value) = serde_saphyr::from_str::<Value>(document) else { continue };
                if value["kind"] == "Model" || value["kind"] == "SyncJournal" {
                    all.push(value.to_string().into_bytes());
                }
            }
        }
    }
    all
}

fn queries() -> Vec<Vec<u8>> {
    let queries = [
        "namespace=a&namespace=b&sync=Synced&health=Healthy&search=q&sort=name&order=desc&limit=10&continue=eyJ9",
        "pod=a&container=b&lines=10&previous=true&timestamps=false&follow=true",
        "environment=prod&repository=models&owner=team&limit=0",
        "%00%ff=%zz&&&=;a+b",
        r#"{"commit":"0123456789abcdef","plan":"","reason":"x"}"#,
    ];
    queries.map(|query| query.as_bytes().to_vec()).to_vec()
}

/// Writes the target's seeds into a folder, a file each.
pub fn write(target: FuzzTarget, folder: &Path) {
    let seeds = match target {
        FuzzTarget::Webhook => webhooks(),
        FuzzTarget::Yaml => yaml(),
        FuzzTarget::Model => repositories(),
        FuzzTarget::Refs => refs(),
        FuzzTarget::Pack => packs(),
        FuzzTarget::KnownHosts => known_hosts(),
        FuzzTarget::Commit => signatures(|name| name.starts_with("commit-")).into_iter().map(|(_, raw)| raw).collect(),
        FuzzTarget::Keys => keys(),
        FuzzTarget::Object => objects(),
        FuzzTarget::Query => queries(),
    };
    assert!(!seeds.is_empty(), "no seeds");
    fs::create_dir_all(folder).expect("a folder");
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(folder.join(format!("seed-{number:04}")), seed).expect("a file");
    }
}

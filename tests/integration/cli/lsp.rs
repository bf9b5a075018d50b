//! `stator lsp`, as an editor talks to it.

use super::ROOT;
use crate::workbench::Workbench;
use lsp_server::{Message, Notification, Request, Response};
use serde_json::{Value, json};
use std::io::{BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use url::Url;

const MODEL: &str = "\
apiVersion: stator.dev/v1alpha1
kind: Model
metadata:
  name: chat
spec:
  model: Qwen/Qwen3-0.6B
  engine: vllm
  runtime: 1.2.0
  hardware: {gpu: l40s, gpusPerNode: 4}
  serving:
    worker:
      replicas: 1
";

/// An editor, and the server that it started.
struct Editor {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    root: std::path::PathBuf,
    requests: i32,
    /// Notifications that nobody waited for.
    heard: Vec<Notification>,
}

impl Editor {
    fn start(bench: &Workbench, args: &[&str]) -> Self {
        let mut server =
            bench.command().arg("lsp").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = server.stdin.take().unwrap();
        let output = BufReader::new(server.stdout.take().unwrap());
        let root = bench.path("");
        Self { server, input, output, root, requests: 0, heard: Vec::new() }
    }

    /// Started, and past the greeting.
    fn greeted(bench: &Workbench) -> Self {
        let mut editor = Self::start(bench, &["--stdio"]);
        let watching = json!({"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": true}}});
        let told = editor.ask("initialize", json!({"processId": null, "rootUri": null, "capabilities": watching}));
        assert_eq!(told["serverInfo"]["name"], "stator");
        assert_eq!(told["capabilities"]["hoverProvider"], true, "{told}");
        editor.tell("initialized", json!({}));
        editor
    }

    fn uri(&self, file: &str) -> String {
        Url::from_file_path(self.root.join(file)).unwrap().into()
    }

    fn send(&mut self, message: Message) {
        message.write(&mut self.input).unwrap();
    }

    fn tell(&mut self, method: &str, parameters: Value) {
        self.send(Message::Notification(Notification::new(method.to_owned(), parameters)));
    }

    fn request(&mut self, method: &str, parameters: Value) -> Response {
        self.requests += 1;
        self.send(Message::Request(Request::new(self.requests.into(), method.to_owned(), parameters)));
        loop {
            match Message::read(&mut self.output).unwrap().expect("the server goes on") {
                Message::Response(response) => return response,
                Message::Notification(notification) => self.heard.push(notification),
                // It asks to be told of files that change.
                Message::Request(request) => {
                    assert_eq!(request.method, "client/registerCapability");
                    self.send(Message::Response(Response::new_ok(request.id, json!(null))));
                }
            }
        }
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.request(method, parameters).response_result.unwrap()
    }

    fn open(&mut self, file: &str, text: &str) {
        let document = json!({"uri": self.uri(file), "languageId": "yaml", "version": 1, "text": text});
        self.tell("textDocument/didOpen", json!({"textDocument": document}));
    }

    fn change(&mut self, file: &str, version: i32, text: &str) {
        let document = json!({"uri": self.uri(file), "version": version});
        self.tell("textDocument/didChange", json!({"textDocument": document, "contentChanges": [{"text": text}]}));
    }

    /// The findings of a file, once those of this version are published.
    fn findings(&mut self, file: &str, version: Option<i32>) -> Value {
        let uri = self.uri(file);
        loop {
            let is_meant = |one: &Notification| {
                one.method == "textDocument/publishDiagnostics"
                    && one.params["uri"] == uri.as_str()
                    && one.params["version"] == json!(version)
            };
            if let Some(at) = self.heard.iter().rposition(is_meant) {
                let found = self.heard[at].params["diagnostics"].clone();
                self.heard.clear();
                return found;
            }
            match Message::read(&mut self.output).unwrap().expect("the server goes on") {
                Message::Notification(notification) => self.heard.push(notification),
                Message::Request(request) => self.send(Message::Response(Response::new_ok(request.id, json!(null)))),
                Message::Response(response) => panic!("{response:?}"),
            }
        }
    }

    fn place(&self, file: &str, line: u32, character: u32) -> Value {
        json!({"textDocument": {"uri": self.uri(file)}, "position": {"line": line, "character": character}})
    }

    fn labels(&mut self, file: &str, line: u32, character: u32) -> String {
        let place = self.place(file, line, character);
        let items = self.ask("textDocument/completion", place);
        let items = items.as_array().unwrap();
        items.iter().map(|item| item["label"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    fn ends(mut self) -> Option<i32> {
        drop(self.input);
        self.server.wait().unwrap().code()
    }
}

fn shown(findings: &Value) -> String {
    let line = |one: &Value| {
        let (start, end) = (&one["range"]["start"], &one["range"]["end"]);
        format!(
            "{}:{}-{} {} {}",
            start["line"],
            start["character"],
            end["character"],
            one["code"].as_str().unwrap(),
            one["message"].as_str().unwrap()
        )
    };
    findings.as_array().unwrap().iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn faults_are_told_and_mended_while_they_are_typed() {
    let bench = Workbench::with(&[("stator.yaml", ROOT), ("models/chat/model.yaml", MODEL)]);
    let file = "models/chat/model.yaml";
    let mut editor = Editor::greeted(&bench);
    let wrong = MODEL.replace("engine: vllm", "engine: vlm").replace("replicas: 1", "maxModelLen: 8");
    editor.open(file, &wrong);
    let found = editor.findings(file, Some(1));
    insta::assert_snapshot!(shown(&found), @"
    6:10-13 schema/unknown-word `spec.engine` is `vlm`; expected one of `vllm`, `sglang`, `trtllm`, `mocker`, `custom`, `auto`
    fix: Did you mean `vllm`?
    11:6-17 schema/unknown-field unknown field `maxModelLen` in `spec.serving.worker`
    fix: Did you mean `maxLength`?
    ");
    let actions = editor.ask(
        "textDocument/codeAction",
        json!({"textDocument": {"uri": editor.uri(file)}, "range": found[0]["range"], "context": {"diagnostics": found}}),
    );
    let mends: Vec<String> = actions
        .as_array()
        .unwrap()
        .iter()
        .map(|action| {
            let edit = &action["edit"]["changes"][editor.uri(file)][0];
            format!("{}: {}", edit["range"]["start"]["line"], edit["newText"].as_str().unwrap())
        })
        .collect();
    assert_eq!(mends, ["6: vllm", "11: maxLength"]);
    // What is on the disk was right all the time.
    editor.change(file, 2, MODEL);
    assert_eq!(editor.findings(file, Some(2)), json!([]));
    // A model that was never saved counts, too: two of one name.
    editor.open("models/other/model.yaml", MODEL);
    assert_eq!(
        editor.request("textDocument/hover", json!({"nonsense": true})).response_result.unwrap_err().code,
        -32602
    );
    assert_eq!(editor.request("textDocument/rename", json!({})).response_result.unwrap_err().code, -32601);
    editor.tell("textDocument/didChange", json!(7));
    editor.tell("$/setTrace", json!({"value": "off"}));
    editor.ask("shutdown", json!(null));
    editor.tell("exit", json!(null));
    assert_eq!(editor.ends(), Some(0));
}

#[test]
fn what_may_be_written_is_proposed_and_explained() {
    let bench = Workbench::with(&[
        ("stator.yaml", ROOT),
        ("models/chat/model.yaml", MODEL),
        ("models/next/model.yaml", &MODEL.replace("chat", "next")),
    ]);
    let file = "models/chat/model.yaml";
    let mut editor = Editor::greeted(&bench);
    let unfinished = MODEL.to_owned()
        + "      \n  route:\n    gateway: {name: web}\n    canary: {weight: 5}\n  cache:\n    claim: weights\n";
    editor.open(file, &unfinished);
    editor.findings(file, Some(1));
    let names = editor.labels(file, 12, 6);
    assert!(names.contains("tensorParallel") && !names.split(' ').any(|name| name == "replicas"), "{names}");
    assert_eq!(editor.labels(file, 6, 10), "vllm sglang trtllm mocker custom auto");
    let place = editor.place(file, 9, 4);
    let hovered = editor.ask("textDocument/hover", place);
    assert!(hovered["contents"]["value"].as_str().unwrap().starts_with("`spec.serving` (object)"), "{hovered}");

    // Names of models, and the values that other models have.
    let referring = MODEL.to_owned() + "  route:\n    gateway: {name: web}\n    canary:\n      model: \n";
    editor.change(file, 2, &referring);
    editor.findings(file, Some(2));
    assert_eq!(editor.labels(file, 15, 13), "chat next");
    assert_eq!(editor.labels(file, 7, 11), "1.2.0");

    let place = json!({"textDocument": {"uri": editor.uri(file)}, "options": {"tabSize": 2, "insertSpaces": true}});
    editor.change(
        file,
        3,
        &MODEL.replace("  engine: vllm\n  runtime: 1.2.0\n", "  runtime:   1.2.0\n  engine: vllm\n"),
    );
    let edits = editor.ask("textDocument/formatting", place.clone());
    bench.write(file, edits[0]["newText"].as_str().unwrap());
    bench.run(["fmt", "--check"]).success();
    editor.change(file, 4, &bench.read(file));
    assert_eq!(editor.ask("textDocument/formatting", place), json!([]));
    // A file of others is nobody's business.
    editor.open("values.yaml", MODEL);
    let place = editor.place("values.yaml", 6, 4);
    assert_eq!(editor.ask("textDocument/hover", place), json!(null));
    // An editor that goes without a word.
    assert_eq!(editor.ends(), Some(1));
}

#[test]
fn what_a_change_would_do_stands_above_it() {
    let bench = Workbench::with(&[("stator.yaml", ROOT), ("models/chat/model.yaml", MODEL)]);
    bench.commit("a model");
    let file = "models/chat/model.yaml";
    let mut editor = Editor::greeted(&bench);
    editor.open(file, MODEL);
    editor.findings(file, Some(1));
    let lens = |editor: &mut Editor| {
        let document = json!({"textDocument": {"uri": editor.uri(file)}});
        let lenses = editor.ask("textDocument/codeLens", document);
        lenses
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["command"]["title"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
            .join("\n")
    };
    insta::assert_snapshot!(lens(&mut editor), @"
    prod: No changes: 1 object of 1 model is in the desired state
    staging: No changes: 1 object of 1 model is in the desired state
    ");
    editor.change(file, 2, &MODEL.replace("replicas: 1", "replicas: 3"));
    editor.findings(file, Some(2));
    insta::assert_snapshot!(lens(&mut editor), @"
    prod: Plan: 0 to create, 1 to change, 0 to delete, 0 unchanged · GPUs: 1 → 3 l40s (+2)
    staging: Plan: 0 to create, 1 to change, 0 to delete, 0 unchanged · GPUs: 1 → 3 l40s (+2)
    ");
    editor.ask("shutdown", json!(null));
    editor.tell("exit", json!(null));
    assert_eq!(editor.ends(), Some(0));
}

#[test]
fn what_is_no_editor_is_told_so() {
    let bench = Workbench::empty();
    for nonsense in
        [&b"hello\n"[..], b"Content-Length: 3\r\n\r\n{{{", b"Content-Length: x\r\n\r\n", b"\xff\xfe\r\n\r\n"]
    {
        let mut editor = Editor::start(&bench, &[]);
        // It may be gone before all is written.
        let _ = editor.input.write_all(nonsense);
        assert_eq!(editor.ends(), Some(2), "{nonsense:?}");
    }
}

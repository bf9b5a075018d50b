//! `stator lsp`: what the command line knows, in an editor, by the Language Server Protocol 3.17.

mod analysis;
mod answers;
mod buffers;
mod plan_lens;
mod positions;

use super::args::PolicyArgs;
use super::error::{CliError, CliErrorKind, ExitStatus};
use super::output::Output;
use analysis::Analyst;
use buffers::OpenBuffers;
use clap::Args;
use lsp_server::{Connection, ErrorCode, ExtractError, Message, Notification, Request, Response};
use lsp_types::notification::{
    DidChangeTextDocument, DidChangeWatchedFiles, DidCloseTextDocument, DidOpenTextDocument, DidSaveTextDocument,
    Notification as _,
};
use lsp_types::request::{
    CodeActionRequest, CodeLensRequest, Completion, Formatting, HoverRequest, RegisterCapability, Request as _,
};
use lsp_types::{
    ClientCapabilities, CodeActionKind, CodeActionOptions, CodeActionProviderCapability, CodeLensOptions,
    CompletionOptions, DidChangeWatchedFilesRegistrationOptions, FileSystemWatcher, GlobPattern,
    HoverProviderCapability, InitializeParams, OneOf, Registration, RegistrationParams, ServerCapabilities,
    TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

/// Run the language server
///
/// It shows findings as you type, completes and describes fields, fixes, formats, and shows the effect of a change. Speaks the Language Server Protocol on standard input and output. An editor starts it; see the page about editors in the
/// documentation.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 the editor shut it down; 1 the editor disconnected without a shutdown; 2 the editor's messages cannot be read."
)]
pub struct LspArgs {
    #[command(flatten)]
    policies: PolicyArgs,
    /// Accepted because many editors pass it; standard input and output are always used
    #[arg(long, hide = true)]
    stdio: bool,
}

/// Sends a message to the editor.
type MessageSink = Arc<dyn Fn(Message) + Send + Sync>;

pub fn run(arguments: &LspArgs, output: &Output) -> Result<ExitStatus, CliError> {
    let policies = arguments.policies.read_files()?;
    let (connection, threads) = Connection::stdio();
    let capabilities = serde_json::to_value(server_capabilities())?;
    let server_info = json!({"name": "stator", "version": env!("CARGO_PKG_VERSION")});
    let (id, parameters) = connection.initialize_start().map_err(protocol_error)?;
    let initialized = json!({"capabilities": capabilities, "serverInfo": server_info});
    connection.initialize_finish(id, initialized).map_err(protocol_error)?;
    let client: InitializeParams = serde_json::from_value(parameters).map_err(protocol_error)?;

    let sender = connection.sender.clone();
    // An editor that went away hears nothing, and the end of its input ends this.
    let sink: MessageSink = Arc::new(move |message| drop(sender.send(message)));
    if watches_files(&client.capabilities) {
        sink(Message::Request(watch_yaml_files()?));
    }
    let analyst = Analyst::start(policies, Arc::clone(&sink), output.without_notes());
    let mut server = LanguageServer { buffers: OpenBuffers::default(), analyst };
    let was_asked_to_end = server.serve(&connection, &sink)?;
    drop((server, connection, sink));
    match threads.join() {
        Ok(()) if was_asked_to_end => Ok(ExitStatus::Success),
        Ok(()) => Ok(ExitStatus::Negative),
        Err(error) => Err(protocol_error(error)),
    }
}

fn protocol_error(error: impl std::fmt::Display) -> CliError {
    CliError::new(CliErrorKind::Input, format!("the editor's messages cannot be read: {error}"))
        .with_hint("`stator lsp` is started by an editor; to check files by hand, run `stator validate`")
}

fn server_capabilities() -> ServerCapabilities {
    ServerCapabilities {
        text_document_sync: Some(TextDocumentSyncCapability::Options(TextDocumentSyncOptions {
            open_close: Some(true),
            change: Some(TextDocumentSyncKind::FULL),
            save: Some(lsp_types::TextDocumentSyncSaveOptions::Supported(true)),
            ..TextDocumentSyncOptions::default()
        })),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(vec![" ".to_owned(), ":".to_owned()]),
            ..CompletionOptions::default()
        }),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(vec![CodeActionKind::QUICKFIX]),
            ..CodeActionOptions::default()
        })),
        code_lens_provider: Some(CodeLensOptions { resolve_provider: Some(false) }),
        document_formatting_provider: Some(OneOf::Left(true)),
        ..ServerCapabilities::default()
    }
}

fn watches_files(client: &ClientCapabilities) -> bool {
    let watching = client.workspace.as_ref().and_then(|workspace| workspace.did_change_watched_files.as_ref());
    watching.is_some_and(|watching| watching.dynamic_registration == Some(true))
}

/// Asks for notifications of files that change beside those that are open: a pull, a checkout, another program.
fn watch_yaml_files() -> Result<Request, CliError> {
    let watcher = FileSystemWatcher { glob_pattern: GlobPattern::String("**/*.yaml".to_owned()), kind: None };
    let options = DidChangeWatchedFilesRegistrationOptions { watchers: vec![watcher] };
    let registration = Registration {
        id: "files".to_owned(),
        method: DidChangeWatchedFiles::METHOD.to_owned(),
        register_options: Some(serde_json::to_value(options)?),
    };
    let parameters = RegistrationParams { registrations: vec![registration] };
    Ok(Request::new("files".to_owned().into(), RegisterCapability::METHOD.to_owned(), parameters))
}

/// What an editor talks to.
struct LanguageServer {
    buffers: OpenBuffers,
    analyst: Analyst,
}

impl LanguageServer {
    /// Answers until the editor ends it. Whether it did so as the protocol has it.
    fn serve(&mut self, connection: &Connection, sink: &MessageSink) -> Result<bool, CliError> {
        for message in &connection.receiver {
            match message {
                Message::Request(request) => {
                    if connection.handle_shutdown(&request).map_err(protocol_error)? {
                        return Ok(true);
                    }
                    sink(Message::Response(self.answer(request)));
                }
                Message::Notification(notification) => self.hear(notification),
                // To the one request that is made, to which any answer will do.
                Message::Response(_) => {}
            }
        }
        Ok(false)
    }

    fn answer(&self, request: Request) -> Response {
        let id = request.id.clone();
        let method = request.method.clone();
        let answered = match method.as_str() {
            HoverRequest::METHOD => handle::<HoverRequest>(request, |asked| answers::hover(&self.buffers, &asked)),
            Completion::METHOD => handle::<Completion>(request, |asked| {
                answers::completion(&self.buffers, &asked, &self.analyst.known_values()).map(Into::into)
            }),
            CodeActionRequest::METHOD => {
                handle::<CodeActionRequest>(request, |asked| Some(answers::code_actions(&self.buffers, &asked)))
            }
            CodeLensRequest::METHOD => {
                handle::<CodeLensRequest>(request, |asked| Some(self.analyst.lenses(&asked.text_document.uri)))
            }
            Formatting::METHOD => handle::<Formatting>(request, |asked| answers::formatting(&self.buffers, &asked)),
            _ => {
                let message = format!("stator does not serve `{method}`");
                return Response::new_err(id, ErrorCode::MethodNotFound as i32, message);
            }
        };
        match answered {
            Ok(value) => Response::new_ok(id, value),
            Err(message) => Response::new_err(id, ErrorCode::InvalidParams as i32, message),
        }
    }

    fn hear(&mut self, notification: Notification) {
        let method = notification.method.clone();
        let heard = match method.as_str() {
            DidOpenTextDocument::METHOD => {
                parameters::<DidOpenTextDocument>(notification).map(|opened| self.buffers.open(opened.text_document))
            }
            DidChangeTextDocument::METHOD => parameters::<DidChangeTextDocument>(notification)
                .map(|changed| self.buffers.change(&changed.text_document, changed.content_changes)),
            DidCloseTextDocument::METHOD => parameters::<DidCloseTextDocument>(notification)
                .map(|closed| self.buffers.close(&closed.text_document.uri)),
            DidSaveTextDocument::METHOD | DidChangeWatchedFiles::METHOD => Ok(()),
            _ => return,
        };
        match heard {
            Ok(()) => self.analyst.look_again(self.buffers.clone()),
            Err(error) => tracing::warn!(method, error, "a message of the editor is passed over"),
        }
    }
}

fn handle<R: lsp_types::request::Request>(
    request: Request,
    answer: impl FnOnce(R::Params) -> R::Result,
) -> Result<Value, String> {
    match request.extract::<R::Params>(R::METHOD) {
        Ok((_, asked)) => serde_json::to_value(answer(asked)).map_err(|error| error.to_string()),
        Err(ExtractError::MethodMismatch(other)) => Err(format!("`{}` is another request", other.method)),
        Err(ExtractError::JsonError { method: _, error }) => Err(error.to_string()),
    }
}

fn parameters<N: lsp_types::notification::Notification>(notification: Notification) -> Result<N::Params, String>
where
    N::Params: DeserializeOwned,
{
    match notification.extract::<N::Params>(N::METHOD) {
        Ok(parameters) => Ok(parameters),
        Err(ExtractError::MethodMismatch(other)) => Err(format!("`{}` is another notification", other.method)),
        Err(ExtractError::JsonError { method: _, error }) => Err(error.to_string()),
    }
}

//! What a source is to follow.

use super::CreateSourceArgs;
use crate::cli::error::CliError;
use crate::cli::output::Output;
use crate::cli::repository::{self, OpenedRepository};
use stator_core::mask;
use stator_git::source::path_in_work_tree;
use stator_git::source::restore::PushRemote;
use stator_git::source::url::{AllowedSchemes, RepositoryUrl, UrlScheme};
use std::path::Path;

/// What a source is to follow: as the options say, or the clone in the current folder.
pub(super) struct Followed {
    pub url: String,
    pub address: RepositoryUrl,
    pub branch: String,
    pub folder: Option<String>,
    pub environment: Option<String>,
    /// The environment's.
    pub namespace: Option<String>,
}

impl Followed {
    pub(super) fn of(arguments: &CreateSourceArgs, output: &Output) -> Result<Self, CliError> {
        let opened = repository::open(Path::new("."), &output.without_notes()).ok();
        let remote = opened.as_ref().and_then(|opened| PushRemote::of(&opened.checkout.root));
        let origin = remote.as_ref().map(|remote| remote.url.clone());
        let schemes = AllowedSchemes { insecure: true, local: true };
        let place = |url: &String| {
            let url = RepositoryUrl::parse(url, schemes).ok()?;
            let (owner, name) = url.repository()?;
            Some((url.host().to_owned(), owner.to_owned(), name.to_owned()))
        };
        // Another repository than this clone's is not described by it.
        let is_elsewhere = arguments.url.is_some() && arguments.url.as_ref().map(place) != origin.as_ref().map(place);
        let (opened, remote) = if is_elsewhere { (None, None) } else { (opened, remote) };
        let url = match arguments.url.clone().or(origin) {
            Some(url) => url,
            None => output.ask(arguments.no_input, "Address of the repository", "pass it with --url")?,
        };
        let address = RepositoryUrl::parse(&url, schemes).map_err(|error| {
            CliError::input(format!("`{}`: {error}", mask::redact_tokens(&url)))
                .with_hint("pass its address with --url")
        })?;
        if address.scheme() == UrlScheme::Local {
            return Err(CliError::input("a source in a cluster cannot follow a folder of this machine")
                .with_hint("pass the https:// or ssh:// address of the repository with --url"));
        }
        let known = opened.as_ref().map(|opened| opened.workspace.environment_names()).unwrap_or_default();
        let environment = match (&arguments.environment, known.as_slice()) {
            (Some(name), _) => Some(name.clone()),
            (None, []) => None,
            (None, [only]) => Some(only.clone()),
            (None, several) => {
                let question = format!("Environment ({})", several.join(", "));
                Some(output.ask(arguments.no_input, &question, "pass one with --environment")?)
            }
        };
        let resolve = |opened: &OpenedRepository| opened.workspace.resolve_environment(environment.as_deref());
        let resolved = opened.as_ref().map(resolve).transpose()?;
        let folder = opened.map(|opened| path_in_work_tree(&opened.checkout.root)).filter(|folder| !folder.is_empty());
        Ok(Self {
            branch: arguments
                .branch
                .clone()
                .or(remote.map(|remote| remote.branch))
                .unwrap_or_else(|| "main".to_owned()),
            folder: arguments.folder.clone().or(folder),
            namespace: resolved.map(|resolved| resolved.environment.namespace.to_string()),
            url,
            address,
            environment,
        })
    }
}

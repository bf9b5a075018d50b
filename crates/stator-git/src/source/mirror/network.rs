//! What a mirror asks its host: what refs there are, and objects.

use super::error::MirrorError;
use super::{Mirror, MirrorTraffic, RemoteRefs, store};
use crate::source::transport::{self, FetchRequest, GitOperation, GitSession, TransportError, http_client};
use crate::source::url::UrlScheme;
use git2::{AutotagOption, ErrorClass, FetchOptions, Oid, RemoteCallbacks};
use std::path::Path;
use std::sync::Arc;

impl Mirror {
    /// How often the host was asked since the mirror was opened.
    pub fn traffic(&self) -> MirrorTraffic {
        self.host.traffic
    }

    /// The refs of the repository at the moment. One request.
    pub(super) fn list_refs(&mut self) -> Result<RemoteRefs, MirrorError> {
        match self.remote.url.scheme() {
            UrlScheme::Local => {
                let repository = store::open_local(Path::new(self.remote.url.path()))?;
                return RemoteRefs::from_repository(&repository, self.remote.limits.max_refs);
            }
            UrlScheme::Https | UrlScheme::Http | UrlScheme::Ssh => {}
        }
        // A host that has moved back must be found as well.
        self.host.base = None;
        let session = self.open_session()?;
        let listed = transport::open_stream(&session, GitOperation::ListRefs)
            .and_then(|mut stream| transport::read_advert(&mut stream, &session));
        self.record_traffic(&session);
        let advertised = listed?;
        if advertised.capability_value("object-format").is_some_and(|format| format != "sha1") {
            return Err(MirrorError::Sha256);
        }
        self.host.base = session.base();
        self.host.capabilities = Some(advertised.capabilities.clone());
        Ok(RemoteRefs::from_host(&advertised))
    }

    /// Brings objects in, with that many commits of history; `i32::MAX` for all of it. With one commit, nothing is asked
    /// for what is here already.
    pub(super) fn fetch_objects(&mut self, wants: &[Oid], depth: i32) -> Result<(), MirrorError> {
        let is_local = self.remote.url.scheme() == UrlScheme::Local;
        let missing = {
            let odb = self.odb()?;
            // A repository of this machine may have new packs.
            odb.refresh().map_err(|error| MirrorError::Damaged { reason: error.message().to_owned() })?;
            wants.iter().find(|want| !odb.exists(**want)).copied()
        };
        match missing {
            None if is_local || depth == 1 => return Ok(()),
            Some(want) if is_local => return Err(MirrorError::NoCommit { commit: want.to_string() }),
            Some(_) | None => {}
        }
        if self.host.capabilities.is_none() {
            self.list_refs()?;
        }
        let session = self.open_session()?;
        let capabilities = self.host.capabilities.clone().unwrap_or_default();
        let wanted = FetchRequest { session: Arc::clone(&session), capabilities, objects: wants.to_vec() };
        let done = self.download(&wanted, depth);
        self.record_traffic(&session);
        if done.is_err() {
            // Whatever was known of the host may be what went wrong.
            self.host.capabilities = None;
        }
        done?;
        let odb = self.odb()?;
        match wants.iter().find(|want| !odb.exists(**want)) {
            Some(want) => Err(MirrorError::NoCommit { commit: want.to_string() }),
            None => Ok(()),
        }
    }

    fn download(&self, wanted: &FetchRequest, depth: i32) -> Result<(), MirrorError> {
        let session = &wanted.session;
        let entered = transport::register_fetch(wanted.clone())?;
        let limits = session.limits();
        let mut callbacks = RemoteCallbacks::new();
        callbacks.transfer_progress(|progress| {
            let many =
                TransportError::TooMuch { host: session.host(), limit: limits.max_objects as u64, what: "objects" };
            let going = if progress.total_objects() > limits.max_objects { Err(many) } else { session.check_running() };
            going.map_err(|error| session.record_failure(error)).is_ok()
        });
        let can_cut = wanted.capabilities.split(' ').any(|capability| capability == "shallow");
        let mut options = FetchOptions::new();
        options.remote_callbacks(callbacks).download_tags(AutotagOption::None).update_fetchhead(false);
        options.depth(if can_cut { depth } else { 0 });
        let names: Vec<String> = wanted.ref_names().iter().map(|name| format!("+{name}:{name}")).collect();
        let repository = self.store.repository();
        let fetched = repository
            .remote_anonymous(&entered.address())
            .and_then(|mut remote| remote.download(&names, Some(&mut options)));
        fetched.map_err(|error| match session.take_failure() {
            Some(TransportError::Remote { message, .. }) => remote_error(session, &wanted.objects, message),
            Some(failure) => MirrorError::Transport(failure),
            None => self.fetch_error(session, &wanted.objects, &error),
        })
    }

    /// Why libgit2 gave up on what the host sent.
    fn fetch_error(&self, session: &GitSession, wants: &[Oid], error: &git2::Error) -> MirrorError {
        let message = session.redacted_text(error.message().as_bytes());
        if let Some(said) = message.strip_prefix("remote error: ") {
            return remote_error(session, wants, said.to_owned());
        }
        let class = error.class();
        if matches!(class, ErrorClass::Os | ErrorClass::Filesystem) {
            return self.store.write_error(&message);
        }
        // What is told to the host is read out of the mirror, and what a commit in it says of its author may be none.
        let ours =
            [ErrorClass::Odb, ErrorClass::Object, ErrorClass::Reference, ErrorClass::Repository, ErrorClass::Invalid];
        if ours.contains(&class) {
            return MirrorError::Damaged { reason: message };
        }
        MirrorError::Transport(TransportError::Protocol { host: session.host(), reason: message })
    }

    fn open_session(&mut self) -> Result<Arc<GitSession>, MirrorError> {
        let http = match (self.remote.url.scheme(), &self.host.http) {
            (UrlScheme::Https | UrlScheme::Http, None) => Some(http_client(&self.remote)?),
            (_, http) => http.clone(),
        };
        self.host.http.clone_from(&http);
        Ok(Arc::new(GitSession::new(self.remote.clone(), http, self.host.base.clone())))
    }

    fn record_traffic(&mut self, session: &GitSession) {
        let (requests, received) = session.traffic();
        self.host.traffic.requests += requests;
        self.host.traffic.received += received;
    }
}

/// What git on the host says instead of giving out objects.
fn remote_error(session: &GitSession, wants: &[Oid], message: String) -> MirrorError {
    match wants {
        [want, ..] if message.contains("not our ref") || message.contains("unadvertised object") => {
            MirrorError::NoCommit { commit: want.to_string() }
        }
        _ => MirrorError::Transport(TransportError::Remote { host: session.host(), message }),
    }
}

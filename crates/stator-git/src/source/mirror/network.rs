//! What a mirror asks its host: what refs there are, and objects.

use super::{Advert, Mirror, MirrorError, store};
use crate::source::transport::{self, Session, Step, TransportError, Wanted, client, http::Http};
use crate::source::url::Scheme;
use git2::{AutotagOption, ErrorClass, FetchOptions, Oid, RemoteCallbacks};
use std::path::Path;
use std::sync::Arc;

/// How often a mirror has asked its host, and how much came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests sent.
    pub requests: u64,
    /// Bytes received, headers not counted.
    pub received: u64,
}

/// What a mirror knows of its host from one call to the next.
#[derive(Default)]
pub(super) struct Host {
    /// Kept for its connections.
    http: Option<Http>,
    /// What the host's git can do, from its last list of refs.
    capabilities: Option<String>,
    /// Where the host's list of refs was found when it had moved.
    base: Option<url::Url>,
    traffic: Traffic,
}

impl Host {
    /// The host after its login has changed: connections and what it said before are not taken over.
    pub(super) fn after(before: &Self) -> Self {
        Self { traffic: before.traffic, ..Self::default() }
    }
}

impl Mirror {
    /// How often the host was asked since the mirror was opened.
    pub fn traffic(&self) -> Traffic {
        self.host.traffic
    }

    /// The refs of the repository at the moment. One request.
    pub(super) fn advert(&mut self) -> Result<Advert, MirrorError> {
        match self.remote.url.scheme() {
            Scheme::Local => {
                let repository = store::local(Path::new(self.remote.url.path()))?;
                return Advert::of(&repository, self.remote.limits.refs);
            }
            Scheme::Https | Scheme::Http | Scheme::Ssh => {}
        }
        // A host that has moved back must be found as well.
        self.host.base = None;
        let session = self.session()?;
        let listed =
            transport::open(&session, Step::List).and_then(|mut stream| transport::read_advert(&mut stream, &session));
        self.account(&session);
        let advertised = listed?;
        if advertised.value("object-format").is_some_and(|format| format != "sha1") {
            return Err(MirrorError::Sha256);
        }
        self.host.base = session.base();
        self.host.capabilities = Some(advertised.capabilities.clone());
        Ok(Advert::from_host(&advertised))
    }

    /// Brings objects in, with that many commits of history; `i32::MAX` for all of it. With one commit, nothing is asked
    /// for what is here already.
    pub(super) fn bring(&mut self, wants: &[Oid], depth: i32) -> Result<(), MirrorError> {
        let is_local = self.remote.url.scheme() == Scheme::Local;
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
            self.advert()?;
        }
        let session = self.session()?;
        let capabilities = self.host.capabilities.clone().unwrap_or_default();
        let wanted = Wanted { session: Arc::clone(&session), capabilities, objects: wants.to_vec() };
        let done = self.download(&wanted, depth);
        self.account(&session);
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

    fn download(&self, wanted: &Wanted, depth: i32) -> Result<(), MirrorError> {
        let session = &wanted.session;
        let entered = transport::enter(wanted.clone())?;
        let limits = session.limits();
        let mut callbacks = RemoteCallbacks::new();
        callbacks.transfer_progress(|progress| {
            let many = TransportError::TooMuch { host: session.host(), limit: limits.objects as u64, what: "objects" };
            let going = if progress.total_objects() > limits.objects { Err(many) } else { session.goes_on() };
            going.map_err(|error| session.fail(error)).is_ok()
        });
        let can_cut = wanted.capabilities.split(' ').any(|capability| capability == "shallow");
        let mut options = FetchOptions::new();
        options.remote_callbacks(callbacks).download_tags(AutotagOption::None).update_fetchhead(false);
        options.depth(if can_cut { depth } else { 0 });
        let names: Vec<String> = wanted.names().iter().map(|name| format!("+{name}:{name}")).collect();
        let repository = self.store.repository();
        let fetched = repository
            .remote_anonymous(&entered.address())
            .and_then(|mut remote| remote.download(&names, Some(&mut options)));
        fetched.map_err(|error| match session.failure() {
            Some(TransportError::Remote { message, .. }) => refused(session, &wanted.objects, message),
            Some(failure) => MirrorError::Transport(failure),
            None => self.given_up(session, &wanted.objects, &error),
        })
    }

    /// Why libgit2 gave up on what the host sent.
    fn given_up(&self, session: &Session, wants: &[Oid], error: &git2::Error) -> MirrorError {
        let message = session.quote(error.message().as_bytes());
        if let Some(said) = message.strip_prefix("remote error: ") {
            return refused(session, wants, said.to_owned());
        }
        let class = error.class();
        if matches!(class, ErrorClass::Os | ErrorClass::Filesystem) {
            return self.store.failed(&message);
        }
        // What is told to the host is read out of the mirror, and what a commit in it says of its author may be none.
        let ours =
            [ErrorClass::Odb, ErrorClass::Object, ErrorClass::Reference, ErrorClass::Repository, ErrorClass::Invalid];
        if ours.contains(&class) {
            return MirrorError::Damaged { reason: message };
        }
        MirrorError::Transport(TransportError::Protocol { host: session.host(), reason: message })
    }

    fn session(&mut self) -> Result<Arc<Session>, MirrorError> {
        let http = match (self.remote.url.scheme(), &self.host.http) {
            (Scheme::Https | Scheme::Http, None) => Some(client(&self.remote)?),
            (_, http) => http.clone(),
        };
        self.host.http.clone_from(&http);
        Ok(Arc::new(Session::new(self.remote.clone(), http, self.host.base.clone())))
    }

    fn account(&mut self, session: &Session) {
        let (requests, received) = session.traffic();
        self.host.traffic.requests += requests;
        self.host.traffic.received += received;
    }
}

/// What git on the host says instead of giving out objects.
fn refused(session: &Session, wants: &[Oid], message: String) -> MirrorError {
    match wants {
        [want, ..] if message.contains("not our ref") || message.contains("unadvertised object") => {
            MirrorError::NoCommit { commit: want.to_string() }
        }
        _ => MirrorError::Transport(TransportError::Remote { host: session.host(), message }),
    }
}

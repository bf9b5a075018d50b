//! Git over SSH: one connection, one `git-upload-pack`, and bytes to and from it.
//!
//! A host is talked to only when its key is known beforehand. Nothing is learnt on the first visit.

#[cfg(test)]
mod tests;

use super::http::sanitize_text;
use super::{GitSession, GitStream, TransportError};
use crate::source::credentials::{GitLogin, SshIdentity};
use crate::source::ssh_keys::{HostKeyError, KnownHosts, RsaSignError, RsaSigner, SshSigningKey};
use bytes::{Buf as _, Bytes};
use russh::client::{AuthResult, Config, Handle, Handler, Msg, connect_stream};
use russh::keys::{HashAlg, PrivateKeyWithHashAlg, PublicKeyOrCertificate};
use russh::{AlgorithmKind, Channel, ChannelMsg, Preferred, SshId};
use std::borrow::Cow;
use std::io::{Error, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;

/// Bytes of what git says beside its answer that are kept for a message.
const MAX_STDERR_BYTES: usize = 2048;
/// Bytes that may be on the way before the other side waits.
const CHANNEL_WINDOW_BYTES: u32 = 2 << 20;

/// Opens a connection for listing refs and, on the same one, fetching.
pub(super) fn open_channel(session: &Arc<GitSession>) -> Result<Box<dyn GitStream>, TransportError> {
    let GitLogin::Ssh(identity) = session.login() else {
        let reason = "an SSH address needs a key".to_owned();
        return Err(TransportError::Credentials { host: session.host(), reason });
    };
    session.record_request();
    let fault = Arc::new(Mutex::new(None));
    let connected = session.wait_for(connect(session, identity, Arc::clone(&fault)));
    let fault = fault.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (handle, channel) = match fault {
        Some(fault) => Err(host_key_error(session, &fault)),
        None => connected,
    }?;
    Ok(Box::new(UploadPackChannel {
        session: Arc::clone(session),
        _handle: handle,
        channel,
        left: Bytes::new(),
        stderr: Vec::new(),
        status: None,
        answered: false,
        broken: false,
    }))
}

/// Judges the key that a host shows.
struct HostKeyVerifier {
    hosts: KnownHosts,
    host: String,
    port: u16,
    fault: Arc<Mutex<Option<HostKeyError>>>,
}

impl Handler for HostKeyVerifier {
    type Error = russh::Error;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, russh::Error> {
        let PublicKeyOrCertificate::PublicKey { key, .. } = shown else { return Ok(false) };
        match self.hosts.verify_host_key(&self.host, self.port, key) {
            Ok(()) => Ok(true),
            Err(fault) => {
                *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
                Ok(false)
            }
        }
    }
}

async fn connect(
    session: &GitSession,
    identity: &SshIdentity,
    fault: Arc<Mutex<Option<HostKeyError>>>,
) -> Result<(Handle<HostKeyVerifier>, Channel<Msg>), TransportError> {
    let (url, limits) = (session.url(), session.limits());
    let (host, port) = (url.host().to_owned(), url.port());
    let kinds =
        identity.known_hosts.host_key_algorithms(&host, port).map_err(|fault| host_key_error(session, &fault))?;
    let config = Config {
        client_id: SshId::Standard(Cow::Borrowed(concat!("SSH-2.0-stator_", env!("CARGO_PKG_VERSION")))),
        window_size: CHANNEL_WINDOW_BYTES,
        channel_buffer_size: 16,
        preferred: Preferred { key: Cow::Owned(kinds), ..Preferred::DEFAULT },
        inactivity_timeout: Some(limits.rate_window),
        nodelay: true,
        ..Config::default()
    };
    let unreachable = |reason: String| TransportError::Unreachable {
        host: session.host(),
        reason: sanitize_text(reason.as_bytes(), 200),
    };
    let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let addresses = session.addresses();
    let reached = async { TcpStream::connect(addresses.resolve(&name, port).await?.as_slice()).await };
    let tcp = with_timeout(session, limits.connect_timeout, reached).await?;
    let tcp = tcp.map_err(|error| unreachable(error.to_string()))?;
    let known = HostKeyVerifier { hosts: identity.known_hosts.clone(), host, port, fault };
    let connected = with_timeout(session, limits.connect_timeout, connect_stream(Arc::new(config), tcp, known)).await?;
    let mut handle = connected.map_err(|error| connection_error(session, error))?;
    let user = url.user().unwrap_or("git").to_owned();
    let accepted =
        with_timeout(session, limits.connect_timeout, authenticate(&mut handle, user.clone(), identity)).await?;
    match accepted.map_err(|error| match error {
        SshLoginError::Ssh(error) => connection_error(session, error),
        SshLoginError::Sign(reason) => TransportError::Credentials { host: session.host(), reason },
    })? {
        AuthResult::Success => {}
        AuthResult::Failure { .. } => {
            let message = format!("the key {} is not accepted for the user `{user}`", identity.key.fingerprint());
            return Err(TransportError::Unauthorized { host: session.host(), message });
        }
    }
    let started = with_timeout(session, limits.connect_timeout, async {
        let channel = handle.channel_open_session().await?;
        channel.exec(true, upload_pack_command(url.path())).await?;
        Ok::<_, russh::Error>(channel)
    });
    let channel = started.await?.map_err(|error| connection_error(session, error))?;
    Ok((handle, channel))
}

enum SshLoginError {
    Ssh(russh::Error),
    Sign(String),
}

async fn authenticate(
    handle: &mut Handle<HostKeyVerifier>,
    user: String,
    identity: &SshIdentity,
) -> Result<AuthResult, SshLoginError> {
    match &identity.key.key {
        SshSigningKey::Plain(key) => {
            let key = PrivateKeyWithHashAlg::new(Arc::clone(key), None);
            handle.authenticate_publickey(user, key).await.map_err(SshLoginError::Ssh)
        }
        SshSigningKey::Rsa(pair) => {
            let advertised = handle.best_supported_rsa_hash().await.map_err(SshLoginError::Ssh)?;
            // Never SHA-1, which a host of the last ten years does not need.
            let hash = advertised.flatten().unwrap_or(HashAlg::Sha512);
            let mut signer = RsaSigner(Arc::clone(pair));
            let public = identity.key.public.clone();
            handle.authenticate_publickey_with(user, public, Some(hash), &mut signer).await.map_err(|error| match error
            {
                RsaSignError::Gone(_) => SshLoginError::Ssh(russh::Error::Disconnect),
                RsaSignError::Key => SshLoginError::Sign("the RSA key cannot sign".to_owned()),
            })
        }
    }
}

/// The command for the host's shell. What is in the path stays in it: one word in quotes, and no option, as it begins
/// with `/` or `~`.
fn upload_pack_command(path: &str) -> String {
    let root = if path.starts_with('~') { "" } else { "/" };
    let quoted = path.trim_start_matches('/').replace('\'', r"'\''").replace('!', r"'\!'");
    format!("git-upload-pack '{root}{quoted}'")
}

async fn with_timeout<T>(
    session: &GitSession,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Result<T, TransportError> {
    let late = |_| TransportError::TimedOut { host: session.host(), limit };
    tokio::time::timeout(limit, work).await.map_err(late)
}

fn host_key_error(session: &GitSession, fault: &HostKeyError) -> TransportError {
    TransportError::HostKey { host: session.host(), reason: fault.to_string() }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the library's errors, of which a few mean something to a user")]
fn connection_error(session: &GitSession, error: russh::Error) -> TransportError {
    let host = session.host();
    match error {
        russh::Error::NoCommonAlgo { kind: AlgorithmKind::Key, ours, theirs } => {
            let theirs = sanitize_text(theirs.join(", ").as_bytes(), 200);
            let reason = format!(
                "`known_hosts` has its key of the kind {}, but it presents only {theirs}; add its ed25519 or ecdsa \
                 key, or \
                 write the `https://` address",
                ours.join(", ")
            );
            TransportError::HostKey { host, reason }
        }
        russh::Error::IO(_)
        | russh::Error::Disconnect
        | russh::Error::HUP
        | russh::Error::SendError
        | russh::Error::RecvError => TransportError::CutShort { host },
        russh::Error::InactivityTimeout | russh::Error::KeepaliveTimeout | russh::Error::ConnectionTimeout => {
            TransportError::TooSlow { host, floor: session.limits().min_bytes_per_second }
        }
        other => TransportError::Protocol { host, reason: session.redacted_text(other.to_string().as_bytes()) },
    }
}

/// A running `git-upload-pack`.
struct UploadPackChannel {
    session: Arc<GitSession>,
    /// Ends the connection when it goes.
    _handle: Handle<HostKeyVerifier>,
    channel: Channel<Msg>,
    left: Bytes,
    stderr: Vec<u8>,
    status: Option<u32>,
    answered: bool,
    broken: bool,
}

impl UploadPackChannel {
    fn read_more(&mut self, buffer: &mut [u8]) -> Result<usize, TransportError> {
        if self.broken {
            return Err(TransportError::CutShort { host: self.session.host() });
        }
        if self.left.is_empty() {
            let session = Arc::clone(&self.session);
            let (channel, said, status) = (&mut self.channel, &mut self.stderr, &mut self.status);
            match session.next_chunk(read_messages(&session, channel, said, status))? {
                Some(bytes) => {
                    self.answered = true;
                    self.left = bytes;
                }
                None => return self.check_exit().map(|()| 0),
            }
        }
        let count = self.left.len().min(buffer.len());
        self.left.copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
        Ok(count)
    }

    /// Why git on the host went away, when that is not what was to be.
    fn check_exit(&self) -> Result<(), TransportError> {
        if self.answered && self.status.unwrap_or_default() == 0 {
            return Ok(());
        }
        let host = self.session.host();
        let message = self.session.redacted_text(&self.stderr);
        let said = message.to_lowercase();
        let any = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if any(&["not found", "does not exist", "not appear to be a git repository", "cannot find repository"]) {
            Err(TransportError::NotFound { host, path: self.session.url().path().to_owned() })
        } else if any(&["denied", "not allowed", "forbidden", "unauthorized", "no access"]) {
            Err(TransportError::Forbidden { host, message })
        } else if message.is_empty() {
            Err(TransportError::CutShort { host })
        } else {
            Err(TransportError::Remote { host, message })
        }
    }
}

/// The next bytes of git's answer; none at its end.
#[expect(clippy::wildcard_enum_match_arm, reason = "the library's messages, most of which only a server reads")]
async fn read_messages(
    session: &GitSession,
    channel: &mut Channel<Msg>,
    said: &mut Vec<u8>,
    status: &mut Option<u32>,
) -> Result<Option<Bytes>, TransportError> {
    while let Some(message) = channel.wait().await {
        match message {
            ChannelMsg::Data { data } if !data.is_empty() => return Ok(Some(data)),
            ChannelMsg::ExtendedData { data, .. } => {
                said.extend(data.iter().take(MAX_STDERR_BYTES.saturating_sub(said.len())))
            }
            ChannelMsg::ExitStatus { exit_status } => *status = Some(exit_status),
            ChannelMsg::Failure => {
                let message = "it does not run `git-upload-pack`".to_owned();
                return Err(TransportError::Remote { host: session.host(), message });
            }
            ChannelMsg::Close => break,
            _ => {}
        }
    }
    Ok(None)
}

impl Read for UploadPackChannel {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.read_more(buffer).map_err(|error| {
            self.session.record_failure(error);
            self.broken = true;
            Error::other("the answer is broken")
        })
    }
}

impl Write for UploadPackChannel {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let session = Arc::clone(&self.session);
        let data = Bytes::copy_from_slice(bytes);
        let sent = session.wait_for(async {
            let sent = with_timeout(&session, session.limits().rate_window, self.channel.data_bytes(data)).await?;
            sent.map_err(|error| connection_error(&session, error))
        });
        sent.map(|()| bytes.len()).map_err(|error| {
            self.session.record_failure(error);
            self.broken = true;
            Error::other("nothing can be sent")
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

//! What libgit2 sees of a host: the objects that are wanted, and nothing else that the host says it has.
//!
//! libgit2 is given a list of refs that stator writes, with made-up names for the wanted objects. So no name that a host
//! makes up reaches it, and a fetch over HTTP needs no second look at the host's own list.

use super::pack_inspector::{PackFault, PackInspector, PackLimits};
use super::{GitOperation, GitSession, GitStream, TransportError, is_stateless, open_stream, ref_advertisement};
use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport};
use git2::{Oid, Remote};
use std::collections::HashMap;
use std::io::{Cursor, Error, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

/// What is wanted of a host.
#[derive(Clone)]
pub(in crate::source) struct FetchRequest {
    pub(in crate::source) session: Arc<GitSession>,
    /// What the host's git can do.
    pub(in crate::source) capabilities: String,
    pub(in crate::source) objects: Vec<Oid>,
}

impl FetchRequest {
    /// What each object is called towards libgit2.
    pub(in crate::source) fn ref_names(&self) -> Vec<String> {
        (0..self.objects.len()).map(|number| format!("refs/stator-wanted/{number}")).collect()
    }

    /// The list of refs that libgit2 gets to see.
    fn encode_ref_list(&self) -> Vec<u8> {
        let mut list = Vec::new();
        let mut line = |text: &str| list.extend_from_slice(format!("{:04x}{text}", text.len() + 4).as_bytes());
        let stateless = is_stateless(self.session.url().scheme());
        if stateless {
            line("# service=git-upload-pack\n");
        }
        let mut rest = Vec::new();
        for (number, (name, oid)) in self.ref_names().iter().zip(&self.objects).enumerate() {
            // What names refs of the host, or says how to talk in ways that libgit2 does not, stays here.
            let known =
                |capability: &&str| !capability.starts_with("symref=") && !capability.starts_with("object-format=");
            let capabilities: Vec<&str> = self.capabilities.split(' ').filter(known).collect();
            let after = if number == 0 { format!("\0{}", capabilities.join(" ")) } else { String::new() };
            let text = format!("{oid} {name}{after}\n");
            rest.extend_from_slice(format!("{:04x}{text}", text.len() + 4).as_bytes());
        }
        if stateless {
            list.extend_from_slice(b"0000");
        }
        list.extend_from_slice(&rest);
        list.extend_from_slice(b"0000");
        list
    }
}

static OPEN_FETCHES: LazyLock<Mutex<HashMap<u64, FetchRequest>>> = LazyLock::new(Mutex::default);
static NEXT_FETCH_ID: AtomicU64 = AtomicU64::new(1);

/// An address that libgit2 may connect to, for as long as this lives.
pub(in crate::source) struct RegisteredFetch(u64);

impl RegisteredFetch {
    pub(in crate::source) fn address(&self) -> String {
        format!("stator://{}/", self.0)
    }
}

impl Drop for RegisteredFetch {
    fn drop(&mut self) {
        OPEN_FETCHES.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Makes an address for libgit2 that leads to what is wanted.
pub(in crate::source) fn register_fetch(wanted: FetchRequest) -> Result<RegisteredFetch, TransportError> {
    register_transport(connect_transport)?;
    let number = NEXT_FETCH_ID.fetch_add(1, Ordering::Relaxed);
    OPEN_FETCHES.lock().unwrap_or_else(PoisonError::into_inner).insert(number, wanted);
    Ok(RegisteredFetch(number))
}

fn connect_transport(remote: &Remote<'_>) -> Result<Transport, git2::Error> {
    let unknown = || git2::Error::from_str("no conversation of that number");
    let url = remote.url()?;
    let number = url.strip_prefix("stator://").and_then(|rest| rest.trim_end_matches('/').parse::<u64>().ok());
    let number = number.ok_or_else(unknown)?;
    let wanted =
        OPEN_FETCHES.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned().ok_or_else(unknown)?;
    Transport::smart(remote, is_stateless(wanted.session.url().scheme()), StatorSubtransport(wanted))
}

struct StatorSubtransport(FetchRequest);

impl SmartSubtransport for StatorSubtransport {
    fn action(&self, _: &str, service: Service) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        let failed = |error: TransportError| {
            self.0.session.record_failure(error);
            git2::Error::from_str("no stream")
        };
        let stateless = is_stateless(self.0.session.url().scheme());
        let (session, shown) = (&self.0.session, self.0.encode_ref_list());
        match service {
            Service::UploadPackLs if stateless => Ok(PrefixedStream::new(session, shown, None)),
            Service::UploadPackLs => {
                let mut inner = open_stream(&self.0.session, GitOperation::ListRefs).map_err(failed)?;
                // The host's own list is on the way, and has to be read off before anything can be asked.
                ref_advertisement::read_advertisement(&mut inner, &self.0.session).map_err(failed)?;
                Ok(PrefixedStream::new(session, shown, Some(inner)))
            }
            Service::UploadPack => {
                let inner = open_stream(&self.0.session, GitOperation::Fetch).map_err(failed)?;
                Ok(PrefixedStream::new(session, Vec::new(), Some(inner)))
            }
            Service::ReceivePackLs | Service::ReceivePack => Err(git2::Error::from_str("nothing is ever pushed")),
        }
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// What stator shows, and then the stream itself.
struct PrefixedStream {
    session: Arc<GitSession>,
    prefix: Cursor<Vec<u8>>,
    inner: Option<Box<dyn GitStream>>,
    /// What came since something was asked, as far as it may be the beginning of a refusal.
    answer: Option<Vec<u8>>,
    /// Reads along what is asked for.
    inspector: PackInspector,
}

impl PrefixedStream {
    fn new(session: &Arc<GitSession>, shown: Vec<u8>, inner: Option<Box<dyn GitStream>>) -> Box<Self> {
        let limits = session.limits();
        let inspector = PackInspector::new(PackLimits {
            max_objects: limits.max_objects as u64,
            max_object_bytes: limits.max_object_bytes,
            max_unpacked_bytes: limits.max_unpacked_bytes,
        });
        Box::new(Self { session: Arc::clone(session), prefix: Cursor::new(shown), inner, answer: None, inspector })
    }

    /// libgit2 takes a refusal in the place of an answer for a line out of place, and loses what it says.
    fn detect_refusal(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let Some(mut answer) = self.answer.take() else { return Ok(()) };
        answer.extend_from_slice(bytes);
        match answer.get(4..8) {
            Some(b"ERR ") => {
                let message = self.session.redacted_text(answer.get(8..).unwrap_or_default());
                self.session.record_failure(TransportError::Remote { host: self.session.host(), message });
                Err(Error::other("the host refuses"))
            }
            Some(_) => Ok(()),
            None => {
                self.answer = Some(answer);
                Ok(())
            }
        }
    }
}

impl PrefixedStream {
    /// Nothing of a pack that holds too much reaches libgit2.
    fn inspect(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let host = || self.session.host();
        self.inspector.observe(bytes).map_err(|fault| {
            self.session.record_failure(match fault {
                PackFault::TooMuch { limit, what } => TransportError::TooMuch { host: host(), limit, what },
                PackFault::Broken(reason) => TransportError::Protocol { host: host(), reason: reason.to_owned() },
            });
            Error::other("the pack is refused")
        })
    }
}

impl Read for PrefixedStream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match (self.prefix.read(buffer)?, &mut self.inner) {
            (0, Some(inner)) => {
                let count = inner.read(buffer)?;
                let bytes = buffer.get(..count).unwrap_or_default();
                self.detect_refusal(bytes)?;
                self.inspect(bytes)?;
                Ok(count)
            }
            (count, _) => Ok(count),
        }
    }
}

impl Write for PrefixedStream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.inner {
            Some(inner) => {
                self.answer = Some(Vec::new());
                inner.write(bytes)
            }
            None => Err(Error::other("nothing is asked here")),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.inner {
            Some(inner) => inner.flush(),
            None => Ok(()),
        }
    }
}

/// Registers what opens `stator://` addresses, once.
pub(super) fn register_transport(
    open: impl Fn(&Remote<'_>) -> Result<Transport, git2::Error> + Send + Sync + 'static,
) -> Result<(), TransportError> {
    static REGISTERED: OnceLock<Result<(), String>> = OnceLock::new();
    #[expect(
        unsafe_code,
        reason = "libgit2's list of transports has no lock of its own: it is written here once, under the lock of the \
                  cell, and read only by fetches, which all come here first"
    )]
    let done = REGISTERED.get_or_init(|| {
        // SAFETY: see the reason above.
        unsafe { git2::transport::register("stator", open) }.map_err(|error| error.message().to_owned())
    });
    done.clone().map_err(|reason| TransportError::Local { reason })
}

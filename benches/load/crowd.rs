//! Everybody who is at a controller's doors: deliveries, connections that say nothing, and readers.

use super::{Fallible, IDLE, READERS};
use aws_lc_rs::hmac;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// How long an answer is waited for.
const ANSWER: Duration = Duration::from_secs(30);
/// As much as a push of some commits.
const BODY_BYTES: usize = 8 << 10;
/// Connections of one address: fewer than it may have.
const PER_ADDRESS: usize = 100;

/// A connection from one of this machine's addresses, each of which counts as somebody else.
async fn connect(from: u8, to: &str) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 0, 1, from), 0).into())?;
    socket.connect(to.parse().map_err(std::io::Error::other)?).await
}

/// Deliveries of one kind.
pub(crate) struct Deliveries {
    to: String,
    paths: Arc<Vec<String>>,
    from: u8,
    is_signed: bool,
}

/// What became of deliveries.
#[derive(Default)]
pub(crate) struct DeliveryResults {
    pub(crate) times: Vec<Duration>,
    pub(crate) accepted: usize,
    pub(crate) refused: usize,
}

impl DeliveryResults {
    /// The time that so many of a hundred keep to.
    pub(crate) fn percentile(&mut self, percent: usize) -> Duration {
        self.times.sort();
        self.times.get((self.times.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(Duration::MAX)
    }
}

impl Deliveries {
    /// Signed by who may.
    pub(crate) fn signed(to: &str, paths: Arc<Vec<String>>) -> Self {
        Self { to: to.to_owned(), paths, from: 1, is_signed: true }
    }

    /// The same without a signature.
    pub(crate) fn unsigned(to: &str, paths: Arc<Vec<String>>) -> Self {
        Self { to: to.to_owned(), paths, from: 2, is_signed: false }
    }

    /// Sends so many a second, each over a connection of its own and at its time, whatever became of those before.
    pub(crate) async fn send(self, rate: usize, load: Duration) -> Fallible<DeliveryResults> {
        let count = rate * usize::try_from(load.as_secs())?;
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(rate)?);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
        let mut open = JoinSet::new();
        for number in 0..count {
            ticks.tick().await;
            let path = self.paths.get(number % self.paths.len()).cloned().unwrap_or_default();
            let request = delivery(&path, number, self.is_signed);
            let (from, to) = (self.from, self.to.clone());
            open.spawn(async move {
                let start = Instant::now();
                let code = tokio::time::timeout(ANSWER, ask(from, &to, &request)).await;
                (start.elapsed(), code.ok().and_then(Result::ok).unwrap_or_default())
            });
        }
        let mut results = DeliveryResults::default();
        while let Some(done) = open.join_next().await {
            let (time, code) = done?;
            results.times.push(time);
            results.accepted += usize::from((200..300).contains(&code));
            results.refused += usize::from(code == 401);
        }
        Ok(results)
    }
}

/// A push as Gitea delivers it.
fn delivery(path: &str, number: usize, is_signed: bool) -> Vec<u8> {
    let commits = "x".repeat(BODY_BYTES);
    let body = format!(r#"{{"ref":"refs/heads/main","after":"{number:040x}","commits":[{{"message":"{commits}"}}]}}"#);
    let key = hmac::Key::new(hmac::HMAC_SHA256, super::scene::WEBHOOK_TOKEN.as_bytes());
    let signature = if is_signed {
        format!("x-gitea-signature: {}\r\n", hex::encode(hmac::sign(&key, body.as_bytes())))
    } else {
        String::new()
    };
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: stator\r\nconnection: close\r\ncontent-type: application/json\r\n\
         x-gitea-event: push\r\nx-gitea-delivery: load-{number}\r\n{signature}content-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body.into_bytes()].concat()
}

/// The status code of an answer.
async fn ask(from: u8, to: &str, request: &[u8]) -> std::io::Result<u16> {
    let mut stream = connect(from, to).await?;
    // Who is refused before the body is read may find the way closed.
    let sent = stream.write_all(request).await;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer).await;
    let text = String::from_utf8_lossy(&answer);
    match text.split(' ').nth(1).and_then(|code| code.parse().ok()) {
        Some(code) => Ok(code),
        None => sent.and(read).map(|_| 0),
    }
}

/// Connections that say nothing, and readers.
pub(crate) struct Crowd {
    ended: Arc<AtomicBool>,
    idle: JoinSet<bool>,
    readers: JoinSet<usize>,
    reconnects: Arc<AtomicUsize>,
}

/// What they noticed.
pub(crate) struct CrowdResults {
    /// Silent connections that are there at the end.
    pub(crate) idle: usize,
    /// The fewest events of a reader.
    pub(crate) least_events: usize,
    /// How often a reader's stream ended and was opened anew.
    pub(crate) reconnects: usize,
}

impl Crowd {
    pub(crate) fn start(webhooks: &str, pages: &str, users: &[String]) -> Fallible<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let reconnects = Arc::new(AtomicUsize::new(0));
        let (mut idle, mut readers) = (JoinSet::new(), JoinSet::new());
        for number in 0..IDLE {
            let (to, ended) = (webhooks.to_owned(), Arc::clone(&ended));
            let from = u8::try_from(10 + number / PER_ADDRESS)?;
            // They did not come at the same moment, nor do they end together.
            let late = Duration::from_millis(u64::try_from(number)? * 20);
            idle.spawn(async move {
                tokio::time::sleep(late).await;
                say_nothing(from, &to, &ended).await
            });
        }
        for number in 0..READERS {
            let from = u8::try_from(30 + number / PER_ADDRESS)?;
            let token = users.get(number % users.len()).cloned().unwrap_or_default();
            let request = format!(
                "GET /api/v1/stream HTTP/1.1\r\nhost: {pages}\r\nauthorization: Bearer {token}\r\naccept: text/event-stream\r\n\r\n"
            );
            let (to, ended, reconnects) = (pages.to_owned(), Arc::clone(&ended), Arc::clone(&reconnects));
            let late = Duration::from_millis(u64::try_from(number)? * 50);
            readers.spawn(async move {
                tokio::time::sleep(late).await;
                read_events(from, &to, &request, &ended, &reconnects).await
            });
        }
        Ok(Self { ended, idle, readers, reconnects })
    }

    /// Ends all of them.
    pub(crate) async fn end(self) -> CrowdResults {
        self.ended.store(true, Ordering::Relaxed);
        let idle = self.idle.join_all().await.into_iter().filter(|is_there| *is_there).count();
        let least_events = self.readers.join_all().await.into_iter().min().unwrap_or_default();
        CrowdResults { idle, least_events, reconnects: self.reconnects.load(Ordering::Relaxed) }
    }
}

/// Whether the last connection was still there at the end. One that is closed is opened again.
async fn say_nothing(from: u8, to: &str, ended: &AtomicBool) -> bool {
    loop {
        let Ok(mut stream) = connect(from, to).await else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        loop {
            let closed = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut [0; 256])).await.is_ok();
            if ended.load(Ordering::Relaxed) {
                return !closed;
            } else if closed {
                break;
            }
        }
    }
}

/// How many events were heard until the end.
async fn read_events(from: u8, to: &str, request: &str, ended: &AtomicBool, reconnects: &AtomicUsize) -> usize {
    let mut events = 0;
    while !ended.load(Ordering::Relaxed) {
        let Ok(mut stream) = connect(from, to).await else { continue };
        if stream.write_all(request.as_bytes()).await.is_err() {
            continue;
        }
        let mut buffer = vec![0; 4 << 10];
        loop {
            match tokio::time::timeout(Duration::from_secs(1), stream.read(&mut buffer)).await {
                Err(_) if ended.load(Ordering::Relaxed) => return events,
                Err(_) => {}
                Ok(Ok(read)) if read > 0 => {
                    let text = String::from_utf8_lossy(buffer.get(..read).unwrap_or_default()).into_owned();
                    events += text.matches("event:").count();
                }
                Ok(_) => break,
            }
            if ended.load(Ordering::Relaxed) {
                return events;
            }
        }
        reconnects.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    events
}

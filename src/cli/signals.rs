//! Being asked to stop, by Ctrl-C or SIGTERM.
//!
//! A thread of its own hears every signal, however busy the process is: it tells who waits, and ends the process itself where
//! nobody does, where it is asked again, or where ending takes too long. A container's first process has no other end: to it
//! the system's own answer to SIGTERM is nothing.

use super::error::ExitStatus;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::watch;

/// A process that is asked to stop has ended after this long: Kubernetes kills it after the grace period of its pod.
const EXIT_DEADLINE: Duration = Duration::from_secs(9);
/// How long a process that is asked again still has, to say that it was interrupted.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// How often the process was asked to stop. Whoever waits has subscribed.
static REQUESTS: OnceLock<watch::Sender<u32>> = OnceLock::new();

/// Hears signals from now on.
pub fn listen() -> &'static watch::Sender<u32> {
    REQUESTS.get_or_init(|| {
        let (requests, _) = watch::channel(0);
        let heard = requests.clone();
        // Without a thread, signals end the process as they end any other.
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(move || hear_signals(&heard));
        requests
    })
}

/// Ends on Ctrl-C, or when the process is asked to end.
pub async fn wait_for_interrupt() {
    let mut requests = listen().subscribe();
    requests.mark_unchanged();
    if requests.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Counts signals until the process ends.
fn hear_signals(requests: &watch::Sender<u32>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let Ok(mut signals) = Signals::new() else { return };
        let mut asked = 0;
        while signals.next().await.is_some() {
            asked += 1;
            if requests.receiver_count() == 0 {
                // Nothing is under way that would have to be finished.
                exit();
            }
            exit_after(if asked == 1 { EXIT_DEADLINE } else { LAST_WORDS });
            requests.send_replace(asked);
        }
    });
}

/// The signals that ask a process to stop, heard without a gap.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> Option<()> {
        tokio::select! {
            pressed = self.interrupt.recv() => pressed,
            asked = self.terminate.recv() => asked,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Option<()> {
        tokio::signal::ctrl_c().await.ok()
    }
}

fn exit_after(delay: Duration) {
    let ending = std::thread::Builder::new().name("exit".to_owned()).spawn(move || {
        std::thread::sleep(delay);
        exit();
    });
    if ending.is_err() {
        exit();
    }
}

#[expect(clippy::exit, reason = "the process has to end, and no thread can end another one")]
fn exit() -> ! {
    std::process::exit(ExitStatus::Interrupted as i32)
}

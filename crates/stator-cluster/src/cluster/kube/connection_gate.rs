//! Asks the fence of a write once more where it leaves the process: in the task of its connection.
//!
//! A request is handed to the task of a connection, which sends it when it is polled next. Whoever made the request asks the
//! fence each time that he is polled himself, but a process that was frozen in between may poll the connection first, and
//! the request goes out under a lease that is lost. So the tasks of connections ask as well, each time before anything of
//! theirs is sent. What they find closed ends all connections of the client: which of them has the request, nobody knows,
//! and everything else that they carry is tried again.
//!
//! What is left is what was being sent at the very moment: the rest of one poll, and what the kernel has.

use crate::cluster::Fence;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// The task of a connection, as the client makes it.
type ConnectionTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The writes of one client that are under way, and how its connections are ended.
#[derive(Debug, Default)]
pub(super) struct ConnectionGate {
    /// The fences of these writes, and how many are under way under each.
    writes: Mutex<Vec<(Fence, usize)>>,
    /// Connections of an earlier generation are over.
    generation: AtomicU64,
}

impl ConnectionGate {
    /// From now until what it gives is dropped, connections ask this fence.
    pub(super) fn begin_write(self: &Arc<Self>, fence: &Fence) -> FencedWrite {
        let mut writes = self.writes();
        match writes.iter_mut().find(|(known, _)| known.is_same_as(fence)) {
            Some((_, count)) => *count += 1,
            None => writes.push((fence.clone(), 1)),
        }
        FencedWrite { gate: Arc::clone(self), fence: fence.clone() }
    }

    fn end_write(&self, fence: &Fence) {
        let mut writes = self.writes();
        let Some(at) = writes.iter().position(|(known, _)| known.is_same_as(fence)) else { return };
        if !fence.is_valid() {
            // It was broken off, and a connection may have it.
            writes.remove(at);
            self.end_connections();
        } else if let Some((_, count)) = writes.get_mut(at) {
            *count -= 1;
            if *count == 0 {
                writes.remove(at);
            }
        }
    }

    fn end_connections(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// The generation of connections that may send, once every fence was asked.
    fn ask_fences(&self) -> u64 {
        let mut writes = self.writes();
        let before = writes.len();
        writes.retain(|(fence, _)| fence.is_valid());
        if writes.len() < before {
            self.end_connections();
        }
        self.generation.load(Ordering::SeqCst)
    }

    fn writes(&self) -> std::sync::MutexGuard<'_, Vec<(Fence, usize)>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write that is under way, for as long as this lives.
#[derive(Debug)]
pub(super) struct FencedWrite {
    gate: Arc<ConnectionGate>,
    fence: Fence,
}

impl Drop for FencedWrite {
    fn drop(&mut self) {
        self.gate.end_write(&self.fence);
    }
}

/// Runs the tasks of a client's connections behind its gate.
#[derive(Clone, Debug)]
pub(super) struct ConnectionExecutor(pub(super) Arc<ConnectionGate>);

impl hyper::rt::Executor<ConnectionTask> for ConnectionExecutor {
    fn execute(&self, task: ConnectionTask) {
        tokio::spawn(GatedConnection { gate: Arc::clone(&self.0), generation: self.0.ask_fences(), task });
    }
}

/// The task of a connection. Dropped, it closes the connection, and what was not sent of a request never is.
struct GatedConnection {
    gate: Arc<ConnectionGate>,
    generation: u64,
    task: ConnectionTask,
}

impl Future for GatedConnection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.gate.ask_fences() != self.generation {
            return Poll::Ready(());
        }
        self.task.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::kube::{ConnectOptions, KubeCluster};
    use crate::cluster::{ClockReading, Cluster as _, ClusterError, Preconditions};
    use futures_util::FutureExt as _;
    use stator_core::object::ObjectRef;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    fn open_fence() -> Fence {
        Fence::open(ClockReading::now(), Duration::from_secs(3600))
    }

    /// How often the task of a connection is polled when it is asked to be, `between` two times.
    fn polls(gate: &Arc<ConnectionGate>, between: impl FnOnce()) -> u64 {
        let polled = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&polled);
        let task = std::future::poll_fn(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            Poll::<()>::Pending
        });
        let generation = gate.ask_fences();
        let mut connection = GatedConnection { gate: Arc::clone(gate), generation, task: Box::pin(task) };
        assert_eq!((&mut connection).now_or_never(), None);
        between();
        let _ = (&mut connection).now_or_never();
        polled.load(Ordering::SeqCst)
    }

    #[test]
    fn a_connection_goes_on_unless_a_write_lost_its_fence() {
        let gate: Arc<ConnectionGate> = Arc::default();
        let (fence, other) = (open_fence(), open_fence());
        assert_eq!(polls(&gate, || {}), 2);
        assert_eq!(polls(&gate, || drop(gate.begin_write(&fence))), 2, "it is through");
        let write = gate.begin_write(&fence);
        let second = gate.begin_write(&fence);
        drop(second);
        assert_eq!(polls(&gate, || other.close()), 2, "nothing is written under that one");
        assert_eq!(polls(&gate, || fence.close()), 1, "closed while a write is under way");
        drop(write);
        assert_eq!(polls(&gate, || {}), 2, "a new connection has nothing of it");
    }

    #[test]
    fn a_write_that_was_broken_off_takes_its_connection_along() {
        let gate: Arc<ConnectionGate> = Arc::default();
        let fence = open_fence();
        let write = gate.begin_write(&fence);
        let broken_off = || {
            fence.close();
            drop(write);
        };
        assert_eq!(polls(&gate, broken_off), 1);
    }

    /// A process that goes on after it was frozen may poll the connection before whoever wrote.
    #[tokio::test]
    async fn the_client_of_a_cluster_has_its_connections_behind_the_gate() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let fence = open_fence();
        let cluster =
            KubeCluster::from_config(::kube::Config::new(url), ConnectOptions::default(), String::new()).unwrap();
        let cluster = cluster.with_fence(fence.clone());
        let (api_version, kind) = ("nvidia.com/v1beta1".to_owned(), "DynamoGraphDeployment".to_owned());
        let object = ObjectRef { api_version, kind, namespace: "prod".to_owned(), name: "llama".to_owned() };
        let preconditions = Preconditions::default();
        let mut write = cluster.delete(&object, &preconditions).boxed();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 6];
            stream.read_exact(&mut head).await.unwrap();
            assert_eq!(&head, b"DELETE");
            stream
        };
        let mut stream = tokio::select! {
            answer = &mut write => panic!("{answer:?}"),
            stream = serve => stream,
        };
        fence.close();
        // The connection is polled for this, and the write is not.
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(15 * 60), stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "the connection goes on");
        assert_eq!(write.await, Err(ClusterError::Fenced));
    }
}

//! A gate in front of a server: connections go through it, and can be cut or kept out.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// An open gate.
pub struct Gate {
    port: u16,
    state: Arc<GateState>,
}

struct GateState {
    is_closed: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Gate {
    /// A gate in front of this address.
    pub fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(GateState { is_closed: AtomicBool::new(false), open: Mutex::new(Vec::new()) });
        let kept = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if kept.is_closed.load(Ordering::Relaxed) {
                    continue;
                }
                // A server that is away is what the client has to see.
                let Ok(server) = TcpStream::connect(server) else { continue };
                let ways = [(&client, &server), (&server, &client)];
                for (from, to) in ways.map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap())) {
                    std::thread::spawn(move || pass(from, to));
                }
                let mut open = kept.open.lock().unwrap();
                // One that has ended keeps no file open.
                open.retain(|stream| stream.peer_addr().is_ok());
                open.extend([client, server]);
            }
        });
        Self { port, state }
    }

    /// On 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts every connection. New ones are let through.
    pub fn cut(&self) {
        for stream in self.state.open.lock().unwrap().drain(..) {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets nobody through, or everybody again.
    pub fn close(&self, is_closed: bool) {
        self.state.is_closed.store(is_closed, Ordering::Relaxed);
        self.cut();
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut buffer) {
        if read == 0 || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

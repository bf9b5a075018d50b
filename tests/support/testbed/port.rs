//! Ports for servers that are told where to listen.

use std::net::SocketAddr;
use tokio::net::TcpSocket;

/// A port of 127.0.0.1 that is nobody else's until this is dropped, whether a server listens on it or not.
///
/// A socket is bound to it and never listens. The system gives such a port to no other socket that asks for any port and
/// to no outgoing connection, but lets a server listen that names it, as servers set `SO_REUSEADDR`. While none listens,
/// whoever connects is refused.
#[derive(Debug)]
pub struct ReservedPort {
    number: u16,
    /// Only Linux lets another socket listen beside this one.
    _held: Option<TcpSocket>,
}

impl ReservedPort {
    /// Takes one that nobody has.
    pub fn reserve() -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let number = socket.local_addr()?.port();
        Ok(Self { number, _held: cfg!(target_os = "linux").then_some(socket) })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.number))
    }
}

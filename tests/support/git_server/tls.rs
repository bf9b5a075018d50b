//! TLS in front of a server, with certificates that belong to no public authority.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// One of the files in `tests/data/tls`.
pub fn pem(name: &str) -> Vec<u8> {
    fs_err::read(format!("{}/tests/data/tls/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// TLS in front of a server: one request for each connection.
pub struct TlsProxy {
    address: SocketAddr,
}

impl TlsProxy {
    /// Takes connections and passes them on, and where asked for only those of clients with a certificate.
    pub fn start(to: SocketAddr, asks_for_certificate: bool) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
        let chain = vec![CertificateDer::from_pem_slice(&pem("server.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(&pem("server.key")).unwrap();
        let config = if asks_for_certificate {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(&pem("ca.pem")).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            config.with_client_cert_verifier(verifier)
        } else {
            config.with_no_client_auth()
        };
        let config = Arc::new(config.with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, config) = (client.unwrap(), Arc::clone(&config));
                std::thread::spawn(move || {
                    let stream = StreamOwned::new(ServerConnection::new(config).unwrap(), client);
                    // Clients that do not trust the certificate hang up, which is what a test wants to see at their end.
                    let _ = pass_on(stream, to);
                });
            }
        });
        Self { address }
    }

    /// The address of a repository of the server behind.
    pub fn url(&self, repository: &str) -> String {
        format!("https://localhost:{}/{repository}", self.address.port())
    }
}

fn pass_on(stream: StreamOwned<ServerConnection, TcpStream>, to: SocketAddr) -> std::io::Result<()> {
    let mut client = BufReader::new(stream);
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = Vec::new();
        if client.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line).to_ascii_lowercase();
        if let Some(value) = text.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == b"\r\n" {
            head.extend_from_slice(b"connection: close\r\n\r\n");
            break;
        }
        head.extend(line);
    }
    let mut body = vec![0; length];
    client.read_exact(&mut body)?;
    let mut server = TcpStream::connect(to)?;
    server.write_all(&head)?;
    server.write_all(&body)?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    let stream = client.get_mut();
    stream.write_all(&answer)?;
    stream.conn.send_close_notify();
    stream.flush()
}

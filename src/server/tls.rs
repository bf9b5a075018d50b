//! The certificate of the listener, read again whenever its files change.

use crate::controller::sources::folder_watch::FolderWatch;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, crypto};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_util::sync::CancellationToken;

/// The files of a certificate, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and those between it and the authority's.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be used: {reason}", file.display())]
pub struct CertificateError {
    /// Which file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// A certificate that connections are answered with, the newest that could be read.
#[derive(Debug)]
pub struct ReloadedCertificate {
    files: CertificateFiles,
    newest: RwLock<Arc<CertifiedKey>>,
    provider: Arc<CryptoProvider>,
}

impl ReloadedCertificate {
    /// Reads the files.
    ///
    /// # Errors
    /// When one of them cannot be read, has no certificate or key, or the key is another certificate's.
    pub fn read(files: CertificateFiles) -> Result<Arc<Self>, CertificateError> {
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let newest = RwLock::new(Arc::new(read_certificate(&files, &provider)?));
        Ok(Arc::new(Self { files, newest, provider }))
    }

    /// Reads the files again whenever they change. What cannot be used is reported and left: the one before is used further.
    pub async fn follow(self: Arc<Self>, ending: CancellationToken) {
        // The folder and not the files: Kubernetes and cert-manager put new files in the old ones' place.
        let folder = |file: &Path| file.parent().unwrap_or(Path::new(".")).to_path_buf();
        let watches = [folder(&self.files.certificate), folder(&self.files.key)];
        let watches = watches.map(|folder| FolderWatch::new(&folder, false, |_| true));
        loop {
            tokio::select! {
                () = watches[0].changed() => {}
                () = watches[1].changed() => {}
                () = ending.cancelled() => return,
            }
            match read_certificate(&self.files, &self.provider) {
                Ok(read) => self.take(read),
                Err(error) => tracing::warn!("{error}; the previous certificate stays in use"),
            }
        }
    }

    fn take(&self, read: CertifiedKey) {
        let mut newest = self.newest.write().unwrap_or_else(PoisonError::into_inner);
        if newest.cert != read.cert {
            tracing::info!(file = %self.files.certificate.display(), "the certificate was reloaded");
            *newest = Arc::new(read);
        }
    }

    /// What connections are opened with.
    ///
    /// # Errors
    /// When the versions of TLS and the ciphers do not go together, which a build shows at once.
    pub fn server_config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, CertificateError> {
        let unusable =
            |error: rustls::Error| CertificateError { file: self.files.certificate.clone(), reason: error.to_string() };
        let config = ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let config = config.with_safe_default_protocol_versions().map_err(unusable)?;
        let mut config =
            config.with_no_client_auth().with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for ReloadedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.newest.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn read_certificate(files: &CertificateFiles, provider: &CryptoProvider) -> Result<CertifiedKey, CertificateError> {
    let failed = |file: &Path, reason: String| CertificateError { file: file.to_path_buf(), reason };
    let text = |file: &Path| fs_err::read(file).map_err(|error| failed(file, error.kind().to_string()));
    let (certificate, key) = (text(&files.certificate)?, text(&files.key)?);
    let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
    let chain = chain.map_err(|_| failed(&files.certificate, "it is not PEM".to_owned()))?;
    if chain.is_empty() {
        return Err(failed(&files.certificate, "it has no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|_| failed(&files.key, "it has no private key in PEM".to_owned()))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|_| {
        failed(&files.key, "the key does not match the certificate, or its type is not supported".to_owned())
    })
}

//! Reading the values of a secret one by one, and noting what is wrong with them.

use super::error::{CredentialError, CredentialFault as Fault, GitTransport};
use super::keys::{IGNORED_KEYS, UNSUPPORTED_KEYS, known_keys};
use crate::source::secret::SecretValues;
use crate::source::url::RepositoryUrl;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use stator_core::finding::closest_match;

/// A secret, and the faults that were found in it so far.
pub(super) struct CredentialReader<'a> {
    pub(super) secret: &'a SecretValues,
    pub(super) faults: Vec<Fault>,
}

impl<'a> CredentialReader<'a> {
    pub(super) fn new(secret: &'a SecretValues) -> Self {
        Self { secret, faults: Vec::new() }
    }

    pub(super) fn finish<T>(mut self, read: Option<T>) -> Result<T, CredentialError> {
        self.faults.sort_by(|a, b| (a.key(), a).cmp(&(b.key(), b)));
        self.faults.dedup();
        match read {
            Some(read) if self.faults.is_empty() => Ok(read),
            _ => Err(CredentialError { secret: Some(self.secret.name().to_owned()), faults: self.faults }),
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.secret.get(key).is_some()
    }

    /// The first of the keys that is there. Both with different values is a question only a person can answer.
    pub(super) fn one_of_keys(
        &mut self,
        one: &'static str,
        other: &'static str,
        question: &'static str,
    ) -> Option<&'static str> {
        match (self.secret.get(one), self.secret.get(other)) {
            (Some(a), Some(b)) if a != b => {
                self.faults.push(Fault::Ambiguous { one, other, question });
                None
            }
            (Some(_), _) => Some(one),
            (None, Some(_)) => Some(other),
            (None, None) => None,
        }
    }

    /// Keys that nobody reads because of how they are spelt, and keys for what is not done.
    pub(super) fn check_key_names(&mut self) {
        for found in self.secret.keys() {
            if known_keys().any(|key| key == found) || IGNORED_KEYS.contains(&found) {
                continue;
            }
            if let Some((key, fix)) = UNSUPPORTED_KEYS.iter().find(|(key, _)| *key == found) {
                self.faults.push(Fault::Unsupported { key, fix });
                continue;
            }
            let plain: String = found.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
            let same = |key: &&str| {
                key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().eq_ignore_ascii_case(&plain)
            };
            let meant = known_keys().find(same).or_else(|| closest_match(found, known_keys()));
            if let Some(meant) = meant.filter(|meant| !self.has(meant)) {
                self.faults.push(Fault::Misspelled { key: found.to_owned(), meant });
            }
        }
        for key in ["insecure", "insecureIgnoreHostKey"] {
            let on = self.secret.get(key).is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(b"true"));
            if on {
                let fix = "hosts are always verified; add its certificate as `caFile`, or its key to `known_hosts`";
                self.faults.push(Fault::Unsupported { key, fix });
            }
        }
    }

    /// Argo CD's secrets say which repositories they are for.
    pub(super) fn check_repository_host(&mut self, url: &RepositoryUrl) {
        let Some(text) = self.secret.get("url").and_then(|bytes| std::str::from_utf8(bytes).ok()) else { return };
        let text = text.trim();
        let host = match ::url::Url::parse(text) {
            Ok(parsed) => parsed.host_str().map(str::to_lowercase),
            // `git@host:path`
            Err(_) => text
                .split_once(':')
                .map(|(authority, _)| authority.rsplit('@').next().unwrap_or(authority).to_lowercase()),
        };
        if let Some(host) = host.filter(|host| !host.is_empty() && host != url.host()) {
            // What stands there may be anything; only a name is repeated.
            let plain = host.len() <= 253 && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._[]:".contains(c));
            self.faults.push(Fault::OtherHost { host: if plain { host } else { "another host".to_owned() } });
        }
    }

    pub(super) fn reject_unfit_keys(
        &mut self,
        keys: impl IntoIterator<Item = &'static str>,
        way: GitTransport,
        fix: &'static str,
    ) {
        for key in keys {
            if self.has(key) {
                self.faults.push(Fault::Unfit { key, way, fix });
            }
        }
    }

    /// A text of any number of lines.
    pub(super) fn read_text(&mut self, key: &'static str) -> Option<SecretString> {
        let bytes = self.secret.get(key)?;
        match std::str::from_utf8(bytes) {
            Ok(text) if text.trim().is_empty() => self.faults.push(Fault::Empty { key }),
            Ok(text) => return Some(SecretString::from(text)),
            Err(_) => self.faults.push(Fault::NotText { key }),
        }
        None
    }

    /// A text of one line that is sent as it is.
    pub(super) fn read_line(&mut self, key: &'static str) -> Option<SecretString> {
        let text = self.read_text(key)?;
        let shown = text.expose_secret();
        if shown.trim_end_matches(['\r', '\n']).chars().any(char::is_control) {
            self.faults.push(Fault::Control { key });
        } else if shown.ends_with(['\r', '\n']) {
            self.faults.push(Fault::LineBreak { key });
        } else {
            return Some(text);
        }
        None
    }

    /// A text of one line that says something of its own. A line break at its end is nothing there.
    pub(super) fn read_checked<T>(
        &mut self,
        key: &'static str,
        what: &str,
        fix: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.read_text(key)?;
        let value = read(text.expose_secret().trim());
        if value.is_none() {
            self.faults.push(Fault::Malformed { key, what: what.to_owned(), fix });
        }
        value
    }

    pub(super) fn read_certificates(&mut self, key: &'static str) -> Option<Vec<u8>> {
        self.read_text(key)?;
        let bytes = self.secret.get(key)?;
        let mut count = 0_usize;
        let sound = CertificateDer::pem_slice_iter(bytes).all(|read| {
            count = count.saturating_add(1);
            read.is_ok()
        });
        if sound && count > 0 {
            return Some(bytes.to_vec());
        }
        let what = "a certificate in PEM".to_owned();
        let fix = "it begins with `-----BEGIN CERTIFICATE-----`; copy the whole file";
        self.faults.push(Fault::Malformed { key, what, fix });
        None
    }

    pub(super) fn read_pem_key(&mut self, key: &'static str) -> Option<SecretSlice<u8>> {
        self.read_text(key)?;
        let bytes = self.secret.get(key)?;
        if PrivateKeyDer::from_pem_slice(bytes).is_ok() {
            return Some(SecretSlice::from(bytes.to_vec()));
        }
        let what = "a private key in PEM without a passphrase".to_owned();
        let fix =
            "it begins with `-----BEGIN PRIVATE KEY-----` or `-----BEGIN RSA PRIVATE KEY-----`; copy the whole file";
        self.faults.push(Fault::Malformed { key, what, fix });
        None
    }
}

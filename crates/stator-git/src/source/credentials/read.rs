//! From keys and values to credentials, or to every reason why not.

use super::super::secret::SecretValues;
use super::super::ssh_keys::{KnownHosts, SshKeyError, SshPrivateKey};
use super::super::url::RepositoryUrl;
use super::error::GitTransport;
use super::{
    AppInstallation, ClientCertificate, CredentialError, CredentialFault as Fault, GitCredentials, GitLogin, GithubApp,
    ProxySettings, SshIdentity,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use stator_core::finding::closest_match;

/// Every key that means something here.
const KNOWN_KEYS: [&str; 23] = [
    "bearerToken",
    "ca.crt",
    "caFile",
    "githubAppBaseURL",
    "githubAppEnterpriseBaseUrl",
    "githubAppID",
    "githubAppInstallationID",
    "githubAppInstallationOwner",
    "githubAppPrivateKey",
    "identity",
    "known_hosts",
    "noProxy",
    "password",
    "proxy",
    "sshPrivateKey",
    "ssh_known_hosts",
    "tls.crt",
    "tls.key",
    "tlsClientCertData",
    "tlsClientCertKey",
    "url",
    "username",
    "identity.pub",
];

/// Keys that both tools' secrets carry for other readers, so that no misspelling is seen in them.
const IGNORED_KEYS: [&str; 12] = [
    "address",
    "enableLfs",
    "forceHttpBasicAuth",
    "headers",
    "insecure",
    "insecureIgnoreHostKey",
    "name",
    "project",
    "sshKnownHosts",
    "token",
    "type",
    "webhookSecret",
];

/// Keys of Argo CD for what stator does not do.
const UNSUPPORTED_KEYS: [(&str, &str); 7] = [
    ("azureActiveDirectoryEndpoint", AZURE_TOKEN_HINT),
    ("azureServicePrincipalClientID", AZURE_TOKEN_HINT),
    ("azureServicePrincipalClientId", AZURE_TOKEN_HINT),
    ("azureServicePrincipalClientSecret", AZURE_TOKEN_HINT),
    ("azureServicePrincipalTenantId", AZURE_TOKEN_HINT),
    ("gcpServiceAccountKey", "write `username` and `password` with a token of the repository"),
    ("useAzureWorkloadIdentity", AZURE_TOKEN_HINT),
];
const AZURE_TOKEN_HINT: &str = "write a personal access token as `password`, with any `username`";

const LOGIN_QUESTION: &str = "how to log in";
const HTTP_KEYS: [&str; 13] = [
    "bearerToken",
    "ca.crt",
    "caFile",
    "githubAppBaseURL",
    "githubAppEnterpriseBaseUrl",
    "githubAppID",
    "githubAppInstallationID",
    "githubAppInstallationOwner",
    "githubAppPrivateKey",
    "tls.crt",
    "tls.key",
    "tlsClientCertData",
    "tlsClientCertKey",
];
const PROXY_KEYS: [&str; 2] = ["noProxy", "proxy"];
const SSH_KEYS: [&str; 4] = ["identity", "known_hosts", "sshPrivateKey", "ssh_known_hosts"];

pub(super) fn credentials(
    secret: Option<&SecretValues>,
    url: &RepositoryUrl,
) -> Result<GitCredentials, CredentialError> {
    let way = GitTransport::for_url(url);
    let Some(secret) = secret else {
        return match way {
            GitTransport::Http | GitTransport::Local => Ok(GitCredentials::anonymous()),
            GitTransport::Ssh => Err(CredentialError { secret: None, faults: vec![Fault::NoSecret] }),
        };
    };
    let mut reader = CredentialReader { secret, faults: Vec::new() };
    reader.check_key_names();
    reader.check_repository_host(url);
    let read = match way {
        GitTransport::Http => reader.read_http(),
        GitTransport::Ssh => reader.read_ssh(url),
        GitTransport::Local => {
            let fix = "it is read with the rights of this process: remove `secretRef` from the source";
            reader.reject_unfit_keys(&KNOWN_KEYS, way, fix);
            Some(GitCredentials::anonymous())
        }
    };
    reader.finish(read)
}

pub(super) fn app(secret: &SecretValues) -> Result<Option<GithubApp>, CredentialError> {
    let mut reader = CredentialReader { secret, faults: Vec::new() };
    if !HTTP_KEYS.iter().any(|key| key.starts_with("githubApp") && reader.has(key)) {
        return Ok(None);
    }
    reader.check_key_names();
    let read = reader.read_app_keys();
    reader.finish(read).map(Some)
}

struct CredentialReader<'a> {
    secret: &'a SecretValues,
    faults: Vec<Fault>,
}

impl CredentialReader<'_> {
    fn finish<T>(mut self, read: Option<T>) -> Result<T, CredentialError> {
        self.faults.sort_by(|a, b| (a.key(), a).cmp(&(b.key(), b)));
        self.faults.dedup();
        match read {
            Some(read) if self.faults.is_empty() => Ok(read),
            _ => Err(CredentialError { secret: Some(self.secret.name().to_owned()), faults: self.faults }),
        }
    }

    fn has(&self, key: &str) -> bool {
        self.secret.get(key).is_some()
    }

    /// The first of the keys that is there. Both with different values is a question only a person can answer.
    fn one_of_keys(&mut self, one: &'static str, other: &'static str, question: &'static str) -> Option<&'static str> {
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
    fn check_key_names(&mut self) {
        for found in self.secret.keys() {
            if KNOWN_KEYS.contains(&found) || IGNORED_KEYS.contains(&found) {
                continue;
            }
            if let Some((key, fix)) = UNSUPPORTED_KEYS.iter().find(|(key, _)| *key == found) {
                self.faults.push(Fault::Unsupported { key, fix });
                continue;
            }
            let plain: String = found.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
            let same = |key: &&&str| {
                key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().eq_ignore_ascii_case(&plain)
            };
            let meant = KNOWN_KEYS.iter().find(same).copied().or_else(|| closest_match(found, KNOWN_KEYS));
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
    fn check_repository_host(&mut self, url: &RepositoryUrl) {
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

    fn reject_unfit_keys(&mut self, keys: &[&'static str], way: GitTransport, fix: &'static str) {
        for key in keys.iter().copied().filter(|key| *key != "url" && *key != "identity.pub") {
            if self.has(key) {
                self.faults.push(Fault::Unfit { key, way, fix });
            }
        }
    }

    fn read_http(&mut self) -> Option<GitCredentials> {
        self.reject_unfit_keys(
            &SSH_KEYS,
            GitTransport::Http,
            "write the `ssh://` address in the source, or `username` and `password` in the secret",
        );
        let basic = ["username", "password"].into_iter().find(|key| self.has(key));
        let bearer = self.has("bearerToken").then_some("bearerToken");
        let app = HTTP_KEYS.into_iter().find(|key| key.starts_with("githubApp") && self.has(key));
        let ways: Vec<&'static str> = [basic, bearer, app].into_iter().flatten().collect();
        for pair in ways.windows(2) {
            if let [one, other] = pair {
                self.faults.push(Fault::Ambiguous { one, other, question: LOGIN_QUESTION });
            }
        }
        let basic = basic.and_then(|_| self.read_basic_login());
        let bearer = bearer.and_then(|key| self.read_line(key)).map(GitLogin::Bearer);
        let app = app.and_then(|_| self.read_app_keys()).map(GitLogin::App);
        let login = basic.or(bearer).or(app);
        let roots = self.read_root_certificates();
        let client = self.read_client_certificate();
        let proxy = self.read_proxy();
        if ways.is_empty() && roots.is_none() && client.is_none() && proxy.is_none() && self.faults.is_empty() {
            let add = match self.has("token") {
                true => "`username` and `password` (`token` is read for the forge's API, not for git)",
                false => "`username` and `password`, `bearerToken`, the keys of a GitHub App, or `caFile`",
            };
            self.faults.push(Fault::Nothing { way: GitTransport::Http, add });
        }
        let login = login.or_else(|| ways.is_empty().then_some(GitLogin::Anonymous))?;
        Some(GitCredentials { login, roots: roots.unwrap_or_default(), client, proxy })
    }

    fn read_basic_login(&mut self) -> Option<GitLogin> {
        let (username, password) = (self.read_line("username"), self.read_line("password"));
        if !self.has("username") {
            let fix = "most hosts accept any name with a token: `git`; Bitbucket wants `x-token-auth`, GitLab's deploy \
                       tokens their own name";
            self.faults.push(Fault::Missing { have: "password", want: "`username`", fix });
        }
        if !self.has("password") {
            let fix = "put the password or token there";
            self.faults.push(Fault::Missing { have: "username", want: "`password`", fix });
        }
        Some(GitLogin::Basic { username: username?, password: password? })
    }

    fn read_app_keys(&mut self) -> Option<GithubApp> {
        let parts = [
            ("githubAppID", "`githubAppID`", "it is the number on the App's page"),
            ("githubAppPrivateKey", "`githubAppPrivateKey`", "put the `.pem` file there that the App's page creates"),
        ];
        let have = HTTP_KEYS.into_iter().find(|key| key.starts_with("githubApp") && self.has(key))?;
        for (key, want, fix) in parts {
            if !self.has(key) {
                self.faults.push(Fault::Missing { have, want, fix });
            }
        }
        if !self.has("githubAppInstallationID") && !self.has("githubAppInstallationOwner") {
            let want = "`githubAppInstallationID` or `githubAppInstallationOwner`";
            let fix = "the number is at the end of the installation's address, the owner is who installed it";
            self.faults.push(Fault::Missing { have, want, fix });
        }
        let id = self.read_checked("githubAppID", "the id of a GitHub App", "copy it from the App's page", |text| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
            (text.len() <= 64 && text.chars().all(plain)).then(|| text.to_owned())
        });
        let (number, owner) = ("githubAppInstallationID", "githubAppInstallationOwner");
        let installation = if self.has(number) && self.has(owner) {
            self.faults.push(Fault::Ambiguous { one: number, other: owner, question: "which installation" });
            None
        } else if self.has(number) {
            self.read_checked(number, "a number", "it is at the end of the installation's address", |text| {
                text.parse().ok().filter(|_| text.bytes().all(|c| c.is_ascii_digit())).map(AppInstallation::Id)
            })
        } else {
            self.read_checked(owner, "the name of an organisation or a user", "copy it from its address", |text| {
                let plain =
                    text.len() <= 100 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
                plain.then(|| AppInstallation::Owner(text.to_owned()))
            })
        };
        let key = self.read_pem_key("githubAppPrivateKey");
        let key = key.and_then(|_| self.secret.text("githubAppPrivateKey"));
        let api = self.one_of_keys("githubAppBaseURL", "githubAppEnterpriseBaseUrl", "where GitHub's API is");
        let api = match api {
            None => None,
            Some(key) => {
                Some(self.read_checked(key, "an `https://` address", "write `https://HOST/api/v3`", |text| {
                    let url = ::url::Url::parse(text).ok()?;
                    let sound = matches!(url.scheme(), "https" | "http") && url.host_str().is_some();
                    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
                    (sound && plain).then(|| text.trim_end_matches('/').to_owned())
                })?)
            }
        };
        Some(GithubApp { id: id?, installation: installation?, key: key?, api })
    }

    fn read_ssh(&mut self, url: &RepositoryUrl) -> Option<GitCredentials> {
        self.reject_unfit_keys(
            &HTTP_KEYS,
            GitTransport::Ssh,
            "write the `https://` address in the source, or remove the key",
        );
        self.reject_unfit_keys(
            &PROXY_KEYS,
            GitTransport::Ssh,
            "SSH goes to the host directly: write the `https://` address, or remove it",
        );
        self.reject_unfit_keys(
            &["username"],
            GitTransport::Ssh,
            "the user is part of the address: `ssh://USER@HOST/PATH`; for a token write the `https://` address",
        );
        let key = self.one_of_keys("identity", "sshPrivateKey", "which key to use");
        let hosts = self.one_of_keys("known_hosts", "ssh_known_hosts", "which keys the host may have");
        if !self.has("identity") && !self.has("sshPrivateKey") {
            let fix = "put the private key there, as `ssh-keygen` writes it";
            self.faults.push(match hosts {
                Some(have) => Fault::Missing { have, want: "`identity`", fix },
                None => Fault::Nothing { way: GitTransport::Ssh, add: "`identity`, a private key, and `known_hosts`" },
            });
        }
        let known_hosts = match hosts {
            Some(key) => self.read_known_hosts(key),
            None => {
                let published = KnownHosts::published_for(url.host(), url.port());
                if let (None, Some(have)) = (&published, key) {
                    let fix = "put the lines there that `ssh-keyscan HOST` prints, after comparing their fingerprints \
                               with those that the host's owner publishes";
                    self.faults.push(Fault::Missing { have, want: "`known_hosts`", fix });
                }
                published
            }
        };
        let passphrase = if self.has("password") { self.read_line("password") } else { None };
        let key = key.and_then(|key| {
            let text = self.read_text(key)?;
            match SshPrivateKey::read(&text, passphrase.as_ref()) {
                Ok(identity) => Some(identity),
                // Told as a fault of the passphrase already.
                Err(SshKeyError::Encrypted) if self.has("password") => None,
                Err(fault) => {
                    self.faults.push(Fault::Malformed { key, what: fault.to_string(), fix: fault.fix() });
                    None
                }
            }
        });
        let identity = SshIdentity { key: key?, known_hosts: known_hosts? };
        Some(GitCredentials { login: GitLogin::Ssh(identity), ..GitCredentials::anonymous() })
    }

    fn read_known_hosts(&mut self, key: &'static str) -> Option<KnownHosts> {
        let text = self.read_text(key)?;
        match KnownHosts::read(text.expose_secret()) {
            Ok(known) => return Some(known),
            Err(faults) => self.faults.extend(faults.into_iter().map(|(line, reason)| Fault::Malformed {
                key,
                what: format!("a list of known hosts: line {line} {reason}"),
                fix: "fix the line or remove it",
            })),
        }
        None
    }

    fn read_root_certificates(&mut self) -> Option<Vec<u8>> {
        let key = if self.has("ca.crt") { "ca.crt" } else { "caFile" };
        self.read_certificates(key)
    }

    fn read_client_certificate(&mut self) -> Option<ClientCertificate> {
        let certificate = self.one_of_keys("tls.crt", "tlsClientCertData", "which certificate to use");
        let key = self.one_of_keys("tls.key", "tlsClientCertKey", "which key the certificate has");
        match (certificate, key) {
            (Some(have), None) => {
                let fix = "put the certificate's private key there, as PEM";
                self.faults.push(Fault::Missing { have, want: "`tls.key`", fix });
            }
            (None, Some(have)) => {
                let fix = "put the key's certificate there, as PEM";
                self.faults.push(Fault::Missing { have, want: "`tls.crt`", fix });
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
        let certificate = certificate.and_then(|key| self.read_certificates(key));
        let key = key.and_then(|key| self.read_pem_key(key));
        Some(ClientCertificate { certificate: certificate?, key: key? })
    }

    fn read_proxy(&mut self) -> Option<ProxySettings> {
        let bypass = if self.has("noProxy") { self.read_line("noProxy") } else { None };
        if !self.has("proxy") {
            if self.has("noProxy") {
                let fix = "write the proxy's address there, or remove `noProxy`";
                self.faults.push(Fault::Missing { have: "noProxy", want: "`proxy`", fix });
            }
            return None;
        }
        let fix = "write `http://HOST:PORT`, `https://HOST:PORT` or `socks5://HOST:PORT`";
        let (url, login) = self.read_checked("proxy", "a proxy's address", fix, |text| {
            let mut url = ::url::Url::parse(text).ok()?;
            let sound = matches!(url.scheme(), "http" | "https" | "socks5" | "socks5h") && url.host_str().is_some();
            let decoded = |part: &str| {
                let text = percent_encoding::percent_decode_str(part).decode_utf8().ok()?;
                Some(SecretString::from(text.into_owned()))
            };
            let login = match (url.username(), url.password()) {
                ("", None) => None,
                (user, password) => Some((decoded(user)?, decoded(password.unwrap_or_default())?)),
            };
            url.set_username("").ok()?;
            url.set_password(None).ok()?;
            sound.then(|| (url.as_str().trim_end_matches('/').to_owned(), login))
        })?;
        Some(ProxySettings { url, login, bypass: bypass.map(|text| text.expose_secret().to_owned()) })
    }

    /// A text of any number of lines.
    fn read_text(&mut self, key: &'static str) -> Option<SecretString> {
        let bytes = self.secret.get(key)?;
        match std::str::from_utf8(bytes) {
            Ok(text) if text.trim().is_empty() => self.faults.push(Fault::Empty { key }),
            Ok(text) => return Some(SecretString::from(text)),
            Err(_) => self.faults.push(Fault::NotText { key }),
        }
        None
    }

    /// A text of one line that is sent as it is.
    fn read_line(&mut self, key: &'static str) -> Option<SecretString> {
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
    fn read_checked<T>(
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

    fn read_certificates(&mut self, key: &'static str) -> Option<Vec<u8>> {
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

    fn read_pem_key(&mut self, key: &'static str) -> Option<SecretSlice<u8>> {
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

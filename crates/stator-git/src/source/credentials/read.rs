//! From keys and values to credentials, or to every reason why not.

use super::error::{CredentialError, CredentialFault as Fault, GitTransport};
use super::keys::{APP_KEYS, HTTP_KEYS, PROXY_KEYS, SSH_KEYS, used_keys};
use super::secret_reader::CredentialReader;
use super::{AppInstallation, ClientCertificate, GitCredentials, GitLogin, GithubApp, ProxySettings, SshIdentity};
use crate::source::secret::SecretValues;
use crate::source::ssh_keys::{KnownHosts, SshKeyError, SshPrivateKey};
use crate::source::url::RepositoryUrl;
use secrecy::{ExposeSecret as _, SecretString};

const LOGIN_QUESTION: &str = "how to log in";
impl GitCredentials {
    /// What the secret gives for that address; without a secret, nobody's login.
    ///
    /// | Keys | Give |
    /// |-|-|
    /// | `username`, `password` | basic |
    /// | `bearerToken` | bearer |
    /// | `githubAppID`, `githubAppInstallationID` or `githubAppInstallationOwner`, `githubAppPrivateKey`, and `githubAppBaseURL` or `githubAppEnterpriseBaseUrl` | a GitHub App |
    /// | `identity` or `sshPrivateKey`, `known_hosts` or `ssh_known_hosts`, and `password` for an encrypted key | SSH; without known hosts what github.com, gitlab.com and bitbucket.org publish |
    /// | `ca.crt` or `caFile` | roots |
    /// | `tls.crt` and `tls.key`, or `tlsClientCertData` and `tlsClientCertKey` | a client certificate |
    /// | `proxy`, `noProxy` | a proxy |
    ///
    /// Where two are alternatives, the first one is used.
    ///
    /// # Errors
    /// Every fault of the secret at once. See [`super::CredentialFault`].
    pub fn read(secret: Option<&SecretValues>, url: &RepositoryUrl) -> Result<Self, CredentialError> {
        let way = GitTransport::for_url(url);
        let Some(secret) = secret else {
            return match way {
                GitTransport::Http | GitTransport::Local => Ok(Self::anonymous()),
                GitTransport::Ssh => Err(CredentialError { secret: None, faults: vec![Fault::NoSecret] }),
            };
        };
        let mut reader = CredentialReader::new(secret);
        reader.check_key_names();
        reader.check_repository_host(url);
        let read = match way {
            GitTransport::Http => reader.read_http(),
            GitTransport::Ssh => reader.read_ssh(url),
            GitTransport::Local => {
                let fix = "it is read with the rights of this process: remove `secretRef` from the source";
                reader.reject_unfit_keys(used_keys(), way, fix);
                Some(Self::anonymous())
            }
        };
        reader.finish(read)
    }
}

impl GithubApp {
    /// The GitHub App of a secret; `None` when the secret has none of its keys. For a secret that is for the forge's
    /// API and not for git.
    ///
    /// # Errors
    /// Every fault of these keys at once. See [`super::CredentialFault`].
    pub fn read(secret: &SecretValues) -> Result<Option<Self>, CredentialError> {
        let mut reader = CredentialReader::new(secret);
        if !APP_KEYS.iter().any(|key| reader.has(key)) {
            return Ok(None);
        }
        reader.check_key_names();
        let read = reader.read_app_keys();
        reader.finish(read).map(Some)
    }
}

impl CredentialReader<'_> {
    fn read_http(&mut self) -> Option<GitCredentials> {
        self.reject_unfit_keys(
            SSH_KEYS,
            GitTransport::Http,
            "write the `ssh://` address in the source, or `username` and `password` in the secret",
        );
        let basic = ["username", "password"].into_iter().find(|key| self.has(key));
        let bearer = self.has("bearerToken").then_some("bearerToken");
        let app = APP_KEYS.into_iter().find(|key| self.has(key));
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
        let anonymous = GitCredentials::anonymous();
        Some(GitCredentials { login, roots: roots.unwrap_or_default(), client, proxy, ..anonymous })
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
        let have = APP_KEYS.into_iter().find(|key| self.has(key))?;
        for (key, want, fix) in parts {
            if !self.has(key) {
                self.faults.push(Fault::Missing { have, want, fix });
            }
        }
        if !self.has("githubAppInstallationID") && !self.has("githubAppInstallationOwner") {
            let want = "`githubAppInstallationID` or `githubAppInstallationOwner`";
            let fix = "the number is at the end of the installation's address, the owner is the account that installed \
                       the App";
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
            APP_KEYS.into_iter().chain(HTTP_KEYS),
            GitTransport::Ssh,
            "write the `https://` address in the source, or remove the key",
        );
        self.reject_unfit_keys(
            PROXY_KEYS,
            GitTransport::Ssh,
            "SSH goes to the host directly: write the `https://` address, or remove it",
        );
        self.reject_unfit_keys(
            ["username"],
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
}

use super::*;
use crate::source::secret::SecretValues;
use crate::source::url::{AllowedSchemes, RepositoryUrl};
use proptest::prelude::*;
use secrecy::ExposeSecret as _;

const HTTPS: &str = "https://git.example.com/team/models.git";
const SSH: &str = "ssh://git@git.example.com/team/models.git";
const KNOWN: &str =
    "git.example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n";

fn address(text: &str) -> RepositoryUrl {
    RepositoryUrl::parse(text, AllowedSchemes { insecure: true, local: true }).unwrap()
}

fn secret(values: &[(&str, &str)]) -> SecretValues {
    SecretValues::new("git", values.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())))
}

fn read(url: &str, values: &[(&str, &str)]) -> Result<GitCredentials, CredentialError> {
    GitCredentials::read(Some(&secret(values)), &address(url))
}

/// What a user is told; shows `nothing` where a fault was expected.
fn described(url: &str, values: &[(&str, &str)]) -> String {
    read(url, values).map_or_else(|error| error.to_string(), |_| "nothing".to_owned())
}

/// A private key of `tests/data/ssh`.
fn key(name: &str) -> String {
    fs_err::read_to_string(format!("{}/tests/data/ssh/{name}-key", concat!(env!("CARGO_MANIFEST_DIR"), "/../..")))
        .unwrap()
}

fn certificate() -> &'static str {
    "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
}

fn private_key() -> &'static str {
    "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"
}

#[test]
fn secrets_of_flux_and_of_argo_cd_log_in() {
    let app = &[
        ("githubAppID", "42\n"),
        ("githubAppInstallationID", "7"),
        ("githubAppPrivateKey", private_key()),
        ("githubAppBaseURL", "https://git.example.com/api/v3/"),
    ];
    let argo = &[
        ("type", "git"),
        ("project", "default"),
        ("url", "https://git.example.com/team"),
        ("username", "git"),
        ("password", "secret"),
        ("proxy", "http://me:p%40ss@proxy:3128"),
        ("noProxy", "localhost,.svc"),
        ("tlsClientCertData", certificate()),
        ("tlsClientCertKey", private_key()),
    ];
    let (plain, encrypted) = (key("ed25519"), key("ed25519-encrypted"));
    let all: [(&str, &[(&str, &str)]); 8] = [
        (HTTPS, &[("username", "git"), ("password", "secret")]),
        (HTTPS, &[("bearerToken", "secret")]),
        (HTTPS, app),
        (HTTPS, argo),
        (HTTPS, &[("caFile", certificate())]),
        (SSH, &[("identity", &encrypted), ("identity.pub", "x"), ("known_hosts", KNOWN), ("password", "pass phrase")]),
        (SSH, &[("sshPrivateKey", &plain), ("ssh_known_hosts", KNOWN)]),
        ("git@github.com:team/models.git", &[("sshPrivateKey", &plain)]),
    ];
    let shown: Vec<String> = all
        .into_iter()
        .map(|(url, values)| {
            let read = read(url, values).unwrap();
            let login = match &read.login {
                GitLogin::Anonymous => "nobody".to_owned(),
                GitLogin::Basic { username, password } => {
                    format!("basic {} {}", username.expose_secret(), password.expose_secret())
                }
                GitLogin::Bearer(token) => format!("bearer {}", token.expose_secret()),
                GitLogin::App(app) => format!("app {} {:?} {:?}", app.id, app.installation, app.api),
                GitLogin::Ssh(_) => "ssh".to_owned(),
            };
            let proxy = read.proxy.map(|proxy| {
                let (user, password) = proxy.login.unwrap();
                format!(
                    "; {} as {} {} but for {:?}",
                    proxy.url,
                    user.expose_secret(),
                    password.expose_secret(),
                    proxy.bypass
                )
            });
            format!(
                "{login}; {} bytes of roots; client {}{}",
                read.roots.len(),
                read.client.is_some(),
                proxy.unwrap_or_default()
            )
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    basic git secret; 0 bytes of roots; client false
    bearer secret; 0 bytes of roots; client false
    app 42 Id(7) Some("https://git.example.com/api/v3"); 0 bytes of roots; client false
    basic git secret; 0 bytes of roots; client true; http://proxy:3128 as me p@ss but for Some("localhost,.svc")
    nobody; 59 bytes of roots; client false
    ssh; 0 bytes of roots; client false
    ssh; 0 bytes of roots; client false
    ssh; 0 bytes of roots; client false
    "#);
}

#[test]
fn what_cannot_be_right_is_told_at_once() {
    insta::assert_snapshot!(described(HTTPS, &[
        ("githubAppId", "1"), ("known-hosts", "x"), ("password", "canary\n"), ("bearerToken", "can\nary"),
        ("identity", "canary"), ("caFile", "canary"), ("tls.crt", certificate()), ("noProxy", "canary"),
        ("insecure", "true"), ("url", "https://elsewhere.example.com"),
    ]), @"
    secret `git`: 12 errors
      `bearerToken` has a line break or another control character in it; copy it again
      `caFile` is not a certificate in PEM; it begins with `-----BEGIN CERTIFICATE-----`; copy the whole file
      `githubAppId` is an unknown key; did you mean `githubAppID`?
      `identity` has no effect for an `https://` address; write the `ssh://` address in the source, or `username` and `password` in the secret
      `insecure` is not supported: hosts are always verified; add its certificate as `caFile`, or its key to `known_hosts`
      `known-hosts` is an unknown key; did you mean `known_hosts`?
      `noProxy` needs `proxy`; write the proxy's address there, or remove `noProxy`
      `password` needs `username`; most hosts accept any name with a token: `git`; Bitbucket wants `x-token-auth`, GitLab's deploy tokens their own name
      `password` and `bearerToken` conflict: both define how to log in; keep one of them
      `password` ends in a line break, which would be sent with it; remove it (`printf %s` instead of `echo`, `--from-literal` instead of `--from-file`)
      `tls.crt` needs `tls.key`; put the certificate's private key there, as PEM
      `url` is for `elsewhere.example.com`, but the repository is on another host; use the secret of its host
    ");
    insta::assert_snapshot!(described(HTTPS, &[("githubAppID", "can ary"), ("username", "")]), @"
    secret `git`: 6 errors
      `githubAppID` needs `githubAppInstallationID` or `githubAppInstallationOwner`; the number is at the end of the installation's address, the owner is the account that installed the App
      `githubAppID` needs `githubAppPrivateKey`; put the `.pem` file there that the App's page creates
      `githubAppID` is not the id of a GitHub App; copy it from the App's page
      `username` needs `password`; put the password or token there
      `username` and `githubAppID` conflict: both define how to log in; keep one of them
      `username` is empty; set it or remove it
    ");
    insta::assert_snapshot!(described(HTTPS, &[
        ("githubAppID", "1"), ("githubAppInstallationID", "canary"), ("githubAppPrivateKey", "canary"),
        ("githubAppBaseURL", "https://me:canary@git.example.com"),
    ]), @r"
    secret `git`: 3 errors
      `githubAppBaseURL` is not an `https://` address; write `https://HOST/api/v3`
      `githubAppInstallationID` is not a number; it is at the end of the installation's address
      `githubAppPrivateKey` is not a private key in PEM without a passphrase; it begins with `-----BEGIN PRIVATE KEY-----` or `-----BEGIN RSA PRIVATE KEY-----`; copy the whole file
    ");
    insta::assert_snapshot!(described(HTTPS, &[
        ("githubAppID", "1"), ("githubAppInstallationID", "1"), ("githubAppInstallationOwner", "team"),
        ("githubAppPrivateKey", private_key()), ("githubAppBaseURL", "https://a"), ("githubAppEnterpriseBaseUrl", "https://b"),
    ]), @r"
    secret `git`: 2 errors
      `githubAppBaseURL` and `githubAppEnterpriseBaseUrl` conflict: both define where GitHub's API is; keep one of them
      `githubAppInstallationID` and `githubAppInstallationOwner` conflict: both define which installation; keep one of them
    ");
    insta::assert_snapshot!(described(HTTPS, &[("token", "canary")]), @"secret `git`: has none of the keys for an `https://` address; add `username` and `password` (`token` is read for the forge's API, not for git)");
    insta::assert_snapshot!(described(HTTPS, &[]), @"secret `git`: has none of the keys for an `https://` address; add `username` and `password`, `bearerToken`, the keys of a GitHub App, or `caFile`");
    insta::assert_snapshot!(described(HTTPS, &[("azureServicePrincipalClientId", "canary"), ("proxy", "canary")]), @r"
    secret `git`: 2 errors
      `azureServicePrincipalClientId` is not supported: write a personal access token as `password`, with any `username`
      `proxy` is not a proxy's address; write `http://HOST:PORT`, `https://HOST:PORT` or `socks5://HOST:PORT`
    ");
}

#[test]
fn ssh_needs_a_key_and_the_keys_of_its_host() {
    insta::assert_snapshot!(GitCredentials::read(None, &address(SSH)).unwrap_err(), @"an SSH address needs `secretRef` with a secret that has `identity` and `known_hosts`; for a public repository write the `https://` address");
    insta::assert_snapshot!(described(SSH, &[("identity", "canary")]), @r"
    secret `git`: 2 errors
      `identity` needs `known_hosts`; put the lines there that `ssh-keyscan HOST` prints, after comparing their fingerprints with those that the host's owner publishes
      `identity` is not a private key; it begins with `-----BEGIN OPENSSH PRIVATE KEY-----` or the like; copy the whole file
    ");
    insta::assert_snapshot!(described(SSH, &[("known_hosts", "canary")]), @r"
    secret `git`: 2 errors
      `known_hosts` needs `identity`; put the private key there, as `ssh-keygen` writes it
      `known_hosts` is not a list of known hosts: line 1 does not have host, kind and key; copy the whole line from `ssh-keyscan`; fix the line or remove it
    ");
    insta::assert_snapshot!(described(SSH, &[("username", "me"), ("password", "canary")]), @r"
    secret `git`: 2 errors
      has none of the keys for an SSH address; add `identity`, a private key, and `known_hosts`
      `username` has no effect for an SSH address; the user is part of the address: `ssh://USER@HOST/PATH`; for a token write the `https://` address
    ");
    insta::assert_snapshot!(described(SSH, &[
        ("identity", "canary"), ("sshPrivateKey", "other"), ("known_hosts", ""), ("bearerToken", "canary"), ("proxy", "http://x"),
    ]), @r"
    secret `git`: 4 errors
      `bearerToken` has no effect for an SSH address; write the `https://` address in the source, or remove the key
      `identity` and `sshPrivateKey` conflict: both define which key to use; keep one of them
      `known_hosts` is empty; set it or remove it
      `proxy` has no effect for an SSH address; SSH goes to the host directly: write the `https://` address, or remove it
    ");
}

#[test]
fn a_key_that_cannot_be_used_is_told_with_the_way_out() {
    let (encrypted, public) = (key("ed25519-encrypted"), key("ed25519").replace("PRIVATE", "PUBLIC"));
    insta::assert_snapshot!(described(SSH, &[("identity", &encrypted), ("known_hosts", "git.example.com canary\n@odd x y z")]), @r"
    secret `git`: 3 errors
      `identity` is not readable without the passphrase that it is encrypted with; put the passphrase into the key `password`, or remove it with `ssh-keygen -p -f FILE`
      `known_hosts` is not a list of known hosts: line 1 has a key that cannot be read: length invalid; fix the line or remove it
      `known_hosts` is not a list of known hosts: line 2 begins with an unknown marker; known: `@revoked` and `@cert-authority`; fix the line or remove it
    ");
    insta::assert_snapshot!(described(SSH, &[("identity", &encrypted), ("known_hosts", KNOWN), ("password", "canary")]), @"secret `git`: `identity` is not encrypted with the passphrase that `password` has; correct `password`; `ssh-keygen -y -f FILE` shows whether it is right");
    insta::assert_snapshot!(described(SSH, &[("identity", &encrypted), ("known_hosts", KNOWN), ("password", "pass phrase\n")]), @"secret `git`: `password` ends in a line break, which would be sent with it; remove it (`printf %s` instead of `echo`, `--from-literal` instead of `--from-file`)");
    insta::assert_snapshot!(described(SSH, &[("identity", &public), ("known_hosts", KNOWN)]), @"secret `git`: `identity` is not a private key but the public half; take the file without `.pub`");
    insta::assert_snapshot!(described(SSH, &[("identity", &key("rsa-pkcs1-encrypted")), ("known_hosts", KNOWN)]), @"secret `git`: `identity` is not in a supported format; convert it to OpenSSH's format with `ssh-keygen -p -f FILE`");
}

#[test]
fn a_path_of_this_machine_needs_none() {
    assert!(matches!(GitCredentials::read(None, &address("/srv/models.git")).unwrap().login, GitLogin::Anonymous));
    assert!(matches!(GitCredentials::read(None, &address(HTTPS)).unwrap().login, GitLogin::Anonymous));
    insta::assert_snapshot!(described("/srv/models.git", &[("password", "canary")]), @"secret `git`: `password` has no effect for a local path; it is read with the rights of this process: remove `secretRef` from the source");
}

#[test]
fn a_forge_secret_gives_its_app() {
    assert!(GithubApp::read(&secret(&[("token", "canary")])).unwrap().is_none());
    let app = GithubApp::read(&secret(&[
        ("githubAppID", "Iv23liCanary"),
        ("githubAppInstallationOwner", "team"),
        ("githubAppPrivateKey", private_key()),
    ]));
    assert_eq!(app.unwrap().unwrap().installation, AppInstallation::Owner("team".to_owned()));
    insta::assert_snapshot!(GithubApp::read(&secret(&[("githubAppID", "1")])).unwrap_err(), @"
    secret `git`: 2 errors
      `githubAppID` needs `githubAppInstallationID` or `githubAppInstallationOwner`; the number is at the end of the installation's address, the owner is the account that installed the App
      `githubAppID` needs `githubAppPrivateKey`; put the `.pem` file there that the App's page creates
    ");
}

#[test]
fn text_in_another_encoding_is_told_as_such() {
    let values = ["password", "username", "caFile"].map(|key| (key.to_owned(), vec![0xff, 0xfe, b'x']));
    insta::assert_snapshot!(GitCredentials::read(Some(&SecretValues::new("git", values)), &address(HTTPS)).unwrap_err(), @r"
    secret `git`: 3 errors
      `caFile` is not text (not UTF-8); was it encoded as base64 twice, or made from a binary file?
      `password` is not text (not UTF-8); was it encoded as base64 twice, or made from a binary file?
      `username` is not text (not UTF-8); was it encoded as base64 twice, or made from a binary file?
    ");
}

proptest! {
    /// Whatever stands in a secret, nothing of it is in anything that can be printed.
    #[test]
    fn no_value_can_be_printed(
        url in prop_oneof![Just(HTTPS), Just(SSH), Just("/srv/models.git")],
        keys in prop::collection::vec("username|password|bearerToken|identity|known_hosts|sshPrivateKey|caFile|ca.crt|tls.crt|tls.key|githubAppID|githubAppInstallationID|githubAppInstallationOwner|githubAppPrivateKey|githubAppBaseURL|proxy|noProxy|url|githubAppId|insecure", 0..8),
        frame in prop_oneof![Just(("", "")), Just(("", "\n")), Just(("-----BEGIN PRIVATE KEY-----\n", "\n-----END PRIVATE KEY-----\n")), Just(("-----BEGIN CERTIFICATE-----\n", "")), Just(("https://me:", "@host/x")), Just(("\u{0}", "%"))],
    ) {
        const CANARY: &str = "c4naryc4nary";
        let value = format!("{}{CANARY}{}", frame.0, frame.1);
        let values: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), value.as_str())).collect();
        let secret = secret(&values);
        let read = GitCredentials::read(Some(&secret), &address(url));
        // An App's id and owner, a proxy's host and the keys of hosts are no secrets.
        let shown = match &read {
            Ok(credentials) => format!("{:?}", credentials.login),
            Err(error) => format!("{error} {error:?}"),
        };
        let public = matches!(&read, Ok(GitCredentials { login: GitLogin::App(_) | GitLogin::Ssh(_), .. }));
        prop_assert!(public || !shown.contains(CANARY), "{}", shown);
        let debug = format!("{secret:?}");
        prop_assert!(!debug.contains(CANARY));
    }
}

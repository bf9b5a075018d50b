//! The names of the keys in a secret for git, as Flux and Argo CD have them.

/// Keys of a GitHub App.
pub(super) const APP_KEYS: [&str; 6] = [
    "githubAppBaseURL",
    "githubAppEnterpriseBaseUrl",
    "githubAppID",
    "githubAppInstallationID",
    "githubAppInstallationOwner",
    "githubAppPrivateKey",
];
/// Further keys that HTTP alone has a use for.
pub(super) const HTTP_KEYS: [&str; 7] =
    ["bearerToken", "ca.crt", "caFile", "tls.crt", "tls.key", "tlsClientCertData", "tlsClientCertKey"];
/// Keys for what is gone through on the way to an HTTP host.
pub(super) const PROXY_KEYS: [&str; 2] = ["noProxy", "proxy"];
/// Keys that SSH alone has a use for.
pub(super) const SSH_KEYS: [&str; 4] = ["identity", "known_hosts", "sshPrivateKey", "ssh_known_hosts"];
/// Keys that both have a use for.
pub(super) const LOGIN_KEYS: [&str; 2] = ["password", "username"];
/// Keys that are known and log nobody in.
const SILENT_KEYS: [&str; 2] = ["identity.pub", "url"];

/// Every key that is read for a login, a trust or a way.
pub(super) fn used_keys() -> impl Iterator<Item = &'static str> + Clone {
    APP_KEYS.into_iter().chain(HTTP_KEYS).chain(PROXY_KEYS).chain(SSH_KEYS).chain(LOGIN_KEYS)
}

/// Every key that means something here.
pub(super) fn known_keys() -> impl Iterator<Item = &'static str> + Clone {
    used_keys().chain(SILENT_KEYS)
}

/// Keys that both tools' secrets carry for other readers, so that no misspelling is seen in them.
pub(super) const IGNORED_KEYS: [&str; 12] = [
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
pub(super) const UNSUPPORTED_KEYS: [(&str, &str); 7] = [
    ("azureActiveDirectoryEndpoint", AZURE_TOKEN_HINT),
    ("azureServicePrincipalClientID", AZURE_TOKEN_HINT),
    ("azureServicePrincipalClientId", AZURE_TOKEN_HINT),
    ("azureServicePrincipalClientSecret", AZURE_TOKEN_HINT),
    ("azureServicePrincipalTenantId", AZURE_TOKEN_HINT),
    ("gcpServiceAccountKey", "write `username` and `password` with a token of the repository"),
    ("useAzureWorkloadIdentity", AZURE_TOKEN_HINT),
];
const AZURE_TOKEN_HINT: &str = "write a personal access token as `password`, with any `username`";

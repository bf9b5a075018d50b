//! Addresses of repositories: which are fetched from at all.
//!
//! Git understands many more than are safe to take from a file that others write: helpers that run programs (`ext::`),
//! options in the place of hosts (`-oProxyCommand=`), plain text on the wire. Only what is named here is let in.

use std::fmt;

/// The address of a repository, without credentials.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RepositoryUrl {
    scheme: UrlScheme,
    user: Option<String>,
    host: String,
    port: Option<u16>,
    path: String,
}

/// How a repository is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UrlScheme {
    /// Smart HTTP over TLS.
    Https,
    /// Smart HTTP in the clear.
    Http,
    /// Git over SSH.
    Ssh,
    /// A folder of this machine.
    Local,
}

/// What a source lets in beyond `https` and `ssh`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllowedSchemes {
    /// `http://`.
    pub insecure: bool,
    /// `file://` and paths.
    pub local: bool,
}

/// Why an address is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme, or none.
    #[error("`{scheme}` is not supported; write `https://HOST/PATH` or `ssh://USER@HOST/PATH`")]
    Scheme {
        /// What stands before the `://` or `::`, or all of it.
        scheme: String,
    },
    /// `http://` without leave.
    #[error("`http://` is not encrypted; write `https://`, or set `allowInsecure: true`")]
    Insecure,
    /// A local path without leave.
    #[error("a local path needs `allowLocal: true`")]
    Local,
    /// A password, or over HTTP a user.
    #[error("credentials do not belong in the address; put them into the secret that `secretRef` names")]
    Credentials,
    /// The host cannot be one.
    #[error("the address has no valid host; write it as in `https://git.example.com/team/models.git`")]
    Host,
    /// The port is no number, or zero.
    #[error("`{port}` is not a valid port; write a number from 1 to 65535")]
    Port {
        /// What stands there.
        port: String,
    },
    /// No path, or one that leads elsewhere than it says.
    #[error("the address has no path to a repository, or one with `..`, `?`, `#` or an empty part in it")]
    Path,
    /// A character that a terminal or a protocol would take for something else.
    #[error("there is a space or a control character in the address, at byte {at}")]
    Character {
        /// Where, from 0.
        at: usize,
    },
    /// Longer than 2,048 bytes.
    #[error("the address is longer than 2048 bytes")]
    Length,
}

impl RepositoryUrl {
    /// Reads an address: `https://host[:port]/path`, `ssh://[user@]host[:port]/path`, `[user@]host:path` as git writes it
    /// for SSH, and where allowed `http://`, `file:///path` and `/path`.
    ///
    /// # Errors
    /// See [`UrlError`].
    pub fn parse(text: &str, allowed: AllowedSchemes) -> Result<Self, UrlError> {
        if text.len() > 2048 {
            return Err(UrlError::Length);
        }
        if let Some((at, _)) = text.char_indices().find(|(_, c)| c.is_control() || c.is_whitespace()) {
            return Err(UrlError::Character { at });
        }
        if let Some(path) = text.strip_prefix("file://") {
            // What follows would be a host otherwise, and no host is asked for a file.
            return if path.starts_with('/') { parse_local_path(path, allowed) } else { Err(UrlError::Path) };
        }
        if text.starts_with('/') || text.starts_with("./") || text.starts_with("../") || text == "." || text == ".." {
            return parse_local_path(text, allowed);
        }
        let (scheme, rest) = match text.split_once("://") {
            Some(("https", rest)) => (UrlScheme::Https, rest),
            Some(("http", rest)) if allowed.insecure => (UrlScheme::Http, rest),
            Some(("http", _)) => return Err(UrlError::Insecure),
            Some(("ssh" | "git+ssh" | "ssh+git", rest)) => (UrlScheme::Ssh, rest),
            Some((scheme, _)) => return Err(UrlError::Scheme { scheme: scheme.to_owned() }),
            None => return parse_scp_syntax(text),
        };
        let (authority, path) = rest.split_once('/').ok_or(UrlError::Path)?;
        let (user, host, port) = parse_authority(scheme, authority)?;
        Ok(Self { scheme, user, host, port, path: parse_repository_path(path)? })
    }

    /// How the repository is reached.
    pub fn scheme(&self) -> UrlScheme {
        self.scheme
    }

    /// The user to log in as over SSH: `git` where the address names none. `None` for every other scheme.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The host in lower case, an IPv6 address in brackets; empty for a local path.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, the scheme's own when none is given.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(match self.scheme {
            UrlScheme::Https => 443,
            UrlScheme::Http => 80,
            UrlScheme::Ssh => 22,
            UrlScheme::Local => 0,
        })
    }

    /// The path as given, without a leading `/`; for a local one the path on this machine.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Owner (with all groups) and name, as a git host's API has them: `team/sub` and `models`. `None` when the path has
    /// one part only.
    pub fn repository(&self) -> Option<(&str, &str)> {
        let path = self.path.trim_end_matches('/');
        path.strip_suffix(".git").unwrap_or(path).rsplit_once('/')
    }

    /// Whether credentials for this address may go to the other one: the same scheme, host and port.
    pub fn same_host(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.host == other.host && self.port() == other.port()
    }
}

impl fmt::Display for RepositoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme {
            UrlScheme::Https => f.write_str("https://")?,
            UrlScheme::Http => f.write_str("http://")?,
            UrlScheme::Ssh => f.write_str("ssh://")?,
            UrlScheme::Local => return f.write_str(&self.path),
        }
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        f.write_str(&self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        write!(f, "/{}", self.path)
    }
}

impl fmt::Debug for RepositoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn parse_local_path(path: &str, allowed: AllowedSchemes) -> Result<RepositoryUrl, UrlError> {
    if !allowed.local {
        return Err(UrlError::Local);
    }
    Ok(RepositoryUrl { scheme: UrlScheme::Local, user: None, host: String::new(), port: None, path: path.to_owned() })
}

/// `user@host:path`, as git and every host's web page write SSH addresses.
fn parse_scp_syntax(text: &str) -> Result<RepositoryUrl, UrlError> {
    let nothing_known = || UrlError::Scheme { scheme: text.split("::").next().unwrap_or(text).to_owned() };
    let (authority, path) = text.split_once(':').ok_or_else(nothing_known)?;
    // `ext::`, `fd::` and the like name a program for git to run.
    if path.starts_with(':') || authority.contains('/') || ["https", "http", "ssh", "git", "file"].contains(&authority)
    {
        return Err(nothing_known());
    }
    let (user, host, port) = parse_authority(UrlScheme::Ssh, authority)?;
    Ok(RepositoryUrl {
        scheme: UrlScheme::Ssh,
        user,
        host,
        port,
        path: parse_repository_path(path.trim_start_matches('/'))?,
    })
}

fn parse_authority(scheme: UrlScheme, authority: &str) -> Result<(Option<String>, String, Option<u16>), UrlError> {
    let (user, address) = match authority.rsplit_once('@') {
        Some((user, address)) => (Some(user), address),
        None => (None, authority),
    };
    if let Some(user) = user {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if scheme != UrlScheme::Ssh || user.is_empty() || user.starts_with('-') || !user.chars().all(plain) {
            return Err(UrlError::Credentials);
        }
    }
    let (host, port) = match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, after)) => {
            let address: std::net::Ipv6Addr = inside.parse().map_err(|_| UrlError::Host)?;
            let port = match after.strip_prefix(':') {
                Some(port) => Some(port),
                None if after.is_empty() => None,
                None => return Err(UrlError::Host),
            };
            (format!("[{address}]"), port)
        }
        None => match address.split_once(':') {
            Some((host, port)) => (parse_host_name(host)?, Some(port)),
            None => (parse_host_name(address)?, None),
        },
    };
    let port = match port {
        Some(text) => {
            let port = text.parse().ok().filter(|port: &u16| *port > 0 && text.chars().all(|c| c.is_ascii_digit()));
            Some(port.ok_or_else(|| UrlError::Port { port: text.to_owned() })?)
        }
        None => None,
    };
    // What every host's SSH server calls its one user.
    let user = user.or((scheme == UrlScheme::Ssh).then_some("git"));
    Ok((user.map(str::to_owned), host, port))
}

/// A host's name: letters, digits, dots and hyphens (RFC 1123), so that nothing in it is an option or a second address.
fn parse_host_name(host: &str) -> Result<String, UrlError> {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    let fits = host.len() <= 253 && host.strip_suffix('.').unwrap_or(host).split('.').all(label);
    if fits { Ok(host.to_ascii_lowercase()) } else { Err(UrlError::Host) }
}

fn parse_repository_path(path: &str) -> Result<String, UrlError> {
    let parts = path.trim_end_matches('/').split('/');
    let sound = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.starts_with('-');
    let odd = |c: char| matches!(c, '?' | '#' | '\\' | '%') || !c.is_ascii_graphic();
    if parts.clone().all(sound) && !path.contains(odd) { Ok(path.to_owned()) } else { Err(UrlError::Path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<RepositoryUrl, UrlError> {
        RepositoryUrl::parse(text, AllowedSchemes::default())
    }

    #[test]
    fn addresses_as_hosts_show_them_are_understood() {
        let shown = |text: &str| {
            let url = parse(text).unwrap();
            let (owner, name) = url.repository().unwrap();
            format!("{url} · {owner} · {name} · {}", url.port())
        };
        let all = [
            "https://github.com/team/models.git",
            "https://git.example.com:8443/group/sub/models/",
            "ssh://git@gitlab.example.com:2222/group/sub/models.git",
            "git@GitHub.com:team/models.git",
            "git@ssh.dev.azure.com:v3/org/project/models",
            "ssh://[2001:db8::1]:7999/team/models.git",
        ]
        .map(shown);
        insta::assert_snapshot!(all.join("\n"), @r"
        https://github.com/team/models.git · team · models · 443
        https://git.example.com:8443/group/sub/models/ · group/sub · models · 8443
        ssh://git@gitlab.example.com:2222/group/sub/models.git · group/sub · models · 2222
        ssh://git@github.com/team/models.git · team · models · 22
        ssh://git@ssh.dev.azure.com/v3/org/project/models · v3/org/project · models · 22
        ssh://git@[2001:db8::1]:7999/team/models.git · team · models · 7999
        ");
    }

    #[test]
    fn what_would_run_a_program_or_show_a_secret_is_refused() {
        let all = [
            "ext::sh -c touch% /tmp/x",
            "ext::sh",
            "fd::17",
            "git://example.com/models.git",
            "http://example.com/models.git",
            "file:///etc",
            "/srv/models.git",
            "../models",
            "https://user:token@example.com/models.git",
            "https://token@example.com/models.git",
            "ssh://git:secret@example.com/models.git",
            "ssh://-oProxyCommand=x@example.com/models.git",
            "ssh://-oProxyCommand=touch/models.git",
            "git@-oProxyCommand=x:team/models.git",
            "https:///models.git",
            "https://example.com",
            "https://example.com/../models.git",
            "https://example.com/a//b.git",
            "https://example.com/a.git?x=1",
            "https://example.com/%2e%2e/b.git",
            "https://example.com:99999/a.git",
            "https://example.com:+1/a.git",
            "https://exa mple.com/a.git",
            "https://[::1/a.git",
            "https://[1.2.3.4]/a.git",
            "ssh://git@example.com/--upload-pack=x",
            "models",
            "",
        ];
        let described: Vec<String> = all.iter().map(|text| format!("{text}: {}", parse(text).unwrap_err())).collect();
        insta::assert_snapshot!(described.join("\n"), @r"
        ext::sh -c touch% /tmp/x: there is a space or a control character in the address, at byte 7
        ext::sh: `ext` is not supported; write `https://HOST/PATH` or `ssh://USER@HOST/PATH`
        fd::17: `fd` is not supported; write `https://HOST/PATH` or `ssh://USER@HOST/PATH`
        git://example.com/models.git: `git` is not supported; write `https://HOST/PATH` or `ssh://USER@HOST/PATH`
        http://example.com/models.git: `http://` is not encrypted; write `https://`, or set `allowInsecure: true`
        file:///etc: a local path needs `allowLocal: true`
        /srv/models.git: a local path needs `allowLocal: true`
        ../models: a local path needs `allowLocal: true`
        https://user:token@example.com/models.git: credentials do not belong in the address; put them into the secret that `secretRef` names
        https://token@example.com/models.git: credentials do not belong in the address; put them into the secret that `secretRef` names
        ssh://git:secret@example.com/models.git: credentials do not belong in the address; put them into the secret that `secretRef` names
        ssh://-oProxyCommand=x@example.com/models.git: credentials do not belong in the address; put them into the secret that `secretRef` names
        ssh://-oProxyCommand=touch/models.git: the address has no valid host; write it as in `https://git.example.com/team/models.git`
        git@-oProxyCommand=x:team/models.git: the address has no valid host; write it as in `https://git.example.com/team/models.git`
        https:///models.git: the address has no valid host; write it as in `https://git.example.com/team/models.git`
        https://example.com: the address has no path to a repository, or one with `..`, `?`, `#` or an empty part in it
        https://example.com/../models.git: the address has no path to a repository, or one with `..`, `?`, `#` or an empty part in it
        https://example.com/a//b.git: the address has no path to a repository, or one with `..`, `?`, `#` or an empty part in it
        https://example.com/a.git?x=1: the address has no path to a repository, or one with `..`, `?`, `#` or an empty part in it
        https://example.com/%2e%2e/b.git: the address has no path to a repository, or one with `..`, `?`, `#` or an empty part in it
        https://example.com:99999/a.git: `99999` is not a valid port; write a number from 1 to 65535
        https://example.com:+1/a.git: `+1` is not a valid port; write a number from 1 to 65535
        https://exa mple.com/a.git: there is a space or a control character in the address, at byte 11
        https://[::1/a.git: the address has no valid host; write it as in `https://git.example.com/team/models.git`
        https://[1.2.3.4]/a.git: the address has no valid host; write it as in `https://git.example.com/team/models.git`
        ssh://git@example.com/--upload-pack=x: the address has no path to a repository, or one with `..`, `?`, `#` or an empty part in it
        models: `models` is not supported; write `https://HOST/PATH` or `ssh://USER@HOST/PATH`
        : `` is not supported; write `https://HOST/PATH` or `ssh://USER@HOST/PATH`
        ");
    }

    #[test]
    fn plain_http_and_paths_are_for_who_asks() {
        let allowed = AllowedSchemes { insecure: true, local: true };
        assert_eq!(RepositoryUrl::parse("http://127.0.0.1:3000/a/b", allowed).unwrap().port(), 3000);
        assert_eq!(RepositoryUrl::parse("file:///srv/a.git", allowed).unwrap().path(), "/srv/a.git");
        assert_eq!(RepositoryUrl::parse("./a", allowed).unwrap().scheme(), UrlScheme::Local);
    }

    #[test]
    fn credentials_stay_with_their_host() {
        let home = parse("https://git.example.com/a/b").unwrap();
        for (other, same) in [
            ("https://GIT.example.com:443/c/d", true),
            ("https://git.example.com:8443/a/b", false),
            ("https://git.example.com.evil.org/a/b", false),
            ("ssh://git.example.com/a/b", false),
        ] {
            assert_eq!(home.same_host(&parse(other).unwrap()), same, "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_is_let_in_reads_back_the_same(text in "(https|ssh|http|ext|file)?(://|::|:)?[-a-z@:/.\\[\\]0-9]{0,30}|.{0,40}") {
            let allowed = AllowedSchemes { insecure: true, local: true };
            if let Ok(url) = RepositoryUrl::parse(&text, allowed) {
                prop_assert_eq!(RepositoryUrl::parse(&url.to_string(), allowed), Ok(url));
            }
        }
    }
}

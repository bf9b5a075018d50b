//! Where a repository is fetched from, in one form for all the ways to write it.

use std::fmt;

/// The address of a repository without scheme, user, default port and `.git`: `git.example.com/team/models`. The same
/// repository has one, whether it is reached over HTTPS or SSH. It never has credentials in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepositoryAddress(String);

/// The schemes by which git reaches a host.
const NETWORK_SCHEMES: [&str; 6] = ["https", "http", "ssh", "git+ssh", "ssh+git", "git"];
/// The default ports of these. What listens on one of them is the host's own, whatever the scheme says: some hosts take
/// SSH on 443.
const DEFAULT_PORTS: [u16; 4] = [22, 80, 443, 9418];
/// Hosts of many names, as they document them.
const HOST_ALIASES: [(&str, &str); 4] = [
    ("ssh.github.com", "github.com"),
    ("altssh.gitlab.com", "gitlab.com"),
    ("altssh.bitbucket.org", "bitbucket.org"),
    ("ssh.dev.azure.com", AZURE_HOST),
];
/// Hosts that take a repository's path in any case.
const CASELESS_HOSTS: [&str; 4] = ["github.com", "gitlab.com", "bitbucket.org", AZURE_HOST];
const AZURE_HOST: &str = "dev.azure.com";

impl RepositoryAddress {
    /// Reads an address as git takes it: `https://host/path`, `ssh://user@host:port/path`, `user@host:path`. `None` for a
    /// path on this machine, and for what leads to no host.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return None;
        }
        let (authority, path) = match text.split_once("://") {
            Some((scheme, rest)) => {
                let scheme = scheme.to_ascii_lowercase();
                if !NETWORK_SCHEMES.contains(&scheme.as_str()) {
                    return None;
                }
                rest.split_once('/')?
            }
            None => split_scp_form(text)?,
        };
        let (host, port) = split_authority(authority)?;
        let host =
            HOST_ALIASES.iter().find(|(alias, _)| *alias == host).map_or(host.clone(), |(_, name)| (*name).into());
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.contains(&"..") {
            return None;
        }
        if let ([first, organization, project, repository], AZURE_HOST) = (parts.as_slice(), host.as_str())
            && *first == "v3"
        {
            parts = vec![*organization, *project, "_git", *repository];
        }
        while let Some(shorter) = parts.last().and_then(|last| last.strip_suffix(".git")) {
            parts.pop();
            match shorter {
                "" | "." => {}
                ".." => return None,
                name => parts.push(name),
            }
        }
        let mut path = parts.join("/");
        if path.is_empty() {
            return None;
        }
        if CASELESS_HOSTS.contains(&host.as_str()) {
            path.make_ascii_lowercase();
        }
        Some(Self(match port.filter(|port| !DEFAULT_PORTS.contains(port)) {
            Some(port) => format!("{host}:{port}/{path}"),
            None => format!("{host}/{path}"),
        }))
    }

    /// Reads what an address of this type is written as; `None` for any other form of it.
    pub fn from_normalized(text: &str) -> Option<Self> {
        Self::parse(&format!("https://{text}")).filter(|address| address.0 == text)
    }
}

impl fmt::Display for RepositoryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `user@host:path`, which git takes for SSH when the colon comes before any slash.
fn split_scp_form(text: &str) -> Option<(&str, &str)> {
    let after_brackets = match (text.find('['), text.find("]:")) {
        (Some(open), Some(close)) if open < close && !text.get(..open)?.contains('/') => close + 1,
        _ => text.find(':')?,
    };
    let (authority, path) = (text.get(..after_brackets)?, text.get(after_brackets + 1..)?);
    // `ext::` names a program, `C:` a drive.
    let is_host = !authority.contains('/') && !path.starts_with(':') && authority.len() > 1;
    is_host.then_some((authority, path))
}

/// The host in lower case, and the port where one is given. The user, and a password with it, is left behind here.
fn split_authority(authority: &str) -> Option<(String, Option<u16>)> {
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (address, None),
    };
    let port = match port {
        None | Some("") => None,
        Some(port) => Some(port.parse().ok()?),
    };
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    (!host.is_empty() && (is_bracketed || !host.contains(':'))).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normalized(text: &str) -> Option<String> {
        RepositoryAddress::parse(text).map(|address| address.to_string())
    }

    #[test]
    fn all_ways_to_write_a_repository_are_one() {
        for text in [
            "https://git.example.com/team/fleet",
            "https://git.example.com/team/fleet.git",
            "https://git.example.com/team/fleet/",
            "https://Git.Example.COM:443//team/fleet.git/",
            "https://token:secret@git.example.com/team/fleet.git",
            "http://git.example.com/team/fleet.git",
            "ssh://git@git.example.com/team/fleet.git",
            "ssh://git@git.example.com:22/team/fleet",
            "git+ssh://git.example.com/team/fleet",
            "git@git.example.com:team/fleet.git",
            "git@git.example.com:/team/fleet",
            "git.example.com:team/fleet",
            "git://git.example.com/team/fleet.git",
        ] {
            assert_eq!(normalized(text).as_deref(), Some("git.example.com/team/fleet"), "{text}");
        }
        for text in [
            "git@github.com:Acme/Fleet.git",
            "ssh://git@ssh.github.com:443/acme/fleet",
            "https://github.com/acme/fleet",
        ] {
            assert_eq!(normalized(text).as_deref(), Some("github.com/acme/fleet"), "{text}");
        }
        for text in ["git@ssh.dev.azure.com:v3/acme/ml/fleet", "https://acme@dev.azure.com/acme/ml/_git/fleet"] {
            assert_eq!(normalized(text).as_deref(), Some("dev.azure.com/acme/ml/_git/fleet"), "{text}");
        }
        assert_eq!(normalized("ssh://git@[FE80::1]:2222/a/b").as_deref(), Some("[fe80::1]:2222/a/b"));
        assert_eq!(normalized("git@[fe80::1]:a/b").as_deref(), Some("[fe80::1]/a/b"));
    }

    #[test]
    fn what_differs_stays_apart() {
        let all = [
            "https://git.example.com/team/fleet",
            "https://git.example.com/team/fleets",
            "https://git.example.com/other/fleet",
            "https://git.example.com/team/sub/fleet",
            "https://git.example.com/Team/fleet",
            "https://git.example.org/team/fleet",
            "https://git.example.com:8443/team/fleet",
            "ssh://git@git.example.com:2222/team/fleet",
        ];
        let found: std::collections::BTreeSet<_> = all.iter().map(|text| normalized(text).unwrap()).collect();
        assert_eq!(found.len(), all.len(), "{found:?}");
    }

    #[test]
    fn what_leads_to_no_host_has_no_address() {
        for text in [
            "",
            "/srv/fleet.git",
            "./fleet",
            "../fleet",
            "fleet",
            "file:///srv/fleet.git",
            "C:\\fleet",
            "c:/fleet",
            "ext::sh -c x",
            "ext::x",
            "https://",
            "https://host",
            "https://host/",
            "https://host/.git",
            "https:///a",
            "https://host/../a",
            "s3://bucket/x",
            "https://host:port/a",
            "a b:c",
        ] {
            assert_eq!(normalized(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn normalizing_is_idempotent(text in "(https|ssh|http)://([a-z]{1,3}@)?[A-Za-z]{1,6}(\\.[A-Z]{2})?(:[0-9]{1,4})?(/[a-zA-Z.]{0,4}){1,4}(\\.git)?/?") {
            if let Some(address) = RepositoryAddress::parse(&text) {
                prop_assert_eq!(RepositoryAddress::from_normalized(&address.to_string()), Some(address));
            }
        }

        #[test]
        fn https_and_both_forms_of_ssh_agree(
            host in "[a-z]{1,8}\\.[a-z]{2,3}", path in "[a-zA-Z0-9_-]{1,6}(/[a-zA-Z0-9_-]{1,6}){0,3}", user in "[a-z]{1,5}",
        ) {
            let https = normalized(&format!("https://{host}/{path}.git"));
            prop_assert!(https.is_some());
            prop_assert_eq!(&normalized(&format!("ssh://{user}@{host}/{path}")), &https);
            prop_assert_eq!(&normalized(&format!("{user}@{host}:{path}.git")), &https);
        }

        #[test]
        fn different_repositories_differ(one in "[a-z]{1,4}/[a-z]{1,4}", two in "[a-z]{1,4}/[a-z]{1,4}") {
            let same = normalized(&format!("https://host.example/{one}")) == normalized(&format!("git@host.example:{two}"));
            prop_assert_eq!(same, one == two);
        }

        #[test]
        fn no_text_is_too_odd_and_no_secret_is_kept(text in ".{0,40}", secret in "[0-9]{12}") {
            let _ = normalized(&text);
            let with = normalized(&format!("https://user:{secret}@host.example/a")).unwrap();
            prop_assert!(!with.contains(&secret));
        }
    }
}

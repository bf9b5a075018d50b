//! Where a repository's API is, and what the repository is called there.

use super::ForgeError;
use crate::source::model_source::{self, ForgeKind};
use crate::source::url::{RepositoryUrl, UrlScheme};
use url::{Host, Url};

/// A repository at its host's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ForgeEndpoint {
    /// Which client it takes.
    pub backend: ForgeBackend,
    /// The API, without a `/` at the end of its path.
    pub api: Url,
    /// The owner, with all groups: `team/sub`; a Bitbucket project; Azure's project.
    pub owner: String,
    /// The repository.
    pub name: String,
}

/// A client: Bitbucket has two products of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForgeBackend {
    Github,
    Gitlab,
    Gitea,
    BitbucketCloud,
    BitbucketDataCenter,
    Azure,
}

/// Finds the API of a repository, from the URL that `spec.forge` gives or else from the repository's own.
///
/// # Errors
/// [`ForgeError::Misconfigured`] with the field at fault.
pub(super) fn resolve_endpoint(
    kind: ForgeKind,
    forge: Option<&str>,
    repository: &RepositoryUrl,
) -> Result<ForgeEndpoint, ForgeError> {
    if repository.scheme() == UrlScheme::Local {
        return Err(repository_url_error("is a local path, which has no git host"));
    }
    let (owner, name) =
        repository.repository().ok_or_else(|| repository_url_error("names no owner and repository of a git host"))?;
    let make = match kind {
        ForgeKind::Github => ForgeBackend::Github,
        ForgeKind::Gitlab => ForgeBackend::Gitlab,
        ForgeKind::Gitea => ForgeBackend::Gitea,
        ForgeKind::Azure => ForgeBackend::Azure,
        ForgeKind::Bitbucket if is_bitbucket_cloud(repository.host()) => ForgeBackend::BitbucketCloud,
        ForgeKind::Bitbucket => ForgeBackend::BitbucketDataCenter,
    };
    let named = ForgeRepositoryUrl::new(make, repository, owner, name)?;
    let root = match forge {
        Some(text) => parse_forge_url(text, repository)?,
        None => named.root.clone(),
    };
    let api = match forge {
        // What the address of a repository says of the way to it, a URL that was given says better.
        Some(_) => api_url(make, &root, "")?,
        None => api_url(make, &root, &named.below)?,
    };
    Ok(ForgeEndpoint { backend: make, api, owner: named.owner, name: named.name })
}

/// What the repository's own URL says.
struct ForgeRepositoryUrl {
    /// Scheme, host and port of the web page.
    root: Url,
    /// Where the host's application is below it: empty, or `gitea`, or Azure's organization.
    below: String,
    owner: String,
    name: String,
}

impl ForgeRepositoryUrl {
    fn new(make: ForgeBackend, repository: &RepositoryUrl, owner: &str, name: &str) -> Result<Self, ForgeError> {
        let host = repository.host();
        let (host, below, owner) = match make {
            ForgeBackend::Github => {
                let without_prefix = host.strip_prefix("ssh.").or(host.strip_prefix("www."));
                let (below, owner) = split_last_segment(owner);
                (without_prefix.filter(|rest| *rest == "github.com").unwrap_or(host), below, owner)
            }
            ForgeBackend::Gitea => {
                let (below, owner) = split_last_segment(owner);
                (host, below, owner)
            }
            ForgeBackend::Gitlab => (if host == "altssh.gitlab.com" { "gitlab.com" } else { host }, "", owner),
            ForgeBackend::BitbucketCloud => ("bitbucket.org", "", split_last_segment(owner).1),
            ForgeBackend::BitbucketDataCenter => {
                let (below, owner) = split_last_segment(owner);
                // Over HTTPS repositories are below `scm/`, and the application itself is not.
                (host, below.strip_suffix("scm").unwrap_or(below).trim_end_matches('/'), owner)
            }
            ForgeBackend::Azure => azure_repository_url(host, owner, name).ok_or_else(|| {
                repository_url_error(
                    "is not an address of Azure DevOps, such as \
                     https://dev.azure.com/ORGANIZATION/PROJECT/_git/REPOSITORY or \
                     git@ssh.dev.azure.com:v3/ORGANIZATION/PROJECT/REPOSITORY",
                )
            })?,
        };
        let root = root_url(repository, host)?;
        Ok(Self { root, below: below.to_owned(), owner: owner.to_owned(), name: name.to_owned() })
    }
}

/// Scheme, host and port of the web page of a repository's host.
fn root_url(repository: &RepositoryUrl, host: &str) -> Result<Url, ForgeError> {
    // The port of an SSH server says nothing of the web server's.
    let (scheme, port) = match repository.scheme() {
        UrlScheme::Http => ("http", Some(repository.port())),
        UrlScheme::Https => ("https", Some(repository.port())),
        UrlScheme::Ssh | UrlScheme::Local => ("https", None),
    };
    let url = Url::parse(&format!("{scheme}://{host}"));
    let mut url = url.map_err(|_| repository_url_error("has no usable host"))?;
    url.set_port(port).map_err(|()| repository_url_error("has no usable port"))?;
    Ok(url)
}

/// Host, organization or collection, and project in Azure's addresses: `dev.azure.com/ORG/PROJECT/_git/REPO`,
/// `ORG.visualstudio.com/PROJECT/_git/REPO`, `ssh.dev.azure.com:v3/ORG/PROJECT/REPO` and, on premises,
/// `HOST/COLLECTION/PROJECT/_git/REPO`. The project may be left out where it is called as its repository. `None` for any
/// other address.
fn azure_repository_url<'a>(host: &'a str, owner: &'a str, name: &'a str) -> Option<(&'a str, &'a str, &'a str)> {
    if host == "ssh.dev.azure.com" || host == "vs-ssh.visualstudio.com" {
        let (organization, project) = owner.strip_prefix("v3/")?.split_once('/')?;
        return (!project.contains('/')).then_some(("dev.azure.com", organization, project));
    }
    let before = owner.strip_suffix("_git")?.trim_end_matches('/');
    if let Some(organization) = host.strip_suffix(".visualstudio.com") {
        let project = before.strip_prefix("DefaultCollection").unwrap_or(before).trim_matches('/');
        let project = if project.is_empty() { name } else { project };
        return (!project.contains('/')).then_some(("dev.azure.com", organization, project));
    }
    match before.rsplit_once('/') {
        Some((collection, project)) => Some((host, collection, project)),
        None => (host == "dev.azure.com" && !before.is_empty()).then_some((host, before, name)),
    }
}

/// `a/b/c` as `a/b` and `c`.
fn split_last_segment(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn is_bitbucket_cloud(host: &str) -> bool {
    ["bitbucket.org", "altssh.bitbucket.org", "api.bitbucket.org"].contains(&host)
}

/// Reads the URL that `spec.forge.url` gives.
fn parse_forge_url(text: &str, repository: &RepositoryUrl) -> Result<Url, ForgeError> {
    let url = Url::parse(text).map_err(|error| forge_url_error(format!("is not a valid URL: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(forge_url_error("contains credentials, which belong in the secret".to_owned()));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(forge_url_error("contains a `?` or `#`".to_owned()));
    }
    let loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return Err(forge_url_error("has no host".to_owned())),
    };
    match url.scheme() {
        "https" => Ok(url),
        "http" if loopback || repository.scheme() == UrlScheme::Http => Ok(url),
        "http" => Err(forge_url_error("is `http://`, which sends the token unencrypted".to_owned())),
        other => Err(forge_url_error(format!("is `{other}://`, but an API needs `https://`"))),
    }
}

/// The API below a host's page. A URL that leads to the API already stays as it is.
fn api_url(make: ForgeBackend, root: &Url, below: &str) -> Result<Url, ForgeError> {
    let mut url = root.clone();
    let host = url.host_str().unwrap_or_default().to_owned();
    let mut path = url.path().trim_end_matches('/').to_owned();
    if !below.is_empty() {
        path = format!("{path}/{below}");
    }
    let mut rename =
        |host: &str| url.set_host(Some(host)).map_err(|_| forge_url_error("has no usable host".to_owned()));
    let suffix = match make {
        ForgeBackend::Github if host == "api.github.com" || host.starts_with("api.") && host.ends_with(".ghe.com") => {
            ""
        }
        ForgeBackend::Github if host == "github.com" || host == "www.github.com" => {
            rename("api.github.com")?;
            ""
        }
        // Enterprise Cloud with data residency.
        ForgeBackend::Github if host.ends_with(".ghe.com") => {
            rename(&format!("api.{host}"))?;
            ""
        }
        ForgeBackend::Github => "/api/v3",
        ForgeBackend::Gitlab => "/api/v4",
        ForgeBackend::Gitea => "/api/v1",
        ForgeBackend::BitbucketCloud => {
            if host == "bitbucket.org" {
                rename("api.bitbucket.org")?;
            }
            "/2.0"
        }
        ForgeBackend::BitbucketDataCenter => "/rest/api/latest",
        ForgeBackend::Azure => "",
    };
    if make == ForgeBackend::BitbucketDataCenter && (path.ends_with("/rest/api/1.0") || path.ends_with("/rest/api")) {
        path.truncate(path.rfind("/rest/api").unwrap_or(path.len()));
    }
    if !path.ends_with(suffix) {
        path.push_str(suffix);
    }
    url.set_path(&path);
    Ok(url)
}

fn repository_url_error(message: &str) -> ForgeError {
    ForgeError::Misconfigured {
        field: "spec.url",
        message: message.to_owned(),
        fix: "write the address as the repository's page shows it for cloning, or omit `spec.forge`",
    }
}

fn forge_url_error(message: String) -> ForgeError {
    ForgeError::Misconfigured {
        field: "spec.forge.url",
        message,
        fix: "write it as in `https://git.example.com`, or omit it if the API is at the repository's host",
    }
}

/// The page of a commit at its git host; `None` where the repository's address tells of none. `forge` is `spec.forge` of
/// its source, without which only hosts that everybody knows are known.
pub fn commit_page(forge: Option<&model_source::Forge>, repository: &RepositoryUrl, commit: &str) -> Option<String> {
    let kind = forge.map(|forge| forge.kind).or_else(|| ForgeKind::of_host(repository.host()))?;
    let place = resolve_endpoint(kind, None, repository).ok()?;
    let (owner, name) = repository.repository()?;
    let ForgeRepositoryUrl { mut root, below, owner, name } =
        ForgeRepositoryUrl::new(place.backend, repository, owner, name).ok()?;
    let user = owner.strip_prefix('~').map(str::to_owned);
    let mut path: Vec<&str> = below.split('/').collect();
    match place.backend {
        ForgeBackend::Github | ForgeBackend::Gitea => path.extend([&*owner, &*name, "commit"]),
        ForgeBackend::Gitlab => {
            path.extend(owner.split('/'));
            path.extend([&*name, "-", "commit"]);
        }
        ForgeBackend::BitbucketCloud => path.extend([&*owner, &*name, "commits"]),
        ForgeBackend::BitbucketDataCenter => {
            path.extend(user.as_ref().map_or(["projects", &*owner], |user| ["users", user]));
            path.extend(["repos", &*name, "commits"]);
        }
        ForgeBackend::Azure => path.extend([&*owner, "_git", &*name, "commit"]),
    }
    path.push(commit);
    root.path_segments_mut().ok()?.extend(path.into_iter().filter(|part| !part.is_empty()));
    Some(root.to_string())
}

impl ForgeKind {
    /// The type of a host that everybody knows.
    pub fn of_host(host: &str) -> Option<Self> {
        match host {
            "github.com" | "ssh.github.com" => Some(Self::Github),
            "gitlab.com" | "altssh.gitlab.com" => Some(Self::Gitlab),
            "codeberg.org" | "gitea.com" => Some(Self::Gitea),
            "bitbucket.org" | "altssh.bitbucket.org" => Some(Self::Bitbucket),
            "dev.azure.com" | "ssh.dev.azure.com" | "vs-ssh.visualstudio.com" => Some(Self::Azure),
            host if host.ends_with(".ghe.com") => Some(Self::Github),
            host if host.ends_with(".visualstudio.com") => Some(Self::Azure),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::url::AllowedSchemes;
    use proptest::prelude::*;

    fn shown(kind: ForgeKind, repository: &str, forge: Option<&str>) -> String {
        let repository = RepositoryUrl::parse(repository, AllowedSchemes { insecure: true, local: true })
            .expect("the test's address");
        match resolve_endpoint(kind, forge, &repository) {
            Ok(place) => format!("{} · {} · {}", place.api.as_str().trim_end_matches('/'), place.owner, place.name),
            Err(error) => format!("{error}; {}", error.help()),
        }
    }

    #[test]
    fn the_api_is_found_from_the_repositorys_address() {
        use ForgeKind::{Azure, Bitbucket, Gitea, Github, Gitlab};
        let all = [
            (Github, "https://github.com/team/models.git"),
            (Github, "git@github.com:team/models.git"),
            (Github, "ssh://git@ssh.github.com:443/team/models.git"),
            (Github, "https://team.ghe.com/team/models"),
            (Github, "https://git.example.com:8443/team/models"),
            (Gitlab, "https://gitlab.com/group/sub/sub/models.git"),
            (Gitlab, "ssh://git@gitlab.example.com:2222/group/models.git"),
            (Gitea, "http://127.0.0.1:3000/team/models.git"),
            (Gitea, "https://example.com/git/team/models.git"),
            (Gitea, "ssh://git@codeberg.org/team/models"),
            (Bitbucket, "https://bitbucket.org/space/models.git"),
            (Bitbucket, "git@bitbucket.org:space/models.git"),
            (Bitbucket, "https://bitbucket.example.com/scm/PROJ/models.git"),
            (Bitbucket, "https://example.com/bitbucket/scm/~ada/models.git"),
            (Bitbucket, "ssh://git@bitbucket.example.com:7999/proj/models.git"),
            (Azure, "https://dev.azure.com/org/project/_git/models"),
            (Azure, "https://dev.azure.com/org/_git/models"),
            (Azure, "https://org.visualstudio.com/project/_git/models"),
            (Azure, "https://org.visualstudio.com/DefaultCollection/project/_git/models"),
            (Azure, "git@ssh.dev.azure.com:v3/org/project/models"),
            (Azure, "https://tfs.example.com/tfs/Main/project/_git/models"),
        ]
        .map(|(kind, repository)| shown(kind, repository, None));
        insta::assert_snapshot!(all.join("\n"), @"
        https://api.github.com · team · models
        https://api.github.com · team · models
        https://api.github.com · team · models
        https://api.team.ghe.com · team · models
        https://git.example.com:8443/api/v3 · team · models
        https://gitlab.com/api/v4 · group/sub/sub · models
        https://gitlab.example.com/api/v4 · group · models
        http://127.0.0.1:3000/api/v1 · team · models
        https://example.com/git/api/v1 · team · models
        https://codeberg.org/api/v1 · team · models
        https://api.bitbucket.org/2.0 · space · models
        https://api.bitbucket.org/2.0 · space · models
        https://bitbucket.example.com/rest/api/latest · PROJ · models
        https://example.com/bitbucket/rest/api/latest · ~ada · models
        https://bitbucket.example.com/rest/api/latest · proj · models
        https://dev.azure.com/org · project · models
        https://dev.azure.com/org · models · models
        https://dev.azure.com/org · project · models
        https://dev.azure.com/org · project · models
        https://dev.azure.com/org · project · models
        https://tfs.example.com/tfs/Main · project · models
        ");
    }

    #[test]
    fn a_url_that_is_given_goes_before() {
        use ForgeKind::{Azure, Bitbucket, Gitea, Github, Gitlab};
        let all = [
            (Github, "https://git.example.com"),
            (Github, "https://git.example.com/api/v3/"),
            (Github, "https://github.com"),
            (Gitlab, "https://example.com/gitlab"),
            (Gitea, "http://127.0.0.1:3000"),
            (Gitea, "https://example.com/git/api/v1"),
            (Bitbucket, "https://bitbucket.example.com/rest/api/1.0"),
            (Azure, "https://tfs.example.com/tfs/Main"),
        ]
        .map(|(kind, forge)| {
            let repository =
                if kind == Azure { "https://x.com/a/b/_git/models" } else { "ssh://git@x.com/team/models" };
            shown(kind, repository, Some(forge))
        });
        insta::assert_snapshot!(all.join("\n"), @"
        https://git.example.com/api/v3 · team · models
        https://git.example.com/api/v3 · team · models
        https://api.github.com · team · models
        https://example.com/gitlab/api/v4 · team · models
        http://127.0.0.1:3000/api/v1 · team · models
        https://example.com/git/api/v1 · team · models
        https://bitbucket.example.com/rest/api/latest · team · models
        https://tfs.example.com/tfs/Main · b · models
        ");
    }

    #[test]
    fn a_commit_has_a_page_at_its_host() {
        let page = |kind: Option<ForgeKind>, url: &str| {
            let url =
                RepositoryUrl::parse(url, AllowedSchemes { insecure: true, local: true }).expect("the test's address");
            let spec = kind.map(|kind| model_source::Forge {
                kind,
                url: None,
                secret_ref: None,
                context: None,
                target_url: None,
            });
            commit_page(spec.as_ref(), &url, "3f2a91c").unwrap_or_else(|| "none".to_owned())
        };
        use ForgeKind::{Bitbucket, Gitea, Gitlab};
        let all = [
            page(None, "git@github.com:team/models.git"),
            page(None, "https://gitlab.com/group/sub/models.git"),
            page(Some(Gitlab), "ssh://git@gitlab.example.com:2222/group/models.git"),
            page(Some(Gitea), "http://127.0.0.1:3000/git/team/models.git"),
            page(None, "git@bitbucket.org:space/models.git"),
            page(Some(Bitbucket), "https://bitbucket.example.com/scm/PROJ/models.git"),
            page(Some(Bitbucket), "https://example.com/bitbucket/scm/~ada/models.git"),
            page(None, "git@ssh.dev.azure.com:v3/org/project/models"),
            page(None, "https://git.example.com/team/models.git"),
            page(Some(Gitea), "/srv/models.git"),
        ];
        insta::assert_snapshot!(all.join("\n"), @"
        https://github.com/team/models/commit/3f2a91c
        https://gitlab.com/group/sub/models/-/commit/3f2a91c
        https://gitlab.example.com/group/models/-/commit/3f2a91c
        http://127.0.0.1:3000/git/team/models/commit/3f2a91c
        https://bitbucket.org/space/models/commits/3f2a91c
        https://bitbucket.example.com/projects/PROJ/repos/models/commits/3f2a91c
        https://example.com/bitbucket/users/ada/repos/models/commits/3f2a91c
        https://dev.azure.com/org/project/_git/models/commit/3f2a91c
        none
        none
        ");
    }

    #[test]
    fn a_wrong_address_names_its_field_and_what_to_write() {
        use ForgeKind::{Azure, Gitea, Github};
        let all = [
            shown(Github, "/srv/models.git", None),
            shown(Github, "https://github.com/models", None),
            shown(Azure, "https://dev.azure.com/org/project/models", None),
            shown(Azure, "git@ssh.dev.azure.com:org/project/models", None),
            shown(Gitea, "https://x.com/team/models", Some("x.com")),
            shown(Gitea, "https://x.com/team/models", Some("http://x.com")),
            shown(Gitea, "https://x.com/team/models", Some("https://me:hunter2@x.com")),
            shown(Gitea, "https://x.com/team/models", Some("ftp://x.com")),
            shown(Gitea, "https://x.com/team/models", Some("https://x.com/?a=b")),
        ];
        insta::assert_snapshot!(all.join("\n"), @"
        `spec.url` is a local path, which has no git host; write the address as the repository's page shows it for cloning, or omit `spec.forge`
        `spec.url` names no owner and repository of a git host; write the address as the repository's page shows it for cloning, or omit `spec.forge`
        `spec.url` is not an address of Azure DevOps, such as https://dev.azure.com/ORGANIZATION/PROJECT/_git/REPOSITORY or git@ssh.dev.azure.com:v3/ORGANIZATION/PROJECT/REPOSITORY; write the address as the repository's page shows it for cloning, or omit `spec.forge`
        `spec.url` is not an address of Azure DevOps, such as https://dev.azure.com/ORGANIZATION/PROJECT/_git/REPOSITORY or git@ssh.dev.azure.com:v3/ORGANIZATION/PROJECT/REPOSITORY; write the address as the repository's page shows it for cloning, or omit `spec.forge`
        `spec.forge.url` is not a valid URL: relative URL without a base; write it as in `https://git.example.com`, or omit it if the API is at the repository's host
        `spec.forge.url` is `http://`, which sends the token unencrypted; write it as in `https://git.example.com`, or omit it if the API is at the repository's host
        `spec.forge.url` contains credentials, which belong in the secret; write it as in `https://git.example.com`, or omit it if the API is at the repository's host
        `spec.forge.url` is `ftp://`, but an API needs `https://`; write it as in `https://git.example.com`, or omit it if the API is at the repository's host
        `spec.forge.url` contains a `?` or `#`; write it as in `https://git.example.com`, or omit it if the API is at the repository's host
        ");
    }

    proptest! {
        #[test]
        fn no_address_is_too_odd(repository in "(https|ssh)://[a-z.]{1,12}/[-a-z_/~.]{1,30}", forge in ".{0,30}|https?://.{0,20}") {
            let allowed = AllowedSchemes { insecure: true, local: true };
            if let Ok(repository) = RepositoryUrl::parse(&repository, allowed) {
                for kind in [ForgeKind::Github, ForgeKind::Gitlab, ForgeKind::Gitea, ForgeKind::Bitbucket, ForgeKind::Azure] {
                    let _ = resolve_endpoint(kind, None, &repository);
                    let _ = resolve_endpoint(kind, Some(&forge), &repository);
                }
            }
        }
    }
}

//! What a host may answer instead of refs and objects, and who gets to see credentials.

use super::*;
use crate::git_server::{TlsProxy, pack, packet, pem, refs, says};
use secrecy::SecretSlice;
use stator_git::source::addresses::AddressPolicy;
use stator_git::source::credentials::{AppInstallation, ClientCertificate, GithubApp, ProxySettings, TokenProvider};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Answering = Box<dyn Fn() -> GitReply + Send + Sync>;

/// What a place says when it is looked at with a password.
fn look(place: &Place, login: GitLogin) -> Result<ResolvedRef, MirrorError> {
    let mut remote = place.remote();
    remote.credentials.login = login;
    place.mirror_of(remote).poll(&main())
}

#[test]
fn refusals_are_told_apart_and_show_no_credential() {
    let echo = format!("your token {CANARY} is wrong,\r\n\u{1b}[31m sorry");
    let encoded = base64(&format!("git:{CANARY}"));
    let replies: Vec<(&str, Answering)> = vec![
        ("401", Box::new(move || says(401, &[("content-type", "text/plain")], echo.clone()))),
        ("401 with the header", Box::new(move || says(401, &[("content-type", "text/plain")], encoded.clone()))),
        ("403", Box::new(|| says(403, &[("content-type", "text/plain; charset=utf-8")], "no"))),
        ("403, later", Box::new(|| says(403, &[("retry-after", "30")], "no"))),
        ("404", Box::new(|| says(404, &[("content-type", "text/html")], "<html>no</html>"))),
        ("429", Box::new(|| says(429, &[("retry-after", "17")], ""))),
        ("429 without a time", Box::new(|| says(429, &[], ""))),
        ("500", Box::new(|| says(500, &[("content-type", "text/html")], "<html>oops</html>"))),
        ("503", Box::new(|| says(503, &[("retry-after", "5")], ""))),
        ("418", Box::new(|| says(418, &[], ""))),
        (
            "a login page",
            Box::new(|| says(200, &[("content-type", "text/html; charset=utf-8")], "<html>log in</html>")),
        ),
        ("dumb git", Box::new(|| says(200, &[("content-type", "text/plain")], "abc\trefs/heads/main\n"))),
        ("no type", Box::new(|| says(200, &[], "x"))),
        ("not git's protocol", Box::new(|| refs("hello there"))),
        ("cut short", Box::new(|| refs("003f"))),
        ("git's own error", Box::new(|| refs(packet(format!("ERR access denied for {CANARY}\n"))))),
        ("304", Box::new(|| says(304, &[], ""))),
    ];
    let mut all = Vec::new();
    for (what, reply) in replies {
        let place = Place::answering(move |_| reply());
        let error = look(&place, basic()).unwrap_err();
        let wait = error.retry_delay().map_or("no".to_owned(), |after| format!("{after:?}"));
        all.push(format!("{what} (again: {wait}): {}", told(&place, &error)));
    }
    insta::assert_snapshot!(all.join("\n"), @"
    401 (again: no): HOST does not accept the login; put a valid login into the secret that `spec.secretRef` names: `username` and `password`, `bearerToken`, the keys of a GitHub App, or `tls.crt` and `tls.key`
    401 with the header (again: no): HOST does not accept the login; put a valid login into the secret that `spec.secretRef` names: `username` and `password`, `bearerToken`, the keys of a GitHub App, or `tls.crt` and `tls.key`
    403 (again: no): HOST forbids reading the repository; let the login read the repository
    403, later (again: 30s): HOST limits the rate of requests; no action needed: stator waits; a longer `spec.interval` or a webhook reduces the requests
    404 (again: 0ns): HOST has no repository `models.git`, or the login may not see it; compare `spec.url` with the repository's address, and let the login in `spec.secretRef` read it
    429 (again: 17s): HOST limits the rate of requests; no action needed: stator waits; a longer `spec.interval` or a webhook reduces the requests
    429 without a time (again: 60s): HOST limits the rate of requests; no action needed: stator waits; a longer `spec.interval` or a webhook reduces the requests
    500 (again: 0ns): HOST reports a server error: 500; no action needed: stator retries
    503 (again: 5s): HOST reports a server error: 503; no action needed: stator retries
    418 (again: 0ns): HOST does not answer as a git server: status 418; compare `spec.url` with the address that `git clone` takes; a login page instead of git means that the host wants a login in `spec.secretRef`
    a login page (again: 0ns): HOST does not answer as a git server: a web page, perhaps one to log in; compare `spec.url` with the address that `git clone` takes; a login page instead of git means that the host wants a login in `spec.secretRef`
    dumb git (again: 0ns): HOST does not answer as a git server: an answer of type text/plain; compare `spec.url` with the address that `git clone` takes; a login page instead of git means that the host wants a login in `spec.secretRef`
    no type (again: 0ns): HOST does not answer as a git server: an answer without a type; compare `spec.url` with the address that `git clone` takes; a login page instead of git means that the host wants a login in `spec.secretRef`
    not git's protocol (again: 0ns): HOST breaks git's protocol: a line has no length; check the proxies between stator and the host: they may change responses
    cut short (again: 0ns): HOST closed the connection in the middle of a response; no action needed: stator retries; if it persists, check the network and the host's load
    git's own error (again: 0ns): git on HOST says: access denied for [hidden]; check the repository on its host; `git fsck` there shows what is damaged
    304 (again: 0ns): HOST does not answer as a git server: 304 Not Modified without an address; compare `spec.url` with the address that `git clone` takes; a login page instead of git means that the host wants a login in `spec.secretRef`
    ");
}

/// Row S12 of the review: a tenant had the controller ask its own machine, by an address or by a name, over HTTP or SSH, and
/// read the answer in the status.
#[test]
fn addresses_of_this_machine_are_not_asked_where_they_may_not_be() {
    let place = Place::new();
    place.origin.commit("main", &[("model.yaml", "a: 1")]);
    let port = place.server.address().port();
    let asked = |url: &str, proxy: Option<String>| {
        let mut remote = remote(url);
        remote.credentials.addresses = AddressPolicy::NoLocal;
        remote.credentials.proxy = proxy.map(|url| ProxySettings { url, login: None, bypass: None });
        let error = place.mirror_of(remote).poll(&main()).unwrap_err();
        told(&place, &error).replace(&port.to_string(), "PORT")
    };
    let all = [
        asked(&format!("http://127.0.0.1:{port}/models.git"), None),
        asked(&format!("http://localhost:{port}/models.git"), None),
        asked(&format!("http://[::ffff:127.0.0.1]:{port}/models.git"), None),
        asked("http://169.254.169.254/latest", None),
        asked("http://git.example.com/models.git", Some(format!("http://127.0.0.1:{port}"))),
        asked("http://git.example.com/models.git", Some(format!("http://localhost:{port}"))),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    HOST cannot be reached: it is a loopback, link-local, multicast or metadata address, which sources may not use; compare `spec.url` with the host's address, and check DNS, firewall and proxy
    localhost:PORT cannot be reached: it is a loopback, link-local, multicast or metadata address, which sources may not use; compare `spec.url` with the host's address, and check DNS, firewall and proxy
    [::ffff:7f00:1]:PORT cannot be reached: it is a loopback, link-local, multicast or metadata address, which sources may not use; compare `spec.url` with the host's address, and check DNS, firewall and proxy
    169.254.169.254 cannot be reached: it is a loopback, link-local, multicast or metadata address, which sources may not use; compare `spec.url` with the host's address, and check DNS, firewall and proxy
    the credentials for git.example.com cannot be used: the proxy cannot be used: it is a loopback, link-local, multicast or metadata address, which sources may not use; correct the secret that `spec.secretRef` names
    git.example.com cannot be reached: it is a loopback, link-local, multicast or metadata address, which sources may not use; compare `spec.url` with the host's address, and check DNS, firewall and proxy
    ");
    assert!(place.server.asked().is_empty());
    assert!(place.poll().is_ok(), "an administrator may allow it");
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[test]
fn each_login_goes_out_as_its_host_wants_it() {
    struct Minted;
    impl TokenProvider for Minted {
        fn token(&self) -> Result<SecretString, String> {
            Ok(SecretString::from(format!("ghs_{CANARY}")))
        }
    }
    let place = Place::new();
    place.origin.commit("main", &[("model.yaml", "a: 1")]);
    let app = GitLogin::App(GithubApp {
        id: "1".to_owned(),
        installation: AppInstallation::Id(2),
        key: SecretString::from(CANARY),
        api: None,
    });
    let sent = |login: GitLogin, tokens: Option<Arc<dyn TokenProvider>>| {
        let mut remote = place.remote();
        remote.credentials.login = login;
        remote.tokens = tokens;
        assert!(!format!("{remote:?}").contains(CANARY));
        let looked = place.mirror_of(remote).poll(&main());
        let asked = place.server.asked();
        match looked {
            Ok(_) => asked[0].headers.get("authorization").map(|value| value.to_str().unwrap().to_owned()),
            Err(error) => Some(told(&place, &error)),
        }
    };
    assert_eq!(sent(GitLogin::Anonymous, None), None);
    assert_eq!(sent(basic(), None), Some(format!("Basic {}", base64(&format!("git:{CANARY}")))));
    assert_eq!(sent(GitLogin::Bearer(SecretString::from(CANARY)), None), Some(format!("Bearer {CANARY}")));
    let token = base64(&format!("x-access-token:ghs_{CANARY}"));
    assert_eq!(sent(app.clone(), Some(Arc::new(Minted))), Some(format!("Basic {token}")));
    insta::assert_snapshot!(sent(app, None).unwrap(), @"no token for HOST: nothing mints tokens for the GitHub App; check the GitHub App's keys in the secret that `spec.secretRef` names");
    let broken = sent(GitLogin::Bearer(SecretString::from(format!("{CANARY}\nx"))), None).unwrap();
    insta::assert_snapshot!(broken, @"the credentials for HOST cannot be used: there is a line break or another control character in it; correct the secret that `spec.secretRef` names");
}

#[test]
fn no_log_shows_a_credential_at_any_level() {
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let log = Log::default();
    let writer = log.clone();
    // For the whole process: the threads that serve sockets log as well.
    tracing_subscriber::fmt()
        .with_env_filter("stator_git::source=trace,reqwest=trace,hyper_util=trace")
        .with_writer(move || writer.clone())
        .init();
    let place = Place::new();
    place.origin.commit("main", &[("model.yaml", "a: 1")]);
    let mut remote = place.remote();
    remote.credentials.login = basic();
    follow(&mut place.mirror_of(remote), &main()).unwrap();
    fs_err::remove_dir_all(place.folder.path().join("data/mirror.git/objects")).unwrap();
    look(&place, GitLogin::Bearer(SecretString::from(CANARY))).unwrap();
    let shown = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(shown.contains("the mirror is damaged: starting a new one"), "{shown}");
    for secret in [CANARY, &base64(&format!("git:{CANARY}"))] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn credentials_never_follow_a_redirect_to_another_host() {
    let other = Place::new();
    other.origin.commit("main", &[("model.yaml", "a: 1")]);
    let to = other.server.url("models.git");
    for status in [301, 302, 303, 307, 308] {
        let to = format!("{to}/info/refs?service=git-upload-pack");
        let place = Place::answering(move |_| says(status, &[("location", &to)], ""));
        let error = look(&place, basic()).unwrap_err();
        let shown = told(&place, &error).replace(&other.server.address().to_string(), "OTHER");
        assert_eq!(
            shown,
            "HOST redirects to http://OTHER, and redirects are followed only to the same host, at most three times; \
             write the new address into `spec.url`"
        );
        assert!(other.server.asked().is_empty(), "the other host is not even asked");
    }
}

#[test]
fn a_redirect_on_the_same_host_is_followed_at_the_start_and_nowhere_else() {
    // As GitLab does with an address without `.git`.
    let place = Place::answering(|asked| match asked.target.strip_prefix("/old/") {
        Some(rest) => says(301, &[("location", &format!("/{rest}"))], ""),
        None => GitReply::Git,
    });
    let commit = place.origin.commit("main", &[("model.yaml", "a: 1")]);
    let mut moved = remote(&place.server.url("old/models.git"));
    moved.credentials.login = basic();
    let mut mirror = place.mirror_of(moved);
    assert_eq!(follow(&mut mirror, &main()).unwrap().commit, commit);
    let asked = place.server.asked();
    assert!(asked.iter().all(|asked| asked.headers.contains_key("authorization")), "it is the same host");
    let targets: Vec<&str> = asked.iter().map(|asked| asked.target.as_str()).collect();
    assert_eq!(
        targets,
        [
            "/old/models.git/info/refs?service=git-upload-pack",
            "/models.git/info/refs?service=git-upload-pack",
            "/models.git/git-upload-pack",
            "/models.git/git-upload-pack"
        ]
    );
    drop(mirror);

    let late = Place::answering(|asked| match asked.method.as_str() {
        "POST" => says(307, &[("location", "/elsewhere/git-upload-pack")], ""),
        _ => GitReply::Git,
    });
    late.origin.commit("main", &[("model.yaml", "a: 1")]);
    let error = follow(&mut late.mirror(), &main()).unwrap_err();
    assert!(told(&late, &error).starts_with("HOST redirects to HOST"), "{error}");
    assert!(late.server.asked().iter().all(|asked| !asked.target.contains("elsewhere")));

    for location in
        ["/info/refs?service=git-upload-pack", "https://localhost/x", "http://user:pw@127.0.0.1/x", "::", ""]
    {
        let around = Place::answering(move |_| says(302, &[("location", location)], ""));
        let error = around.poll().unwrap_err();
        assert!(matches!(error, MirrorError::Transport(_)), "{error}");
        assert!(around.server.asked().len() <= 4, "three redirects at most");
    }
}

#[test]
fn a_certificate_of_ones_own_authority_is_trusted_when_the_secret_has_it() {
    let place = Place::new();
    let commit = place.origin.commit("main", &[("model.yaml", "a: 1")]);
    let open = TlsProxy::start(place.server.address(), false);
    let strict = TlsProxy::start(place.server.address(), true);
    let certificate = ClientCertificate { certificate: pem("client.pem"), key: SecretSlice::from(pem("client.key")) };
    let look = |tls: &TlsProxy, roots: Vec<u8>, client: Option<ClientCertificate>| {
        let mut remote = remote(&tls.url("models.git"));
        (remote.credentials.roots, remote.credentials.client) = (roots, client);
        follow(&mut place.mirror_of(remote), &main())
    };
    assert_eq!(look(&open, pem("ca.pem"), None).unwrap().commit, commit);
    assert_eq!(look(&strict, pem("ca.pem"), Some(certificate)).unwrap().commit, commit);
    let error = look(&open, Vec::new(), None).unwrap_err();
    let shown = told(&place, &error);
    assert!(shown.starts_with("the certificate of localhost:") && shown.contains("is not trusted"), "{shown}");
    // A server may close before its reason was read; the next look is told it.
    crate::testbed::until("the reason is told", || {
        let shown = told(&place, &look(&strict, pem("ca.pem"), None).unwrap_err());
        if shown.contains("it requires a client certificate") { Ok(()) } else { Err(|| shown) }
    });
}

#[test]
fn a_proxy_of_the_secret_is_gone_through_unless_it_is_told_not_to() {
    let place = Place::new();
    let commit = place.origin.commit("main", &[("model.yaml", "a: 1")]);
    let proxy = |bypass: Option<&str>| ProxySettings {
        url: format!("http://{}", place.server.address()),
        login: Some((SecretString::from("me"), SecretString::from(CANARY))),
        bypass: bypass.map(str::to_owned),
    };
    let mut through = remote("http://git.invalid/models.git");
    through.credentials.proxy = Some(proxy(None));
    assert_eq!(follow(&mut place.mirror_of(through.clone()), &main()).unwrap().commit, commit);
    let asked = place.server.asked();
    assert_eq!(asked[0].target, "http://git.invalid/models.git/info/refs?service=git-upload-pack");
    let login = asked[0].headers.get("proxy-authorization").unwrap().to_str().unwrap().to_owned();
    assert_eq!(login, format!("Basic {}", base64(&format!("me:{CANARY}"))));

    through.credentials.proxy = Some(proxy(Some("git.invalid")));
    let error = place.mirror_of(through).poll(&main()).unwrap_err();
    assert!(told(&place, &error).starts_with("git.invalid cannot be reached"), "{error}");
    assert!(place.server.asked().is_empty());
}

/// The environment belongs to the whole process, so this test starts itself again with another.
#[test]
fn a_proxy_of_the_environment_is_gone_through_unless_it_is_told_not_to() {
    const CHILD: &str = "STATOR_TEST_BEHIND_A_PROXY";
    if std::env::var_os(CHILD).is_some() {
        let folder = tempfile::tempdir().unwrap();
        let mut mirror = Mirror::open(folder.path(), remote("http://git.invalid/models.git")).unwrap();
        follow(&mut mirror, &main()).unwrap();
        return;
    }
    let place = Place::new();
    place.origin.commit("main", &[("model.yaml", "a: 1")]);
    let passes = |bypass: &str| {
        let this = "mirror::answers::a_proxy_of_the_environment_is_gone_through_unless_it_is_told_not_to";
        let ended = std::process::Command::new(std::env::current_exe().unwrap())
            .args([this, "--exact"])
            .env(CHILD, "1")
            .env("HTTP_PROXY", format!("http://{}", place.server.address()))
            .env("NO_PROXY", bypass)
            .output()
            .unwrap();
        ended.status.success()
    };
    assert!(passes("example.com"));
    assert_eq!(place.server.asked()[0].target, "http://git.invalid/models.git/info/refs?service=git-upload-pack");
    assert!(!passes("git.invalid"));
    assert!(place.server.asked().is_empty());
}

#[test]
fn a_host_that_is_not_there_is_told() {
    let place = Place::new();
    let port = crate::testbed::ReservedPort::reserve().unwrap();
    let address = port.address();
    let error = place.mirror_of(remote(&format!("http://{address}/models.git"))).poll(&main()).unwrap_err();
    let shown = told(&place, &error).replace(&address.to_string(), "GONE");
    assert!(shown.starts_with("GONE cannot be reached: "), "{shown}");
    assert!(error.retry_delay().is_some());
}

#[test]
fn a_host_that_answers_late_or_in_drops_is_left() {
    use futures_util::stream;
    let short = FetchLimits { total_timeout: Duration::from_millis(400), ..limits() };
    let drops = FetchLimits { rate_window: Duration::from_millis(300), min_bytes_per_second: 1 << 20, ..limits() };
    let place = Place::answering(|_| GitReply::Never);
    let error = place.mirror_of(RemoteRepository { limits: short, ..place.remote() }).poll(&main()).unwrap_err();
    insta::assert_snapshot!(told(&place, &error), @"HOST took longer than 400 ms; no action needed: stator retries; if it persists, check the network and the host's load");

    // A line of the list of refs that never ends, one byte at a time.
    let dribble = Place::answering(|_| {
        let bytes = stream::unfold(0_u32, |at| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, std::io::Error>(if at < 4 { "f" } else { "a" }), at + 1))
        });
        refs(axum::body::Body::from_stream(bytes))
    });
    let error = dribble.mirror_of(RemoteRepository { limits: drops, ..dribble.remote() }).poll(&main()).unwrap_err();
    insta::assert_snapshot!(told(&dribble, &error), @"HOST sends less than 1048576 bytes a second; no action needed: stator retries; if it persists, check the network and the host's load");

    let remote = place.remote();
    let cancel = remote.cancel.clone();
    let mut mirror = place.mirror_of(remote);
    let waiting = std::thread::spawn(move || mirror.poll(&main()));
    while place.server.asked().is_empty() {
        std::thread::yield_now();
    }
    cancel.cancel();
    let error = waiting.join().unwrap().unwrap_err();
    insta::assert_snapshot!(told(&place, &error), @"stopped; run it again");
}

#[test]
fn a_host_that_does_not_stop_is_left() {
    use futures_util::stream;
    // More refs than a repository may have.
    let many = Place::answering(|_| {
        let lines = stream::iter((0..1_000).map(|chunk| {
            let line = |n: u32| packet(format!("{} refs/heads/b{}\n", "1".repeat(40), chunk * 1_000 + n));
            Ok::<_, std::io::Error>((0..1_000).flat_map(line).collect::<Vec<u8>>())
        }));
        refs(axum::body::Body::from_stream(lines))
    });
    let mut all = vec![told(&many, &many.poll().unwrap_err())];

    // Words that never end in place of objects.
    let endless = Place::answering(|asked| match asked.method.as_str() {
        "POST" => {
            let words = stream::iter(
                std::iter::once(packet("NAK\n"))
                    .chain(std::iter::repeat_with(|| packet(format!("\u{2}{}", "working ".repeat(1_000))))),
            );
            pack(axum::body::Body::from_stream(futures_util::StreamExt::map(words, Ok::<_, std::io::Error>)))
        }
        _ => {
            let tip = format!("{} refs/heads/main\0side-band-64k ofs-delta\n", "1".repeat(40));
            refs([packet("# service=git-upload-pack\n"), b"0000".to_vec(), packet(tip), b"0000".to_vec()].concat())
        }
    });
    let little = RemoteRepository { limits: FetchLimits { max_pack_bytes: 1 << 20, ..limits() }, ..endless.remote() };
    all.push(told(&endless, &follow(&mut endless.mirror_of(little), &main()).unwrap_err()));
    insta::assert_snapshot!(all.join("\n"), @"
        HOST sends more than 50000 refs; move the intents into a repository of their own, or delete unused refs
        HOST sends more than 1048576 bytes; move the intents into a repository of their own, or delete unused refs
        ");
}

#[test]
fn a_pack_with_a_wrong_checksum_is_not_kept() {
    let times = Arc::new(AtomicUsize::new(0));
    let sound = tempfile::tempdir().unwrap();
    let origin = OriginRepository::new(&sound.path().join("models.git"));
    let commit = origin.commit("main", &[("model.yaml", "a: 1")]);
    let id = git2::Oid::from_str(&commit).unwrap();
    let mut builder = origin.0.packbuilder().unwrap();
    builder.insert_commit(id).unwrap();
    let mut bytes = git2::Buf::new();
    builder.write_buf(&mut bytes).unwrap();
    let bytes = bytes.to_vec();
    let counted = Arc::clone(&times);
    let place = Place::answering(move |asked| match asked.method.as_str() {
        "POST" => {
            let mut bytes = bytes.clone();
            if counted.fetch_add(1, Ordering::Relaxed) == 0 {
                *bytes.last_mut().unwrap() ^= 1;
            }
            pack([packet("NAK\n"), bytes].concat())
        }
        _ => {
            let tip = format!("{id} refs/heads/main\0ofs-delta\n");
            refs([packet("# service=git-upload-pack\n"), b"0000".to_vec(), packet(tip), b"0000".to_vec()].concat())
        }
    });
    let mut mirror = place.mirror();
    let error = follow(&mut mirror, &main()).unwrap_err();
    insta::assert_snapshot!(told(&place, &error), @"HOST breaks git's protocol: packfile trailer mismatch; check the proxies between stator and the host: they may change responses");
    assert!(error.retry_delay().is_some());
    follow(&mut mirror, &main()).unwrap();
    assert_eq!(files(&mut mirror, &commit), "model.yaml: 4 bytes");
}

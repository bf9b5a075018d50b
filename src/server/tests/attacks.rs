//! What somebody may try who reaches the listener and knows no secret.

use super::*;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shorter than every deadline of a slow connection.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Only a test that hangs ever waits so long.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// How a probe is answered.
const WELL: &str = "HTTP/1.1 200 OK";

/// How often something is tried whose slow connections may be over before it is through: a machine that stands still for so
/// long shows nothing.
const TRIES: usize = 10;

/// A signature as each host writes one, of nobody's secret.
fn with_made_up_signature(host: &str, path: &str) -> http::request::Builder {
    let post = Request::post(path).header("content-type", "application/json");
    let digest = "0".repeat(64);
    match host {
        "github" => post.header("x-github-event", "push").header("x-hub-signature-256", format!("sha256={digest}")),
        "gitea" => post.header("x-gitea-event", "push").header("x-gitea-signature", digest),
        "bitbucket" => post.header("x-event-key", "repo:push").header("x-hub-signature", format!("sha256={digest}")),
        "gitlab" => post.header("x-gitlab-token", "made-up"),
        _ => post.header("authorization", "Basic bWU6bWFkZS11cA=="),
    }
}

/// A body of `size` bytes that counts how often it is asked for more.
fn counted_body(size: usize) -> (Body, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let mut left = size;
    let chunks = std::iter::from_fn(move || {
        counter.fetch_add(1, Ordering::SeqCst);
        let next = left.min(64 << 10);
        left -= next;
        (next > 0).then(|| Ok::<_, std::io::Error>(bytes::Bytes::from(vec![b' '; next])))
    });
    (Body::from_stream(futures_util::stream::iter(chunks)), asked)
}

/// A body that begins with so many bytes and never goes on.
fn stalled_body(size: usize) -> Body {
    let begin: Result<_, std::io::Error> = Ok(bytes::Bytes::from(vec![b' '; size]));
    let chunks = futures_util::stream::once(std::future::ready(begin));
    Body::from_stream(futures_util::StreamExt::chain(chunks, futures_util::stream::pending()))
}

const HOSTS: [(&str, ForgeKind); 5] = [
    ("github", ForgeKind::Github),
    ("gitlab", ForgeKind::Gitlab),
    ("gitea", ForgeKind::Gitea),
    ("bitbucket", ForgeKind::Bitbucket),
    ("azure", ForgeKind::Azure),
];

/// S3: who shows no signature, or none of the host's form, costs no memory: nothing of the body is asked for.
#[tokio::test]
async fn an_unsigned_delivery_is_refused_before_its_body_is_read() {
    let sources: Vec<(&str, ForgeKind, &str)> = HOSTS.iter().map(|(name, kind)| (*name, *kind, "hook")).collect();
    let scene = WebhookTestServer::new(&sources);
    let malformed = [
        ("x-hub-signature-256", "sha256=nothex"),
        ("x-hub-signature-256", "sha1=00"),
        ("x-gitea-signature", "00"),
        ("x-hub-signature", "sha256=0"),
        ("webhook-signature", "v1,short"),
        ("authorization", "Bearer token"),
        ("authorization", "Basic !"),
    ];
    for (host, _) in HOSTS {
        for bad in std::iter::once(None).chain(malformed.iter().map(Some)) {
            let mut post = Request::post(format!("/webhooks/{host}")).header("content-type", "application/json");
            if let Some((name, value)) = bad {
                post = post.header(*name, *value);
            }
            let (body, asked) = counted_body(1 << 20);
            let answer = scene.answer_text(post.body(body).unwrap()).await;
            assert_eq!(answer, r#"401 {"error":"not authorized"}"#, "{host} {bad:?}");
            assert_eq!(asked.load(Ordering::SeqCst), 0, "{host} {bad:?}");
        }
    }
}

/// S3: a secret that is sent along is looked at before the body is.
#[tokio::test]
async fn a_wrong_token_is_refused_before_its_body_is_read() {
    let scene = WebhookTestServer::new(&[("lab", ForgeKind::Gitlab, "hook"), ("azure", ForgeKind::Azure, "hook")]);
    for host in ["gitlab", "azure"] {
        let (body, asked) = counted_body(1 << 20);
        let post = with_made_up_signature(host, &format!("/webhooks/{host}")).body(body).unwrap();
        assert_eq!(scene.answer_text(post).await, r#"401 {"error":"not authorized"}"#);
        assert_eq!(asked.load(Ordering::SeqCst), 0, "{host}");
    }
}

/// S3: three mebibytes, whoever signs.
#[tokio::test]
async fn no_more_than_three_mebibytes_are_read() {
    let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook")]);
    let padded = |size: usize| format!("{PUSH}{}", " ".repeat(size - PUSH.len()));
    assert_eq!(scene.answer(signed("/webhooks/gitea", "hook", "1", padded(3 << 20))).await.0, 202);
    assert_eq!(scene.answer(signed("/webhooks/gitea", "hook", "2", padded((3 << 20) + 1))).await.0, 413);
    let (body, asked) = counted_body(64 << 20);
    let endless = with_made_up_signature("gitea", "/webhooks/gitea").body(body).unwrap();
    assert_eq!(scene.answer(endless).await.0, 413);
    // What is read on is thrown away, so that whoever writes hears the answer.
    assert!(asked.load(Ordering::SeqCst) < 600, "{asked:?} pieces of 64 KiB were read");
}

/// S3: bodies that do not come take neither the places of genuine deliveries nor more memory than all may have.
#[tokio::test(start_paused = true)]
async fn bodies_that_stall_keep_no_delivery_out() {
    let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook")]);
    let mut stalled = tokio::task::JoinSet::new();
    for number in 0..64 {
        let size = if number % 2 == 0 { 1 } else { 100 << 10 };
        let mut post = with_made_up_signature("gitea", "/webhooks/gitea").body(stalled_body(size)).unwrap();
        if number % 4 < 2 {
            post.headers_mut().insert("content-length", HeaderValue::from_static("3000000"));
        }
        let routes = scene.routes.clone();
        stalled.spawn(async move { routes.oneshot(post).await.unwrap().status().as_u16() });
    }
    tokio::task::yield_now().await;
    let delivered = scene.answer(signed("/webhooks/gitea", "hook", "1", PUSH));
    let (status, said) = tokio::time::timeout(AT_ONCE, delivered).await.unwrap();
    assert_eq!((status, said.as_str()), (202, r#"{"status":"accepted"}"#));
    assert!(scene.hinted(0).await.is_some());
    // What would be more than all large bodies may take together is not begun.
    let large = scene.answer(with_made_up_signature("gitea", "/webhooks/gitea").body(stalled_body(1 << 20)).unwrap());
    assert_eq!(tokio::time::timeout(AT_ONCE, large).await.unwrap().0, 503);
}

/// S16: who guesses names learns nothing: neither from the answer, nor from whether the body is read.
#[tokio::test]
async fn a_source_that_is_not_there_answers_as_one_that_is() {
    let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook"), ("mute", ForgeKind::Gitea, "")]);
    let mut described = Vec::new();
    for path in [
        "/webhooks/gitea",
        "/webhooks/gitea/models",
        "/webhooks/gitea/default/models",
        "/webhooks/gitea/mute",
        "/webhooks/gitea/nobody",
        "/webhooks/gitea/nowhere/nobody",
        "/webhooks/github",
        "/webhooks/github/models",
        "/webhooks/source/0000000000000000000000000000000000000000000000000000000000000000",
        "/webhooks/source/models",
    ] {
        for host in ["gitea", "github"] {
            let (body, asked) = counted_body(200 << 10);
            let post = with_made_up_signature(host, path).body(body).unwrap();
            let (status, said) = scene.answer(post).await;
            let form_fits = path.contains(host) || path.contains("/source/");
            let read = asked.load(Ordering::SeqCst) > 0;
            described.push((status, said, form_fits == read));
        }
    }
    described.sort();
    described.dedup();
    assert_eq!(described, [(401, r#"{"error":"not authorized"}"#.to_owned(), true)]);
}

/// A listener on any port of this machine.
async fn serve(scene: &WebhookTestServer) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = HttpListener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.address();
    (address, tokio::spawn(listener.serve(scene.routes.clone(), scene.ending.clone())))
}

/// A connection from one of this machine's many addresses.
async fn connect_from(from: IpAddr, to: SocketAddr) -> tokio::net::TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from, 0)).unwrap();
    socket.connect(to).await.unwrap()
}

/// What `/livez` is answered on a connection; nothing where it ends without an answer.
async fn probe(mut client: tokio::net::TcpStream) -> Option<String> {
    client.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.ok()?;
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, client.read_to_string(&mut answer)).await.unwrap().ok()?;
    answer.lines().next().map(str::to_owned)
}

/// One of the files in `tests/data/tls`.
fn pem(name: &str) -> Vec<u8> {
    fs_err::read(format!("{}/tests/data/tls/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// TLS is answered with the newest certificate that can be used, without a new start and without a moment without one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_read_again_and_a_broken_one_is_not_used() {
    let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook")]);
    let folder = tempfile::tempdir().unwrap();
    let files =
        tls::CertificateFiles { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
    let unusable = tls::ReloadedCertificate::read(files.clone()).unwrap_err().to_string();
    assert!(unusable.contains("tls.crt cannot be used"), "{unusable}");
    // First that of somebody else, whom no client knows by this name.
    let put = |certificate: &str, key: &str| {
        fs_err::write(&files.certificate, pem(certificate)).unwrap();
        fs_err::write(&files.key, pem(key)).unwrap();
    };
    put("client.pem", "server.key");
    let unusable = tls::ReloadedCertificate::read(files.clone()).unwrap_err().to_string();
    assert!(unusable.contains("the key does not match the certificate"), "{unusable}");
    put("client.pem", "client.key");
    let certificate = tls::ReloadedCertificate::read(files.clone()).unwrap();
    let listener = HttpListener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let url = format!("https://localhost:{}/livez", listener.address().port());
    let listener = listener.with_tls(Some(certificate.server_config().unwrap()));
    tokio::spawn(certificate.follow(scene.ending.clone()));
    let serving = tokio::spawn(listener.serve(scene.routes.clone(), scene.ending.clone()));
    let authority = reqwest::Certificate::from_pem(&pem("ca.pem")).unwrap();
    let get = async || {
        let client = reqwest::Client::builder().tls_certs_only([authority.clone()]).no_proxy().build().unwrap();
        client.get(&url).send().await.map(|answer| answer.status().as_u16())
    };
    assert!(get().await.is_err(), "the certificate is another's");
    put("server.pem", "server.key");
    let renewed = async {
        while get().await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, renewed).await.unwrap();
    fs_err::write(&files.key, "-----BEGIN NOTHING-----").unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(get().await.unwrap(), 200);
    scene.ending.cancel();
    serving.await.unwrap();
}

/// S3: however many connections dawdle, and from however many addresses: a probe is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_connections_never_keep_a_probe_out() {
    for _ in 0..TRIES {
        let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook")]);
        let (address, serving) = serve(&scene).await;
        let mut slow = Vec::new();
        for number in 0..600_u32 {
            let from = IpAddr::V4(Ipv4Addr::from(0x7f01_0000 + number / 30 + 1));
            let mut client = connect_from(from, address).await;
            let head = b"POST /webhooks/gitea HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
            // One that had to free space is closed by now.
            let _ = client.write_all(head).await;
            slow.push(client);
        }
        let answer = probe(connect_from(IpAddr::V4(Ipv4Addr::LOCALHOST), address).await).await;
        let is_open = |client: &tokio::net::TcpStream| {
            client.try_read(&mut [0; 512]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        };
        let was_answered_beside_them = slow.iter().any(is_open);
        drop(slow);
        scene.ending.cancel();
        serving.await.unwrap();
        if answer.as_deref() == Some(WELL) && was_answered_beside_them {
            return;
        }
    }
    panic!("a probe is answered only when slow connections are over");
}

/// S3: one address has its share of the places, and pushes out its own connections alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_takes_no_place_of_another() {
    for _ in 0..TRIES {
        let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook")]);
        let (address, serving) = serve(&scene).await;
        let quiet = connect_from(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), address).await;
        let mut greedy = Vec::new();
        for _ in 0..600 {
            greedy.push(connect_from(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3)), address).await);
        }
        // A later connection is answered, so that all before were taken in.
        let later = connect_from(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 4)), address).await;
        let answers = [probe(later).await, probe(quiet).await];
        drop(greedy);
        scene.ending.cancel();
        serving.await.unwrap();
        if answers.iter().all(|answer| answer.as_deref() == Some(WELL)) {
            return;
        }
    }
    panic!("the connection that was there before, or a later one, is not answered");
}

/// A connection ends when it is old, and a client that kept it may write its next delivery at that very moment.
#[tokio::test]
async fn a_client_that_keeps_its_connections_loses_no_delivery() {
    // Only a connection that is kept gets so old: the test waits for it where it fails.
    const AGE: Duration = Duration::from_secs(5);
    let scene = WebhookTestServer::new(&[("models", ForgeKind::Gitea, "hook")]);
    let listener = HttpListener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let listener = listener.with_limits(ConnectionLimits::default(), AGE);
    let address = listener.address();
    let serving = tokio::spawn(listener.serve(scene.routes.clone(), scene.ending.clone()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"hook");
    let signature = hex::encode(hmac::sign(&key, PUSH.as_bytes()));
    let mut kept: Option<tokio::net::TcpStream> = None;
    for delivery in ["1", "2", "3"] {
        let mut client = match kept.take() {
            Some(client) => client,
            None => tokio::net::TcpStream::connect(address).await.unwrap(),
        };
        let length = PUSH.len();
        let request = format!(
            "POST /webhooks/gitea HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Gitea-Event: push\r\n\
             X-Gitea-Delivery: {delivery}\r\nX-Gitea-Signature: {signature}\r\nContent-Length: {length}\r\n\r\n{PUSH}"
        );
        // The system takes what is written to a connection whose other end is closed.
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let read = client.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..read]).to_lowercase();
        assert!(answer.starts_with("http/1.1 202"), "delivery {delivery}: {answer:?}");
        assert!(scene.hinted(0).await.is_some(), "delivery {delivery}");
        if !answer.contains("connection: close") {
            // It looks at the connection no more until it writes again.
            client.readable().await.unwrap();
            kept = Some(client);
        }
    }
    scene.ending.cancel();
    serving.await.unwrap();
}

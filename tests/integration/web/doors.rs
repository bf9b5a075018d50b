//! Every route of every listener is sent too much, too slowly and without rights; and the table of the routes is what holds.

use super::scene::Pages;
use super::{bench, settled, sync};
use crate::controller::{HOOK, SECRET, scene::Scene};
use crate::testbed::PATIENCE;
use stator::server::{Caller, RouteRule, ServerRoute};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use strum::VariantArray as _;

/// The status of the answer to what is written, after which nothing more comes; nothing where the connection ends without one.
pub fn knock(address: &str, written: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Whoever is refused before all is written need not be heard to the end.
    let _ = stream.write_all(written);
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).ok()?;
    std::str::from_utf8(&answer).unwrap().strip_prefix("HTTP/1.1 ")?.parse().ok()
}

/// A request that says how long its body is, and sends so much of it.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], length: usize, sent: usize) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut bytes = format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n").into_bytes();
    bytes.resize(bytes.len() + sent, b'#');
    bytes
}

/// A path of a rule, with its parameters filled in.
fn filled(rule: &RouteRule) -> String {
    // The source of a folder has no namespace.
    let (namespace, name) = if rule.path.contains("/sources/") { ("-", "fleet") } else { ("models", "alpha") };
    let parameters = [
        ("/assets/{file}", stator_view::page::ASSETS[0].path.as_str()),
        ("{namespace}", namespace),
        ("{name}", name),
        ("{action}", "sync"),
        ("{kind}", "not-found"),
    ];
    parameters.iter().fold(rule.path.to_owned(), |path, (name, value)| path.replace(name, value))
}

fn media_type(path: &str) -> &'static str {
    if path.starts_with("/api") { "application/yaml" } else { "application/x-www-form-urlencoded" }
}

#[test]
fn every_route_of_the_pages_holds_its_rule() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let (address, cookie) = (pages.address.as_str(), pages.enter_cookie());
    let origin = format!("http://{address}");
    let base = [("Host", address), ("Origin", origin.as_str())];
    // Those of signing in are tried where tokens sign in.
    let rules = stator::web::route_rules();
    let rules: Vec<_> = rules.iter().filter(|rule| !rule.path.starts_with("/sign-")).collect();
    assert!(rules.len() > 15, "{rules:?}");
    std::thread::scope(|scope| {
        for rule in rules {
            let path = filled(rule);
            let typed = [&base[..], &[("Content-Type", media_type(&path))]].concat();
            let own = [&typed[..], &[("Cookie", cookie.as_str())]].concat();
            for method in rule.methods.split(", ").filter(|method| *method != "HEAD") {
                let what = format!("{method} {path}");
                // Without rights: nothing of the body is waited for.
                let refused = knock(address, &request(method, &path, &typed, 1000, 1));
                assert_eq!(refused, Some(if rule.caller == Caller::Anybody { 200 } else { 401 }), "{what}");
                let reads = method == "POST";
                assert!(!reads || rule.most_bytes > 0, "{what} would read without a bound");
                // Too much.
                let (length, sent) = if reads { (rule.most_bytes + 1, rule.most_bytes + 1) } else { (64 << 20, 1) };
                let status = knock(address, &request(method, &path, &own, length, sent));
                match reads {
                    true => assert_eq!(status, Some(413), "{what}"),
                    false => assert!(!matches!(status, None | Some(408 | 500..)), "{what}: {status:?}"),
                }
                // Too slowly.
                let (slow, head) = (request(method, &path, &own, 1000, 1), format!("{method} {path} HTTP/1.1\r\nHost"));
                scope.spawn(move || {
                    assert!(!reads || knock(address, &slow) == Some(408), "{what}: a body that never comes");
                });
                scope.spawn(move || assert_eq!(knock(address, head.as_bytes()), None, "a head that never comes"));
            }
        }
    });
    assert_eq!(pages.get("/").status, 200);
}

#[test]
fn every_route_of_the_listener_holds_its_rule() {
    let mut scene = Scene::of(crate::controller::fleet(1));
    scene.declare(&(scene.source("fleet", HOOK) + SECRET));
    scene.start();
    scene.hears("healthy");
    let address = scene.address();
    let address = address.as_str();
    let signature = "0".repeat(64);
    let json = [("Host", "x"), ("Content-Type", "application/json")];
    let signed = [&json[..], &[("X-Gitea-Event", "push"), ("X-Gitea-Signature", signature.as_str())]].concat();
    std::thread::scope(|scope| {
        for rule in ServerRoute::VARIANTS.iter().map(|route| route.rule()) {
            let parameters =
                [("{host}", "gitea"), ("{source}", "fleet"), ("{namespace}", "default"), ("{digest}", "0")];
            let path = parameters.iter().fold(rule.path.to_owned(), |path, (name, value)| path.replace(name, value));
            let head = format!("POST {path} HTTP/1.1\r\nHost");
            scope.spawn(move || assert_eq!(knock(address, head.as_bytes()), None, "{head}: a head that never comes"));
            match rule.caller {
                Caller::Signer => {
                    // Without rights: nothing of the body is waited for.
                    assert_eq!(knock(address, &request("POST", &path, &json, 1000, 1)), Some(401), "{path}");
                    let much = rule.most_bytes + 1;
                    assert_eq!(knock(address, &request("POST", &path, &signed, much, much)), Some(413), "{path}");
                    let slow = request("POST", &path, &signed, 1000, 1);
                    scope
                        .spawn(move || assert_eq!(knock(address, &slow), Some(408), "{path}: a body that never comes"));
                }
                // Who may read metrics is asked of an API server elsewhere.
                Caller::Anybody | Caller::MetricsReader => {
                    let status = knock(address, &request("GET", &path, &json, 64 << 20, 1));
                    assert_eq!(status, Some(200), "{path}");
                }
                Caller::LinkHolder | Caller::Reader | Caller::Proposer | Caller::Actor => {
                    panic!("{path} is of the pages")
                }
            }
        }
    });
}

/// N1: 200 forms, each one byte short of what a form may have, took more than a gigabyte.
#[test]
fn unfinished_forms_take_little_memory() {
    let bench = bench();
    let pages = Pages::open(&mut sync(&bench));
    settled(&pages);
    let (address, cookie, origin) = (pages.address.clone(), pages.enter_cookie(), format!("http://{}", pages.address));
    let before = pages.resident_bytes();
    let headers = [
        ("Host", address.as_str()),
        ("Origin", origin.as_str()),
        ("Cookie", cookie.as_str()),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    let bytes = request("POST", "/new", &headers, 1 << 20, (1 << 20) - 1);
    let most = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..200).map(|_| scope.spawn(|| knock(&address, &bytes))).collect();
        let mut most = before;
        while senders.iter().any(|sender| !sender.is_finished()) {
            most = most.max(pages.resident_bytes());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let answers: Vec<Option<u16>> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        // Late, out of turn, or a connection that made room for another one.
        assert!(answers.iter().all(|answer| matches!(answer, None | Some(408 | 503))), "{answers:?}");
        most
    });
    let grown = most.saturating_sub(before);
    assert!(grown < 128 << 20, "200 forms took {} MiB", grown >> 20);
    assert_eq!(pages.get("/").status, 200);
}

/// The table of `docs/security-model.md` is what holds. `STATOR_BLESS=1` writes it anew.
#[test]
fn every_route_is_in_the_table_of_the_security_model() {
    let row = |listener: &str, rule: &RouteRule| {
        let bytes = match rule.most_bytes {
            0 => "none is read".to_owned(),
            bytes if bytes % (1 << 20) == 0 => format!("{} MiB within 10 s", bytes >> 20),
            bytes => format!("{} KiB within 10 s", bytes >> 10),
        };
        let who = rule.caller.describe();
        format!("| {listener} | `{}` | {} | {who} | {bytes} |\n", rule.path.replace('|', "\\|"), rule.methods)
    };
    let served = ServerRoute::VARIANTS.iter().map(|route| row("webhooks, probes, metrics", &route.rule()));
    let pages = stator::web::route_rules();
    let rows: String = served.chain(pages.iter().map(|rule| row("pages and API", rule))).collect();
    let table = format!("| Listener | Route | Methods | Who is answered | Body |\n|-|-|-|-|-|\n{rows}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/security-model.md");
    let text = fs_err::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("| Listener | Route |").expect("the table of routes");
    let (_, after) = rest.split_once("\n\n").unwrap();
    let wanted = format!("{before}{table}\n{after}");
    if std::env::var("STATOR_BLESS").is_ok_and(|value| value == "1") {
        fs_err::write(&path, &wanted).unwrap();
    }
    assert!(text == wanted, "the table of routes is old: STATOR_BLESS=1");
}

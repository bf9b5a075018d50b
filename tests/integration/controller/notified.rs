//! Notifications, as whoever is told receives them.

use super::{Scene, fleet, head};
use aws_lc_rs::hmac;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Somebody who is told: keeps each request, and answers with the next status, 200 when there is none.
#[derive(Clone)]
pub(super) struct Receiver {
    pub(super) address: std::net::SocketAddr,
    taken: Arc<Mutex<Vec<(String, String)>>>,
}

impl Receiver {
    pub(super) fn start(answers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Self { address: listener.local_addr().unwrap(), taken: Arc::default() };
        let taken = Arc::clone(&receiver.taken);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut text = String::new();
                let mut chunk = [0; 4096];
                let whole = |text: &str| {
                    let (head, body) = text.split_once("\r\n\r\n")?;
                    let length = head
                        .lines()
                        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
                    (body.len() >= length.unwrap_or(0)).then(|| (head.to_lowercase(), body.to_owned()))
                };
                let request = loop {
                    if let Some(request) = whole(&text) {
                        break Some(request);
                    }
                    match stream.read(&mut chunk) {
                        Ok(read) if read > 0 => text.push_str(&String::from_utf8_lossy(&chunk[..read])),
                        _ => break None,
                    }
                };
                let Some(request) = request else { continue };
                let mut taken = taken.lock().unwrap();
                let answer = answers.get(taken.len()).copied().unwrap_or("200 OK\r\n");
                taken.push(request);
                let _ = stream
                    .write_all(format!("HTTP/1.1 {answer}Connection: close\r\nContent-Length: 0\r\n\r\n").as_bytes());
            }
        });
        receiver
    }

    pub(super) fn taken(&self) -> Vec<(String, String)> {
        self.taken.lock().unwrap().clone()
    }
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
}

#[test]
fn what_fails_and_recovers_is_told_once_to_each_who_wants_it() {
    // Slack is down twice, and asks for a pause; the generic one is there.
    let slack = Receiver::start(&["503 Busy\r\nRetry-After: 1\r\n", "500 No\r\n"]);
    let pager = Receiver::start(&[]);
    let refusing =
        Receiver::start(&["302 Found\r\nLocation: http://127.0.0.1:1/canary-elsewhere\r\n", "302 Found\r\n"]);
    let mut scene = Scene::of(fleet(2));
    let notifications = "  allowInsecure: true\n  notifications:\n  - {type: slack, secretRef: {name: slack}}\n  - {type: webhook, secretRef: {name: pager}, events: [failed, recovered, synced]}\n  - {type: webhook, secretRef: {name: refusing}}\n";
    let secret = |name: &str, receiver: &Receiver, more: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{url: 'http://{}/canary-{name}'{more}}}\n---\n",
            receiver.address
        )
    };
    scene.declare(
        &(scene.source("models", notifications)
            + &secret("slack", &slack, "")
            + &secret("pager", &pager, ", token: canary-token")
            + &secret("refusing", &refusing, "")),
    );
    scene.start();
    scene.synced("models", &head(&scene.bench));
    scene.bench.replace("models/mock-0/model.yaml", "engine: mocker", "engine: steam");
    let broken = scene.bench.commit("<!channel> break it");
    scene.until("the failure is told", || slack.taken().len() >= 3 && !pager.taken().is_empty());
    scene.bench.replace("models/mock-0/model.yaml", "engine: steam", "engine: mocker");
    let mended = scene.bench.commit("mend it");
    scene.until("the recovery is told", || slack.taken().len() >= 4 && pager.taken().len() >= 2);
    scene.until("all is counted", || {
        scene.metric("stator_notifications_total{type=\"slack\",result=\"sent\"}") == 2.0
            && scene.metric("stator_notifications_total{type=\"webhook\",result=\"sent\"}") == 2.0
            && scene.metric("stator_notifications_total{type=\"webhook\",result=\"refused\"}") == 2.0
    });
    let said = scene.said();
    assert_eq!(scene.end().code(), Some(0));

    let slack = slack.taken();
    // Three tries of one notification, and the second one at once.
    let ids: Vec<&str> = slack.iter().map(|(head, _)| header(head, "x-stator-delivery")).collect();
    assert!(ids[0] == ids[1] && ids[1] == ids[2] && ids[2] != ids[3], "{ids:?}");
    assert!(slack[2].1.contains("Failed: default/models (staging) at"), "{}", slack[2].1);
    assert!(slack[3].1.contains("Recovered: default/models (staging) at"), "{}", slack[3].1);

    let pager = pager.taken();
    let told: Vec<serde_json::Value> = pager.iter().map(|(_, body)| serde_json::from_str(body).unwrap()).collect();
    let told: Vec<_> =
        told.iter().map(|one| (one["event"].as_str().unwrap(), one["revision"].as_str().unwrap())).collect();
    assert_eq!(told, [("failed", broken.as_str()), ("recovered", mended.as_str())]);
    for (head, body) in &pager {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"canary-token");
        let signature = format!("sha256={}", hex::encode(hmac::sign(&key, body.as_bytes())));
        assert_eq!(header(head, "x-stator-signature-256"), signature);
    }
    assert_eq!(refusing.taken().len(), 2, "nobody is followed elsewhere, and nobody asked again");
    assert!(said.contains("a notification was refused: the receiver redirects (status 302)"), "{said}");
    assert!(!said.contains("canary"), "{said}");
}

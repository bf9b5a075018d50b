//! A process that is told to stop ends soon, whatever it does, between writes; and the next one completes the rest.

use super::scene::Scene;
use super::{fleet, head};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// What a stop takes at the most.
const MOST: Duration = Duration::from_secs(10);
const MODELS: usize = 2000;

/// The graphs, with their uids.
fn uids(scene: &Scene) -> BTreeMap<String, String> {
    let uid = |name: &String| {
        let text = scene.graph("models", name);
        text.lines().find_map(|line| line.trim().strip_prefix("uid: ").map(str::to_owned))
    };
    scene.graphs("models").into_iter().filter_map(|name| Some((name.clone(), uid(&name)?))).collect()
}

/// Asks it to stop, and holds it to the time.
fn stop(scene: &mut Scene, when: &str) {
    let asked = Instant::now();
    let status = scene.end();
    assert!(asked.elapsed() < MOST, "{when}: it took {:?}", asked.elapsed());
    assert!(status.success() || status.code() == Some(130), "{when}: {status}");
}

#[test]
fn a_first_sync_of_2000_models_is_stopped_within_ten_seconds_and_completed() {
    let mut scene = Scene::of(fleet(MODELS));
    scene.declare(&scene.source("fleet", "  interval: 1h\n"));
    scene.start();
    scene.until("some graphs are there", || scene.graphs("models").len() > MODELS / 20);
    stop(&mut scene, "while graphs are made");
    let graphs = uids(&scene);
    assert!(!graphs.is_empty() && graphs.len() < MODELS, "it was not in the middle: {}", graphs.len());
    // The next one knows what the first one made, and makes nothing of it twice.
    let cluster = scene.cluster();
    scene.bench.run(["sync", "--yes", "--cluster", &cluster]).success();
    let after = uids(&scene);
    assert_eq!(after.len(), MODELS);
    assert!(graphs.iter().all(|(name, uid)| after.get(name) == Some(uid)), "a graph was made again");
    scene.is_settled();
}

#[test]
fn a_host_that_hangs_and_a_request_that_never_ends_keep_no_process_from_its_end() {
    let mut scene = Scene::of(fleet(1));
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = format!(
        "apiVersion: stator.dev/v1alpha1\nkind: ModelSource\nmetadata: {{name: hangs}}\nspec:\n  url: http://{}/a/b.git\n  \
         allowInsecure: true\n  ref: {{branch: main}}\n  interval: 1s\n---\n",
        host.local_addr().unwrap()
    );
    scene.declare(&(scene.source("fleet", "") + &hanging));
    for signals in [1, 2] {
        scene.start();
        let (asked, _) = host.accept().unwrap();
        let address = scene.address();
        let mut request = TcpStream::connect(&address).unwrap();
        request.write_all(b"POST /webhooks/gitea HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{").unwrap();
        scene.synced("fleet", &head(&scene.bench));
        let start = Instant::now();
        scene.signal("-TERM");
        if signals == 2 {
            scene.hears("Shutting down");
            scene.signal("-TERM");
        }
        let status = scene.ended();
        assert!(start.elapsed() < MOST, "after {signals}: {:?}", start.elapsed());
        assert!(status.success() || status.code() == Some(130), "after {signals}: {status}");
        drop((asked, request));
    }
}

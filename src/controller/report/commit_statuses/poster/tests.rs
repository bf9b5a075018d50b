//! A host that refuses in every way there is, under a clock that only tests move.

use super::*;
use crate::controller::report::tests_forge::{CANARY, FakeForge, status};
use proptest::prelude::*;
use stator_git::forge::StatusState::{Failure, Pending, Success};
use std::io::Write;

const DAY: Duration = Duration::from_secs(86_400);

fn commit(letter: &str) -> String {
    letter.repeat(40)
}

fn budget() -> ForgeWriteBudget {
    ForgeWriteBudget::new(&[(60, Duration::from_secs(60)), (450, Duration::from_secs(3_600))])
}

fn start(forge: FakeForge) -> (Arc<FakeForge>, StatusPoster<FakeForge>) {
    let forge = Arc::new(forge);
    let poster = StatusPoster::start(Arc::clone(&forge), budget(), None, 7);
    (forge, poster)
}

#[tokio::test(start_paused = true)]
async fn what_is_shown_already_is_not_posted_again() {
    let (forge, poster) = start(FakeForge::default());
    for _ in 0..3 {
        poster.request_statuses([(commit("a"), status("stator/prod", Pending, "planning"))]);
        assert!(poster.wait_until_posted(DAY).await);
    }
    poster.request_statuses([(commit("a"), status("stator/prod", Success, "2 models healthy, 1 changed"))]);
    assert!(poster.wait_until_posted(DAY).await);
    insta::assert_snapshot!(forge.sent().join("\n"), @r#"
    0s a stator/prod pending: planning
    0s a stator/prod success: 2 models healthy, 1 changed
    "#);
}

#[tokio::test(start_paused = true)]
async fn what_is_overtaken_before_it_is_sent_is_never_sent() {
    let (forge, poster) = start(FakeForge::slow(Duration::from_secs(1)));
    poster.request_statuses([(commit("a"), status("stator/prod", Pending, "reading"))]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    for text in ["planning", "applying", "waiting"] {
        poster.request_statuses([(commit("a"), status("stator/prod", Pending, text))]);
    }
    poster.request_statuses([(commit("a"), status("stator/prod", Failure, "llama: Failed"))]);
    assert!(poster.wait_until_posted(DAY).await);
    insta::assert_snapshot!(forge.sent().join("\n"), @r#"
    0s a stator/prod pending: reading
    1s a stator/prod failure: llama: Failed
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_wanted_back_while_its_successor_is_under_way_is_posted_again() {
    let (forge, poster) = start(FakeForge::slow(Duration::from_secs(1)));
    poster.request_statuses([(commit("a"), status("stator/prod", Pending, "one"))]);
    assert!(poster.wait_until_posted(DAY).await);
    poster.request_statuses([(commit("a"), status("stator/prod", Pending, "two"))]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    poster.request_statuses([(commit("a"), status("stator/prod", Pending, "one"))]);
    assert!(poster.wait_until_posted(DAY).await);
    assert_eq!(forge.shows().into_values().next().unwrap().description, "one");
}

#[tokio::test(start_paused = true)]
async fn ends_go_first_and_the_newest_before_older_ones() {
    let (forge, poster) = start(FakeForge::default());
    poster.request_statuses([
        (commit("a"), status("stator/prod", Success, "superseded by ccccccc")),
        (commit("b"), status("stator/prod", Success, "superseded by ccccccc")),
        (commit("c"), status("stator/prod", Pending, "planning")),
    ]);
    assert!(poster.wait_until_posted(DAY).await);
    insta::assert_snapshot!(forge.sent().join("\n"), @r#"
    0s b stator/prod success: superseded by ccccccc
    0s a stator/prod success: superseded by ccccccc
    0s c stator/prod pending: planning
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_waited_for_by_all() {
    for (answer, pause) in [(429, 120), (430, 60), (503, 30)] {
        let (forge, poster) = start(FakeForge::default());
        forge.answers([answer]);
        poster.request_statuses([(commit("a"), status("stator/prod", Pending, "planning"))]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        poster.request_statuses([(commit("b"), status("stator/prod", Pending, "planning"))]);
        assert!(poster.wait_until_posted(DAY).await);
        let moments = forge.moments();
        assert_eq!(moments.len(), 3, "{answer}: {moments:?}");
        assert!(moments[1] >= pause && moments[1] <= pause + 6, "{answer}: {moments:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_in_trouble_is_asked_less_and_less() {
    let (forge, poster) = start(FakeForge::default());
    forge.answers([500; 12]);
    poster.request_statuses([(commit("a"), status("stator/prod", Success, "healthy"))]);
    assert!(poster.wait_until_posted(DAY).await);
    let moments = forge.moments();
    assert_eq!(moments.len(), 13);
    let pauses: Vec<u64> = moments.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[0] <= 3 && pauses[11] >= 150, "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= 301), "{pauses:?}");
}

/// Everything that is logged while it lives.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn begin(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .without_time()
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Row D2 of the review: any refusal stopped the poster for good.
#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_is_tried_rarely_and_said_once() {
    for answer in [401, 403, 410] {
        let log = Log::default();
        let guard = log.begin();
        let (forge, poster) = start(FakeForge::default());
        forge.always("stator/prod", answer);
        for letter in ["a", "b", "c", "d", "e"] {
            poster.request_statuses([(commit(letter), status("stator/prod", Pending, "planning"))]);
        }
        tokio::time::sleep(Duration::from_secs(20_000)).await;
        let tries = forge.calls("set_status");
        assert!((4..40).contains(&tries), "{answer}: {tries}");
        let refusal = poster.state().borrow().refusal.clone().unwrap();
        assert_eq!(log.text().matches("it is tried again within the hour").count(), 1, "{}", log.text());
        assert!(!log.text().contains(CANARY) && !refusal.contains(CANARY), "{}", log.text());
        forge.relent("stator/prod");
        tokio::time::sleep(Duration::from_secs(8_000)).await;
        drop(guard);
        assert_eq!((forge.shows().len(), poster.state().borrow().refusal.clone()), (5, None), "{answer}");
    }
}

/// Row D2: a refusal is of one status, and the others go on.
#[tokio::test(start_paused = true)]
async fn a_status_that_is_refused_keeps_no_other_from_being_posted() {
    for answer in [403, 410] {
        let (forge, poster) = start(FakeForge::default());
        forge.always("stator/locked", answer);
        for letter in ["a", "b", "c", "d"] {
            poster.request_statuses([
                (commit(letter), status("stator/locked", Pending, "planning")),
                (commit(letter), status("stator/prod", Pending, "planning")),
            ]);
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        assert_eq!(forge.shows().len(), 4, "{answer}");
        forge.relent("stator/locked");
        tokio::time::sleep(Duration::from_secs(4_000)).await;
        assert_eq!(forge.shows().len(), 8, "{answer}");
    }
}

/// Row D9 of the review: whoever ends waits for what is under way, and not for what waits itself.
#[tokio::test(start_paused = true)]
async fn an_end_does_not_wait_for_what_the_host_refuses() {
    for (answer, statuses) in [(401, 1), (403, 1), (403, 9)] {
        let (forge, poster) = start(FakeForge::default());
        forge.always("stator/prod", answer);
        poster.request_statuses(
            (0..statuses).map(|number| (commit(&number.to_string()), status("stator/prod", Success, "healthy"))),
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        assert!(poster.wait_until_posted(DAY).await);
        assert_eq!(began.elapsed(), Duration::ZERO, "{answer}");
    }
}

/// What is refused for a day is of a commit that nobody looks at any more.
#[tokio::test(start_paused = true)]
async fn what_is_refused_for_a_day_is_given_up_until_it_is_wanted_again() {
    let (forge, poster) = start(FakeForge::default());
    forge.always("stator/prod", 403);
    let wanted = [(commit("a"), status("stator/prod", Success, "healthy"))];
    poster.request_statuses(wanted.clone());
    tokio::time::sleep(DAY + Duration::from_secs(8_000)).await;
    assert_eq!((poster.state().borrow().pending, poster.state().borrow().given_up), (0, 1));
    forge.relent("stator/prod");
    poster.request_statuses(wanted);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(forge.shows().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_the_host_does_not_know_yet_is_asked_for_five_minutes() {
    let (forge, poster) = start(FakeForge::default());
    forge.always("stator/prod", 404);
    poster.request_statuses([(commit("a"), status("stator/prod", Pending, "planning"))]);
    assert!(poster.wait_until_posted(DAY).await);
    let last = *forge.moments().last().unwrap();
    assert!((300..700).contains(&last), "{last}");
    assert_eq!(poster.state().borrow().given_up, 1);
    // What was given up is not begun again with every look.
    let tries = forge.calls("set_status");
    poster.request_statuses([(commit("a"), status("stator/prod", Pending, "planning"))]);
    assert!(poster.wait_until_posted(DAY).await);
    assert_eq!(forge.calls("set_status"), tries);
}

#[tokio::test(start_paused = true)]
async fn a_context_that_is_full_takes_nothing_more_and_others_do() {
    let (forge, poster) = start(FakeForge::default());
    forge.always("stator/prod", 1000);
    for text in ["one", "two"] {
        poster.request_statuses([
            (commit("a"), status("stator/prod", Pending, text)),
            (commit("a"), status("stator/prod/llama", Pending, text)),
        ]);
        assert!(poster.wait_until_posted(DAY).await);
    }
    insta::assert_snapshot!(forge.sent().join("\n"), @r#"
    0s a stator/prod/llama pending: one
    0s a stator/prod pending: one
    0s a stator/prod/llama pending: two
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_text_that_is_refused_is_not_sent_again_and_another_one_is() {
    let log = Log::default();
    let guard = log.begin();
    let (forge, poster) = start(FakeForge::default());
    forge.answers([422]);
    for text in ["one", "one", "two"] {
        poster.request_statuses([(commit("a"), status("stator/prod", Pending, text))]);
        assert!(poster.wait_until_posted(DAY).await);
    }
    drop(guard);
    insta::assert_snapshot!(forge.sent().join("\n"), @r#"
    0s a stator/prod pending: one
    0s a stator/prod pending: two
    "#);
    assert!(!log.text().contains(CANARY), "{}", log.text());
    insta::assert_snapshot!(log.text().trim(), @"WARN stator::controller::report::commit_statuses::poster: the git host refuses the status; compare the host's version with the supported ones in docs/reference/forges.md forge=Fake, team/models commit=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa context=stator/prod");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_tried_again() {
    let (forge, poster) = start(FakeForge::default());
    forge.answers([409, 409]);
    poster.request_statuses([(commit("a"), status("stator/prod", Success, "healthy"))]);
    assert!(poster.wait_until_posted(DAY).await);
    assert_eq!(forge.calls("set_status"), 3);
    assert_eq!(forge.shows().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_host_is_read_once_and_only_the_difference_is_sent() {
    let (forge, poster) = start(FakeForge::default());
    poster.request_statuses([
        (commit("a"), status("stator/prod", Success, "healthy")),
        (commit("b"), status("stator/prod", Pending, "a sentence that the host cut sh…")),
    ]);
    assert!(poster.wait_until_posted(DAY).await);
    drop(poster);

    let poster = StatusPoster::start(Arc::clone(&forge), budget(), None, 8);
    for letter in ["a", "b"] {
        assert_eq!(poster.load_posted_statuses(&commit(letter), "stator/").await.unwrap().len(), 1);
    }
    poster.request_statuses([
        (commit("a"), status("stator/prod", Success, "healthy")),
        (commit("b"), status("stator/prod", Pending, "a sentence that the host cut short")),
    ]);
    assert!(poster.wait_until_posted(DAY).await);
    assert_eq!((forge.calls("set_status"), forge.calls("statuses")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_sent_at_the_pace_of_the_budget_and_none_is_lost() {
    let (forge, poster) = start(FakeForge::default());
    let all: Vec<_> =
        (0..100).map(|number| (commit("a"), status(&format!("stator/prod/{number}"), Success, "healthy"))).collect();
    poster.request_statuses(all.clone());
    assert!(poster.wait_until_posted(DAY).await);
    let moments = forge.moments();
    assert_eq!(moments.iter().filter(|second| **second < 60).count(), 60);
    assert_eq!(forge.shows().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_and_what_found_no_room_comes_with_the_next_look() {
    let forge = Arc::new(FakeForge::default());
    let poster = StatusPoster::start(Arc::clone(&forge), ForgeWriteBudget::new(&[(1_000_000, DAY)]), None, 7);
    let all: Vec<_> =
        (0..2_500).map(|number| (commit("a"), status(&format!("stator/prod/{number}"), Success, "healthy"))).collect();
    poster.request_statuses(all.clone());
    assert_eq!(poster.state().borrow().pending, 2_000);
    assert!(poster.wait_until_posted(DAY).await);
    poster.request_statuses(all);
    assert!(poster.wait_until_posted(DAY).await);
    assert_eq!(forge.shows().len(), 2_500);
    assert_eq!(forge.calls("set_status"), 2_500);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a host answers for a while, in the end it shows what was wanted last, and no older one came after it.
    #[test]
    fn in_the_end_the_host_shows_what_was_wanted_last(
        wants in proptest::collection::vec((0u8..3, 0u8..2, 0u64..90), 1..30),
        answers in proptest::collection::vec(prop_oneof![Just(409u16), Just(429), Just(430), Just(500), Just(503)], 0..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (forge, poster) = start(FakeForge::slow(Duration::from_millis(300)));
            forge.answers(answers);
            let mut last = std::collections::BTreeMap::new();
            for (turn, (letter, context, pause)) in wants.into_iter().enumerate() {
                let (commit, context) = (commit(&letter.to_string()), format!("stator/{context}"));
                let wanted = status(&context, Pending, &format!("{turn:03}"));
                last.insert((commit.clone(), context), wanted.clone());
                poster.request_statuses([(commit, wanted)]);
                tokio::time::sleep(Duration::from_secs(pause)).await;
            }
            assert!(poster.wait_until_posted(DAY).await);
            assert_eq!(forge.shows(), last);
            for (commit, context) in last.keys() {
                let of_key: Vec<String> = forge.sent().iter().filter(|line| line.contains(&format!(" {} {context} ", &commit[..1]))).map(|line| line[line.len() - 3..].to_owned()).collect();
                let mut sorted = of_key.clone();
                sorted.sort();
                assert_eq!(of_key, sorted);
            }
        });
    }
}

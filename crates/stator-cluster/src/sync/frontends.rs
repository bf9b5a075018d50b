//! Frontends, asked once for a report.

use crate::cluster::Cluster;
use futures_util::StreamExt as _;
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many are asked at a time.
const CONCURRENCY: usize = 8;

/// How long a report waits for all of them together.
const DEADLINE: Duration = Duration::from_secs(60);

/// What frontends serve. Those that did not come to answer within a minute are not known.
pub async fn ask_frontends<C: Cluster>(
    cluster: &C,
    frontends: BTreeSet<FrontendService>,
) -> BTreeMap<FrontendService, FrontendAnswer> {
    let late = format!("the frontends that were asked took more than {} s", DEADLINE.as_secs());
    let mut answers: BTreeMap<FrontendService, FrontendAnswer> =
        frontends.iter().map(|frontend| (frontend.clone(), FrontendAnswer::unknown(late.as_str()))).collect();
    let questions = futures_util::stream::iter(frontends).map(|frontend| async move {
        let answer = cluster.served_models(&frontend).await;
        (frontend, answer)
    });
    let in_time = questions.buffer_unordered(CONCURRENCY).take_until(tokio::time::sleep(DEADLINE));
    let answered: Vec<(FrontendService, FrontendAnswer)> = in_time.collect().await;
    answers.extend(answered);
    answers
}

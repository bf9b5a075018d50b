//! Frontends, asked once for a report.

use crate::cluster::Cluster;
use futures_util::StreamExt as _;
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use std::collections::{BTreeMap, BTreeSet};

/// How many are asked at a time.
const CONCURRENCY: usize = 8;

/// What frontends serve.
pub async fn ask_frontends<C: Cluster>(
    cluster: &C,
    frontends: BTreeSet<FrontendService>,
) -> BTreeMap<FrontendService, FrontendAnswer> {
    let questions = futures_util::stream::iter(frontends).map(|frontend| async move {
        let answer = cluster.served_models(&frontend).await;
        (frontend, answer)
    });
    questions.buffer_unordered(CONCURRENCY).collect().await
}

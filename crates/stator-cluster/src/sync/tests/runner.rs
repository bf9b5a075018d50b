//! Writing records, and what of a failed write is said.

use super::{FaultyCluster, record};
use crate::cluster::ClusterError;
use crate::sync::machine::{ExpectedRecord, RecordWriteResult};
use crate::sync::record_write::{delete_record, write_record};

/// Writes the status of the record of `a` alone.
async fn write_status(cluster: &FaultyCluster) -> Result<RecordWriteResult, ClusterError> {
    let read = ExpectedRecord::Present { uid: None, resource_version: None, owner: None };
    write_record(cluster, Box::new(record("a")), read, false, true).await
}

#[tokio::test]
async fn a_status_that_cannot_be_written_is_an_error_and_not_a_deleted_record() {
    let forbidden = ClusterError::Forbidden { message: "no".to_owned(), fix: "ask".to_owned() };
    let unreachable = ClusterError::Unreachable { message: "gone".to_owned() };
    for error in [ClusterError::Fenced, forbidden, unreachable, ClusterError::transient("busy")] {
        let (object, _) = record("a").to_object().unwrap();
        let cluster = FaultyCluster::holding([object]).refusing("apply status Model a", [error.clone()]);
        assert_eq!(write_status(&cluster).await.err(), Some(error));
        assert_eq!(cluster.calls(), ["apply status Model a"]);
    }
}

#[tokio::test]
async fn a_record_that_was_deleted_meanwhile_is_written_anew() {
    let cluster = FaultyCluster::default();
    assert_eq!(write_status(&cluster).await.map(|result| result.writes), Ok(2));
    assert_eq!(cluster.calls(), ["apply status Model a", "get Model a", "apply Model a", "apply status Model a"]);
}

#[tokio::test]
async fn a_record_that_is_gone_already_is_deleted_without_a_write() {
    let (object, _) = record("a").to_object().unwrap();
    let cluster = FaultyCluster::holding([object]);
    let writes = async || delete_record(&cluster, &record("a")).await.map(|result| result.writes);
    assert_eq!(writes().await, Ok(1));
    assert_eq!(writes().await, Ok(0));
}

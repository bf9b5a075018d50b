//! A crash before and after every single write: the next sync ends where an undisturbed one would have.

use super::pipeline::{Dying, Site};
use std::sync::atomic::Ordering;

/// Two models at work, and then: one changed, one gone, one new.
async fn start() -> Site {
    let site = Site::new(&[("changed", 1), ("gone", 1)]);
    assert!(site.sync(&[]).await.is_success());
    site.model("changed", 2);
    site.remove("gone");
    site.model("new", 1);
    site
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_may_be_the_last() {
    let undisturbed = start().await;
    assert!(undisturbed.sync(&[]).await.is_success());
    for after in [false, true] {
        for writes in 1.. {
            let site = start().await;
            let dying = Dying::new(&site.cluster, writes, after);
            site.sync_on(&dying, false, &[]).await;
            let report = site.sync(&[]).await;
            assert!(report.is_success(), "crash at write {writes}, after {after}: {report:#?}");
            assert_eq!(site.objects(), undisturbed.objects(), "crash at write {writes}, after {after}");
            assert!(dying.deletes.load(Ordering::SeqCst) <= 2, "one object and its record go, and nothing else");
            site.settled().await;
            if !dying.died() {
                break;
            }
        }
    }
}

//! Models by target.

use super::leaves::{json_map, size};
use super::serving::router;
use crate::intent::model::*;
use crate::intent::scalar::Millis;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// What to reach.
pub(super) fn sla() -> BoxedStrategy<Sla> {
    let millis = || option::of((1_u64..10_000).prop_map(Millis));
    (
        (millis(), millis(), millis()),
        option::of(prop_oneof![Just(Optimize::Latency), Just(Optimize::Throughput)]),
        option::of(prop_oneof![Just(Search::Rapid), Just(Search::Thorough)]),
        (option::of(any::<bool>()), option::of(any::<bool>()), option::of(1_u32..4)),
        option::of(json_map()),
        option::of(workload()),
        (option::of(router()), option::of(worker().boxed())),
    )
        .prop_map(
            |(
                (ttft, itl, e2e),
                optimize,
                search,
                (auto_apply, mocker, attempt),
                planner,
                workload,
                (router, worker),
            )| {
                Sla { ttft, itl, e2e, optimize, workload, search, auto_apply, planner, router, worker, attempt, mocker }
            },
        )
        .boxed()
}

fn workload() -> impl Strategy<Value = Workload> {
    let rate = (1_u32..1000).prop_map(|rate| f64::from(rate) / 8.0);
    (option::of(1_u32..9000), option::of(1_u32..9000), option::of(1_u32..99), option::of(rate))
        .prop_map(|(isl, osl, concurrency, request_rate)| Workload { isl, osl, concurrency, request_rate })
}

fn worker() -> impl Strategy<Value = SlaWorker> {
    (size(), size(), option::of("[a-z0-9]{1,8}"), size(), size(), vec("-[a-z]{1,4}", 0..2)).prop_map(
        |(tensor_parallel, pipeline_parallel, dtype, max_sequences, max_length, args)| SlaWorker {
            tensor_parallel,
            pipeline_parallel,
            dtype,
            max_sequences,
            max_length,
            args,
        },
    )
}

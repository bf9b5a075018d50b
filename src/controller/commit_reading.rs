//! A commit that is being read or planned, and the memory for it, shared by all sources and pull requests.
//!
//! Each commit is bounded by itself, but a hundred moderately large ones at once are not. Whoever reads a commit reserves
//! what it may take, by what the git objects' headers say of its files, and waits until that much is free: in the order of
//! asking, so that a large one is not overtaken forever, and by namespace, so that who pushes without end has others wait
//! for what is being planned and for nothing behind it.

use super::commit_trials::OpenTrial;
use crate::fair_turns::{FairTurns, Turn};
use futures_util::FutureExt as _;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What one permit of the semaphore stands for.
const UNIT_BYTES: usize = 64 << 10;
/// What there is where the process has no limit of memory.
const DEFAULT_BYTES: usize = 512 << 20;
/// Never less: a commit needs something.
const LEAST_BYTES: usize = 64 << 20;
/// The process's limit of memory in a container.
const CGROUP_LIMIT: &str = "/sys/fs/cgroup/memory.max";

/// Memory that is shared. Clones are the same.
#[derive(Clone, Debug)]
pub struct PlanningBudget {
    /// By namespace.
    turns: FairTurns<String>,
    /// How much of it may be lent at a time.
    lendable: Arc<Semaphore>,
    units: u32,
}

/// Reserved memory; given back when dropped.
#[derive(Debug)]
pub struct PlanningPermit {
    turn: Option<Turn>,
    namespace: String,
    units: u32,
    budget: PlanningBudget,
}

impl Default for PlanningBudget {
    /// Half of what the container may use; the other half is for live objects, caches and everything else.
    fn default() -> Self {
        let limit = fs_err::read_to_string(CGROUP_LIMIT).ok().and_then(|text| text.trim().parse::<usize>().ok());
        Self::new(limit.map_or(DEFAULT_BYTES, |limit| (limit / 2).max(LEAST_BYTES)))
    }
}

impl PlanningBudget {
    /// So many bytes in all.
    pub fn new(bytes: usize) -> Self {
        let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).clamp(1, most);
        let lendable = Arc::new(Semaphore::new((units / 2) as usize));
        Self { turns: FairTurns::new(units as usize, units as usize), lendable, units }
    }

    /// Waits until so much is free for a namespace. What takes more than there is in all waits until nothing else is read, and then has all
    /// of it.
    pub async fn reserve(&self, namespace: &str, bytes: usize) -> PlanningPermit {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).clamp(1, self.units);
        let turn = Some(self.turns.wait(namespace.to_owned(), units).await);
        PlanningPermit { turn, namespace: namespace.to_owned(), units, budget: self.clone() }
    }
}

/// A commit that is being read or planned: the memory that it may take, and the mark of its trial. Both go when this is
/// dropped.
#[derive(Debug)]
pub struct CommitReading {
    pub(in crate::controller) permit: Option<PlanningPermit>,
    pub(in crate::controller) _trial: OpenTrial,
}

impl CommitReading {
    /// Waits for a host's answer, and leaves the memory to others meanwhile: what is read by then is a part of what planning
    /// takes, and the host may hang. As it stays, only so much is lent at a time, and all of the memory never.
    pub(in crate::controller) async fn lend_memory<T>(&mut self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        if let Some(answered) = answer.as_mut().now_or_never() {
            return answered;
        }
        let Some(PlanningPermit { turn, namespace, units, budget }) = &mut self.permit else { return answer.await };
        let Ok(lent) = Arc::clone(&budget.lendable).try_acquire_many_owned(*units) else { return answer.await };
        drop(turn.take());
        let answered = answer.await;
        *turn = Some(budget.turns.wait(namespace.clone(), *units).await);
        drop(lent);
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::commit_trials::{CommitTrials, TrialDecision, TrialSubject};

    /// Row S1 of the review: many moderately large commits at once took more than there is.
    #[tokio::test]
    async fn commits_wait_for_room_in_the_order_of_asking() {
        let budget = PlanningBudget::new(100 << 20);
        let (first, second) = (budget.reserve("a", 40 << 20).await, budget.reserve("b", 40 << 20).await);
        let mut large = Box::pin(budget.reserve("c", 80 << 20));
        assert!((&mut large).now_or_never().is_none());
        let mut small = Box::pin(budget.reserve("d", 1 << 20));
        assert!((&mut small).now_or_never().is_none(), "the large one is not overtaken");
        drop(first);
        assert!((&mut large).now_or_never().is_none());
        drop(second);
        let large = large.await;
        let small = small.await;
        drop((large, small));
        assert!(budget.reserve("a", usize::MAX).now_or_never().is_some(), "more than there is has all of it");
    }

    /// Whoever pushes large commits without end has others wait for what is being planned, and for nothing that waits.
    #[tokio::test]
    async fn commits_of_one_namespace_wait_behind_each_other_and_keep_no_other_waiting() {
        let budget = PlanningBudget::new(100 << 20);
        let first = budget.reserve("greedy", 40 << 20).await;
        let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(budget.reserve("greedy", 40 << 20))).collect();
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()));
        let modest = budget.reserve("modest", 50 << 20).now_or_never();
        assert!(modest.is_some(), "there is room, and nobody of them is before it");
        drop(first);
        assert!((&mut waiting[0]).now_or_never().is_some(), "one after the other");
    }

    /// A git host that hung when it was asked for a commit's statuses kept the memory of all that were to be planned.
    #[tokio::test]
    async fn whoever_waits_for_a_host_lends_its_memory_and_has_it_back_before_it_goes_on() {
        let data = tempfile::tempdir().unwrap();
        let subject = TrialSubject::SourceCommit("a".to_owned());
        let TrialDecision::Beside(trial) = CommitTrials::open(data.path()).begin(("team", "models"), &subject).await
        else {
            panic!("it is no suspect");
        };
        let budget = PlanningBudget::new(100 << 20);
        let mut reading = CommitReading { permit: Some(budget.reserve("a", 40 << 20).await), _trial: trial };
        assert_eq!(reading.lend_memory(std::future::ready(1)).now_or_never(), Some(1), "an answer that is there");
        let (answer, answered) = tokio::sync::oneshot::channel();
        let mut waiting = Box::pin(reading.lend_memory(answered));
        assert!((&mut waiting).now_or_never().is_none());
        let other = budget.reserve("b", 70 << 20).now_or_never();
        assert!(other.is_some(), "another is planned meanwhile");
        answer.send(2).unwrap();
        assert!((&mut waiting).now_or_never().is_none(), "and is through before this one goes on");
        drop(other);
        assert_eq!(waiting.await, Ok(2));
        assert!(budget.reserve("b", 70 << 20).now_or_never().is_none());
        // What is read stays: more than half of the memory is never lent.
        reading.permit = None;
        reading.permit = Some(budget.reserve("a", 60 << 20).await);
        let mut waiting = Box::pin(reading.lend_memory(std::future::pending::<()>()));
        assert!((&mut waiting).now_or_never().is_none());
        assert!(budget.reserve("b", 50 << 20).now_or_never().is_none());
    }
}

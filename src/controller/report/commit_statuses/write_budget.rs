//! How many calls that write a git host is asked to take: one budget for all that speak to it, of which every namespace has
//! something however much the others write.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// One of so many writes is each namespace's own, as long as others may write there too.
const OWN_PART: usize = 16;

/// At most so many writes in so long.
type WriteWindows = [(usize, Duration)];

type WritesByHost = BTreeMap<(String, &'static WriteWindows), Arc<HostWrites>>;

/// The budgets of all git hosts. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct ForgeWriteBudgets(Arc<Mutex<WritesByHost>>);

/// What one namespace may write to a git host. Clones are the same.
#[derive(Clone, Debug)]
pub struct ForgeWriteBudget {
    host: Arc<HostWrites>,
    namespace: Arc<str>,
}

/// Writes to one git host.
#[derive(Debug)]
struct HostWrites {
    windows: Vec<(usize, Duration)>,
    counted: Mutex<CountedWrites>,
}

#[derive(Debug, Default)]
struct CountedWrites {
    /// Those of the longest window, the oldest first, and whose each was.
    taken: VecDeque<(Instant, Arc<str>)>,
    /// The namespaces that may write.
    namespaces: Vec<Weak<str>>,
}

impl ForgeWriteBudgets {
    /// What a namespace may write to a host that takes so much.
    pub fn budget(&self, host: &str, windows: &'static WriteWindows, namespace: &str) -> ForgeWriteBudget {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What was written to a host counts there, whoever wrote it has left or not.
        hosts.retain(|_, host| Arc::strong_count(host) > 1 || host.is_counting(Instant::now()));
        let host = hosts.entry((host.to_owned(), windows)).or_insert_with(|| Arc::new(HostWrites::new(windows)));
        ForgeWriteBudget::of(host, namespace)
    }
}

impl ForgeWriteBudget {
    /// Of a host to which nobody else writes.
    pub fn new(windows: &WriteWindows) -> Self {
        Self::of(&Arc::new(HostWrites::new(windows)), "")
    }

    fn of(host: &Arc<HostWrites>, namespace: &str) -> Self {
        let namespace: Arc<str> = namespace.into();
        let mut counted = host.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.namespaces.retain(|one| one.strong_count() > 0);
        counted.namespaces.push(Arc::downgrade(&namespace));
        Self { host: Arc::clone(host), namespace }
    }

    /// Takes one write.
    ///
    /// # Errors
    /// When there is none left: the moment from which there may be one again.
    pub fn try_take(&self, now: Instant) -> Result<(), Instant> {
        let mut counted = self.host.counted.lock().unwrap_or_else(PoisonError::into_inner);
        self.host.forget_old(&mut counted, now);
        let full =
            self.host.windows.iter().filter_map(|window| counted.full_until(&self.namespace, *window, now)).max();
        if let Some(free) = full {
            return Err(free);
        }
        counted.taken.push_back((now, Arc::clone(&self.namespace)));
        Ok(())
    }

    /// Waits for one write and takes it.
    pub async fn take(&self) {
        while let Err(free) = self.try_take(Instant::now()) {
            tokio::time::sleep_until(free).await;
        }
    }
}

impl HostWrites {
    fn new(windows: &WriteWindows) -> Self {
        Self { windows: windows.to_vec(), counted: Mutex::default() }
    }

    fn forget_old(&self, counted: &mut CountedWrites, now: Instant) {
        let longest = self.windows.iter().map(|(_, window)| *window).max().unwrap_or_default();
        while counted.taken.front().is_some_and(|(first, _)| now.duration_since(*first) >= longest) {
            counted.taken.pop_front();
        }
    }

    /// Whether something was written that still counts.
    fn is_counting(&self, now: Instant) -> bool {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        self.forget_old(&mut counted, now);
        !counted.taken.is_empty()
    }
}

impl CountedWrites {
    /// From when on there may be a write for a namespace again; `None` where there is one now. Half of a window is for who
    /// comes first. Of the other half nobody has more than a small part, so that who writes little is not behind who writes
    /// without end.
    fn full_until(&self, namespace: &str, (most, window): (usize, Duration), now: Instant) -> Option<Instant> {
        let mut recent = self.taken.iter().skip_while(|(at, _)| now.duration_since(*at) >= window);
        let mut each: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, whose) in recent.clone() {
            *each.entry(whose).or_default() += 1;
        }
        let own_part = (most / OWN_PART).max(1);
        let is_beyond = each.get(namespace).is_some_and(|taken| *taken >= own_part) && self.has_others(namespace);
        let beyond: usize = each.values().map(|taken| taken.saturating_sub(own_part)).sum();
        let is_full = each.values().sum::<usize>() >= most.max(1) || is_beyond && beyond >= most.div_ceil(2);
        is_full.then(|| recent.next().map_or(now, |(oldest, _)| *oldest) + window)
    }

    fn has_others(&self, namespace: &str) -> bool {
        self.namespaces.iter().filter_map(Weak::upgrade).any(|one| *one != *namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3_600);

    #[tokio::test(start_paused = true)]
    async fn no_minute_and_no_hour_has_more_than_its_writes() {
        let budget = ForgeWriteBudget::new(&[(3, MINUTE), (5, HOUR)]);
        let start = Instant::now();
        let mut at = Vec::new();
        for _ in 0..7 {
            budget.take().await;
            at.push(start.elapsed().as_secs());
        }
        assert_eq!(at, [0, 0, 0, 60, 60, 3_600, 3_600]);
    }

    fn take_all(budget: &ForgeWriteBudget) -> usize {
        (0..1_000).take_while(|_| budget.try_take(Instant::now()).is_ok()).count()
    }

    /// A tenant who pushed without end took all writes of an hour, and the commits of the others had no status.
    #[tokio::test(start_paused = true)]
    async fn who_writes_without_end_leaves_something_to_everybody_else() {
        const WINDOWS: &WriteWindows = &[(32, HOUR)];
        let budgets = ForgeWriteBudgets::default();
        let of = |namespace: &str| budgets.budget("git.example.com", WINDOWS, namespace);
        let (greedy, second, modest) = (of("greedy"), of("greedy"), of("modest"));
        assert_eq!(take_all(&greedy) + take_all(&second), 18, "one half, and what is its own of the other");
        assert_eq!(take_all(&modest), 2, "what is its own");
        assert_eq!(
            (0..12).map(|number| take_all(&of(&format!("one of {number}")))).sum::<usize>(),
            12,
            "no more in all"
        );
        assert_eq!(take_all(&budgets.budget("other.example.com", WINDOWS, "greedy")), 32, "where nobody else writes");
        tokio::time::advance(HOUR).await;
        drop(modest);
        assert_eq!(take_all(&greedy), 32, "the others have left");
    }
}

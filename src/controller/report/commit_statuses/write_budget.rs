//! How many calls that write a git host is asked to take: one budget for all that speak to it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Writes to one git host, counted over the last minute and the last hour.
///
/// GitHub lets 80 requests a minute and 500 an hour make content and says so in no header; who goes on is banned
/// ("secondary rate limits" in its REST documentation). Other hosts take more, and none is asked for more.
#[derive(Debug)]
pub struct ForgeWriteBudget {
    minute: usize,
    hour: usize,
    taken: Mutex<VecDeque<Instant>>,
}

impl Default for ForgeWriteBudget {
    fn default() -> Self {
        Self::new(60, 450)
    }
}

impl ForgeWriteBudget {
    /// At most so many writes in any minute, and in any hour.
    pub fn new(minute: usize, hour: usize) -> Self {
        Self { minute: minute.max(1), hour: hour.max(1), taken: Mutex::new(VecDeque::new()) }
    }

    /// Takes one write.
    ///
    /// # Errors
    /// When there is none left: the moment at which there is one again.
    pub fn try_take(&self, now: Instant) -> Result<(), Instant> {
        const MINUTE: Duration = Duration::from_secs(60);
        const HOUR: Duration = Duration::from_secs(3_600);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while taken.front().is_some_and(|first| now.duration_since(*first) >= HOUR) {
            taken.pop_front();
        }
        let full = |most: usize, window: Duration| {
            let oldest = taken.len().checked_sub(most).and_then(|at| taken.get(at))?;
            (now.duration_since(*oldest) < window).then(|| *oldest + window)
        };
        match full(self.minute, MINUTE).max(full(self.hour, HOUR)) {
            Some(free) => Err(free),
            None => {
                taken.push_back(now);
                Ok(())
            }
        }
    }

    /// Waits for one write and takes it.
    pub async fn take(&self) {
        while let Err(free) = self.try_take(Instant::now()) {
            tokio::time::sleep_until(free).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_minute_and_no_hour_has_more_than_its_writes() {
        let budget = ForgeWriteBudget::new(3, 5);
        let start = Instant::now();
        let mut at = Vec::new();
        for _ in 0..7 {
            budget.take().await;
            at.push(start.elapsed().as_secs());
        }
        assert_eq!(at, [0, 0, 0, 60, 60, 3_600, 3_600]);
    }
}

//! Processor time, which other work on the machine disturbs less than the clock.

use std::error::Error;

/// Processor time in seconds, of user and system, of every process that this one waited for (`proc_pid_stat(5)`).
pub(crate) fn processor_seconds_of_children() -> Result<f64, Box<dyn Error + Send + Sync>> {
    /// Linux counts a hundred ticks a second for user space, whatever it does inside.
    const TICKS: f64 = 100.0;
    let stat = fs_err::read_to_string("/proc/self/stat")?;
    // The program's name comes second and may hold spaces; `cutime` and `cstime` are fields 16 and 17.
    let after_name = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?.1;
    let mut ticks = after_name.split_whitespace().skip(13).take(2).map(str::parse::<f64>);
    let (user, system) = (ticks.next().ok_or("no cutime")??, ticks.next().ok_or("no cstime")??);
    Ok((user + system) / TICKS)
}

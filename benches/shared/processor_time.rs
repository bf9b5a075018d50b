//! Processor time, which other work on the machine disturbs less than the clock.
#![allow(dead_code, reason = "shared by benches, of which none uses all")]

use std::collections::BTreeMap;
use std::error::Error;

/// Linux counts a hundred ticks a second for user space, whatever it does inside.
const TICKS: f64 = 100.0;

/// Processor time in seconds, of user and system, of every process that this one waited for (`proc_pid_stat(5)`).
pub(crate) fn processor_seconds_of_children() -> Result<f64, Box<dyn Error + Send + Sync>> {
    let stat = fs_err::read_to_string("/proc/self/stat")?;
    // The program's name comes second and may hold spaces; `cutime` and `cstime` are fields 16 and 17.
    let after_name = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?.1;
    let mut ticks = after_name.split_whitespace().skip(13).take(2).map(str::parse::<f64>);
    let (user, system) = (ticks.next().ok_or("no cutime")??, ticks.next().ok_or("no cstime")??);
    Ok((user + system) / TICKS)
}

/// The programs of a bench.
const PROGRAMS: [&str; 7] = ["etcd", "gitea", "git", "kube-apiserver", "kube-controller-manager", "stator", "steady"];

/// Processor time in seconds of what runs on this machine, by program: the whole of it, so that it is seen when others disturb
/// a measurement.
pub(crate) struct ProcessorTimes(BTreeMap<String, f64>);

impl ProcessorTimes {
    pub(crate) fn now() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut times = BTreeMap::new();
        for entry in fs_err::read_dir("/proc")? {
            let path = entry?.path();
            // Not all of them are processes, and some end meanwhile.
            let Ok(stat) = fs_err::read_to_string(path.join("stat")) else { continue };
            let Ok(line) = fs_err::read_to_string(path.join("cmdline")) else { continue };
            let Some((_, after_name)) = stat.rsplit_once(')') else { continue };
            let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|text| text.parse::<f64>().ok());
            *times.entry(program(&line)).or_default() += ticks.sum::<f64>() / TICKS;
        }
        Ok(Self(times))
    }

    /// What came since, of the programs that took something, most first.
    pub(crate) fn since(&self, before: &Self) -> String {
        let new = self.0.iter().map(|(name, time)| (name, time - before.0.get(name).copied().unwrap_or_default()));
        let mut new: Vec<_> = new.filter(|(_, time)| *time >= 0.05).collect();
        new.sort_by(|a, b| b.1.total_cmp(&a.1));
        new.iter().map(|(name, time)| format!("{name} {time:.1} s")).collect::<Vec<_>>().join(", ")
    }
}

/// What a program is called: the one that is the whole control plane by its first argument.
fn program(command_line: &str) -> String {
    let mut words = command_line.split('\0');
    let file = words.next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    match words.next() {
        Some(part @ ("etcd" | "kube-apiserver" | "kube-controller-manager")) => part.to_owned(),
        // Builds of tests and benches end with a number of their own.
        _ => {
            let name = file.split('-').next().unwrap_or_default();
            if PROGRAMS.contains(&name) { name } else { "others" }.to_owned()
        }
    }
}

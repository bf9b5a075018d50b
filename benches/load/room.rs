//! As much memory as the chart gives a controller, held by a cgroup of either version.

use super::Fallible;
use serde_json::Value;
use stator_core::object::Quantity;
use std::path::{Path, PathBuf};

/// A cgroup, for as long as it is not dropped.
pub(crate) struct Room {
    folder: PathBuf,
    version: CgroupVersion,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CgroupVersion {
    One,
    Two,
}

impl Drop for Room {
    fn drop(&mut self) {
        // Its processes have ended by then, or it stays: it is empty.
        let _ = fs_err::remove_dir(&self.folder);
    }
}

impl Room {
    /// With the limit that the chart's values have.
    pub(crate) fn of_the_chart() -> Fallible<Self> {
        let values = fs_err::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/helm/stator/values.yaml"))?;
        let values: Value = serde_saphyr::from_str(&values)?;
        let limit = values.pointer("/controller/resources/limits/memory").and_then(Value::as_str);
        let limit = limit.and_then(Quantity::parse).ok_or("the chart's values have no limit of memory")?;
        Self::new(limit.to_integer().ok_or("the chart's limit of memory is too large")?.try_into()?)
    }

    fn new(bytes: u64) -> Fallible<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let controllers = fs_err::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let (version, parent) = if controllers.split_whitespace().any(|name| name == "memory") {
            (CgroupVersion::Two, root.to_owned())
        } else {
            (CgroupVersion::One, root.join("memory"))
        };
        let folder = parent.join(format!("stator-load-{}", std::process::id()));
        fs_err::create_dir(&folder)?;
        let room = Self { folder, version, bytes };
        let limit = if version == CgroupVersion::Two { "memory.max" } else { "memory.limit_in_bytes" };
        fs_err::write(room.folder.join(limit), bytes.to_string())?;
        Ok(room)
    }

    /// Has a process, and what it starts, live in it.
    pub(crate) fn admit(&self, process: u32) -> Fallible<()> {
        Ok(fs_err::write(self.folder.join("cgroup.procs"), process.to_string())?)
    }

    /// How much it holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The most that it held, in bytes.
    pub(crate) fn peak(&self) -> Fallible<u64> {
        let file = if self.version == CgroupVersion::Two { "memory.peak" } else { "memory.max_usage_in_bytes" };
        Ok(fs_err::read_to_string(self.folder.join(file))?.trim().parse()?)
    }

    /// How often the kernel killed something in it.
    pub(crate) fn kills(&self) -> Fallible<u64> {
        let file = if self.version == CgroupVersion::Two { "memory.events" } else { "memory.oom_control" };
        let text = fs_err::read_to_string(self.folder.join(file))?;
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        Ok(line.ok_or("the kernel does not count kills")?.trim().parse()?)
    }
}

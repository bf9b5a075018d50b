//! One replica of the controller, with clocks and a disk of its own.

use super::clock::TestClock;
use super::site::Hands;
use crate::controller::process::Process;
use crate::testbed;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// As much as a disk holds, in MiB: a hundred times what the mirrors take.
const DISK_MIB: usize = 64;

/// A replica.
pub struct Controller {
    pub process: Process,
    pub clock: TestClock,
    number: usize,
    disk: Disk,
    flags: &'static [&'static str],
}

impl Controller {
    /// Starts one that reaches the API server by this kubeconfig, with further flags.
    pub fn start(hands: &Hands, kubeconfig: &Path, number: usize, flags: &'static [&'static str]) -> Self {
        let clock = TestClock::new(hands.folder.path().join(format!("clock-{number}")));
        let disk = Disk::mount(hands.folder.path().join(format!("data-{number}")));
        let process = start_process(hands, kubeconfig, number, &clock, &disk, flags);
        Self { process, clock, number, disk, flags }
    }

    /// Starts it again after it was killed: as another one, which finds the disk as it was left.
    pub fn restart(&mut self, hands: &Hands, kubeconfig: &Path) {
        self.number += 2;
        self.process = start_process(hands, kubeconfig, self.number, &self.clock, &self.disk, self.flags);
    }

    /// Fills its disk to the last byte, or frees it again.
    pub fn fill_disk(&self, is_full: bool) {
        let ballast = self.disk.folder.join("ballast");
        if !is_full {
            fs_err::remove_file(ballast).unwrap();
        } else if self.disk.is_mounted {
            // This ends in an error: there is no more space.
            let _ = fs_err::write(ballast, vec![0; (DISK_MIB + 1) << 20]);
        } else {
            fs_err::write(ballast, "a disk of the machine's is not filled").unwrap();
        }
    }

    /// Overwrites every pack of its mirrors. Gives how many.
    pub fn damage_mirrors(&self) -> usize {
        let (mut folders, mut damaged) = (vec![self.disk.folder.clone()], 0);
        while let Some(folder) = folders.pop() {
            // What the controller removes meanwhile is not damaged.
            for path in fs_err::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "pack") {
                    damaged += usize::from(overwrite(&path).is_ok());
                }
            }
        }
        damaged
    }
}

/// In its place, so that a process that has it open sees it too.
fn overwrite(path: &Path) -> std::io::Result<()> {
    let known = fs_err::metadata(path)?;
    fs_err::set_permissions(path, Permissions::from_mode(0o600))?;
    let mut file = fs_err::OpenOptions::new().write(true).open(path)?;
    file.write_all(&vec![0xa5; known.len().try_into().unwrap()])
}

fn start_process(
    hands: &Hands,
    kubeconfig: &Path,
    number: usize,
    clock: &TestClock,
    disk: &Disk,
    flags: &[&str],
) -> Process {
    let mut command = hands.bench.command();
    command.current_dir(hands.folder.path()).arg("controller").arg("--kubeconfig").arg(kubeconfig);
    command.args(["--context", "admin", "--listen", "127.0.0.1:0", "--shards", "4"]);
    command.args(["--allow-insecure", "--allow-local-addresses"]);
    command.args(["--lease-namespace", "chaos-system", "--identity", &format!("replica-{number}")]).args(flags);
    clock.lead(&mut command);
    Process::start("a controller", command.arg("--data").arg(&disk.folder))
}

/// A disk of its own, where this process may mount one; else a folder.
struct Disk {
    folder: PathBuf,
    is_mounted: bool,
}

impl Disk {
    fn mount(folder: PathBuf) -> Self {
        fs_err::create_dir_all(&folder).unwrap();
        let size = format!("size={DISK_MIB}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&folder).output();
        let is_mounted = mounted.is_ok_and(|done| done.status.success());
        assert!(is_mounted || !testbed::required(), "a disk that can be filled needs the right to mount one");
        Self { folder, is_mounted }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = Command::new("umount").arg("--lazy").arg(&self.folder).status();
        }
    }
}

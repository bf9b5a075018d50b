//! The clocks of a process, as a test sets them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// How many seconds a process' clocks are ahead.
pub struct TestClock {
    file: PathBuf,
    wall: i64,
    monotonic: i64,
}

impl TestClock {
    /// Clocks that go right, kept in this file.
    pub fn new(file: PathBuf) -> Self {
        let clock = Self { file, wall: 0, monotonic: 0 };
        clock.write();
        clock
    }

    /// Has a process go by these clocks.
    pub fn lead(&self, command: &mut Command) {
        command.env("LD_PRELOAD", library()).env("STATOR_TEST_CLOCK", &self.file);
    }

    /// Sets the wall clock alone, as a time server does.
    pub fn step(&mut self, seconds: i64) {
        self.wall += seconds;
        self.write();
    }

    /// Lets time pass.
    pub fn pass(&mut self, seconds: i64) {
        self.monotonic += seconds;
        self.step(seconds);
    }

    fn write(&self) {
        // In place: the process has the file mapped.
        use std::io::Write as _;
        let mut file = fs_err::OpenOptions::new().create(true).truncate(false).write(true).open(&self.file).unwrap();
        file.write_all(&[self.wall.to_ne_bytes(), self.monotonic.to_ne_bytes()].concat()).unwrap();
    }
}

/// The library that the C compiler makes of `clock.c`.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, library) = LIBRARY.get_or_init(|| {
        let folder = tempfile::Builder::new().prefix("stator-clock-").tempdir().unwrap();
        let library = folder.path().join("clock.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/clock/clock.c");
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
        assert!(compiled.unwrap().success(), "a C compiler, which the build of stator needs as well");
        (folder, library)
    });
    library
}

//! One program for all targets: `STATOR_FUZZ_TARGET` names one of them, and libFuzzer reads the rest of the command line.
//! `seeds FOLDER` writes what the repository's own test data has for the target.
#![no_main]

mod seeds;
mod targets;

use std::sync::LazyLock;
use targets::FuzzTarget;

static TARGET: LazyLock<FuzzTarget> = LazyLock::new(|| {
    let name = std::env::var("STATOR_FUZZ_TARGET").unwrap_or_default();
    FuzzTarget::of_name(&name).unwrap_or_else(|| panic!("STATOR_FUZZ_TARGET is one of {}", FuzzTarget::names()))
});

libfuzzer_sys::fuzz_target!(
    init: {
        if let Ok(folder) = std::env::var("STATOR_FUZZ_SEEDS") {
            seeds::write(*TARGET, std::path::Path::new(&folder));
            std::process::exit(0);
        }
    },
    |bytes: &[u8]| TARGET.run(bytes)
);

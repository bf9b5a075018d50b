//! Bad usage, help and version.

use crate::workbench::Workbench;

#[test]
fn the_version_is_the_crates() {
    let output = Workbench::empty().run(["--version"]).success();
    assert_eq!(output.stdout, format!("stator {}\n", env!("CARGO_PKG_VERSION")));
}

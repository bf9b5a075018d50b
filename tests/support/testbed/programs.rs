//! Where the programs of a control plane come from.

use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The programs of a control plane.
#[derive(Clone, Debug)]
pub enum Programs {
    /// One program that is all three, chosen by its first argument; built from `tests/testbed/control-plane`.
    Built(PathBuf),
    /// A folder with a program each, as `setup-envtest` fills one.
    Assets {
        /// `KUBEBUILDER_ASSETS`.
        folder: PathBuf,
        /// Whether `kube-controller-manager` is among them: without it nothing is garbage collected.
        manager: bool,
    },
}

impl Programs {
    /// `KUBEBUILDER_ASSETS`, or what Go builds, once for each state of the module: an error says what is missing.
    pub fn find() -> Result<Self, String> {
        match std::env::var_os("KUBEBUILDER_ASSETS") {
            Some(folder) if !folder.is_empty() => Self::assets(Path::new(&folder)),
            _ => build().map(Self::Built),
        }
    }

    fn assets(folder: &Path) -> Result<Self, String> {
        for name in ["etcd", "kube-apiserver"] {
            if !folder.join(name).is_file() {
                return Err(format!("KUBEBUILDER_ASSETS is {}, where no {name} is", folder.display()));
            }
        }
        let manager = folder.join("kube-controller-manager").is_file();
        // The supervisor runs in a folder of its own.
        let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self::Assets { folder, manager })
    }

    /// Whether the controller manager is there.
    pub fn has_manager(&self) -> bool {
        match self {
            Self::Built(_) => true,
            Self::Assets { manager, .. } => *manager,
        }
    }
}

/// Builds the control plane into the target folder, unless it is there. Test processes that come meanwhile wait.
fn build() -> Result<PathBuf, String> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testbed/control-plane");
    let mut digest = Sha256::new();
    for file in ["main.go", "go.mod", "go.sum"] {
        digest.update(fs_err::read(module.join(file)).map_err(text)?);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("testbed");
    fs_err::create_dir_all(&folder).map_err(text)?;
    let name = format!("control-plane-{}", &hex::encode(digest.finalize())[..16]);
    let binary = folder.join(&name);
    if binary.is_file() {
        return Ok(binary);
    }
    let go = Command::new("go").arg("version").output();
    if !go.is_ok_and(|output| output.status.success()) {
        return Err("there is no Go to build the API server with (tests/testbed/control-plane), and \
                    KUBEBUILDER_ASSETS names no folder with one"
            .to_owned());
    }
    let lock = fs_err::File::create(folder.join("lock")).map_err(text)?;
    lock.file().lock().map_err(text)?;
    if binary.is_file() {
        return Ok(binary);
    }
    super::say("building etcd and Kubernetes' API server for the tests, once; this takes minutes");
    for old in fs_err::read_dir(&folder).map_err(text)?.flatten() {
        if old.file_name().to_string_lossy().starts_with("control-plane-") {
            fs_err::remove_file(old.path()).map_err(text)?;
        }
    }
    let partial = folder.join("control-plane.partial");
    let output = Command::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o"])
        .arg(&partial)
        .arg(".")
        .current_dir(&module)
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .output()
        .map_err(text)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("go build of tests/testbed/control-plane failed:\n{}", super::tail(&said, 40)));
    }
    fs_err::rename(&partial, &binary).map_err(text)?;
    Ok(binary)
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}

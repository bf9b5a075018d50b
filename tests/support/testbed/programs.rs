//! Where the programs of a control plane come from.

use super::GoModule;
use std::path::{Path, PathBuf};

/// The module that is built into one program.
const MODULE: GoModule =
    GoModule { name: "control-plane", package: ".", what: "Kubernetes' API server and its etcd", tags: "" };

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
            _ => MODULE
                .build()
                .map(Self::Built)
                .map_err(|error| format!("{error}, and KUBEBUILDER_ASSETS names no folder with one")),
        }
    }

    /// A folder with a program each: an error says which is missing.
    pub fn assets(folder: &Path) -> Result<Self, String> {
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

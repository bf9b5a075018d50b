//! The style and the script, each at an address that changes with its content.

use sha2::{Digest as _, Sha256};
use std::sync::LazyLock;

/// A file that pages need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageAsset {
    /// Its path, which names its content.
    pub path: String,
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub text: &'static str,
}

/// How everything looks.
pub static STYLE: LazyLock<PageAsset> =
    LazyLock::new(|| asset("style", "css", "text/css; charset=utf-8", include_str!("../../assets/style.css")));

/// What keeps pages live.
pub static SCRIPT: LazyLock<PageAsset> =
    LazyLock::new(|| asset("live", "js", "text/javascript; charset=utf-8", include_str!("../../assets/live.js")));

/// What keeps the form live.
pub static FORM_SCRIPT: LazyLock<PageAsset> =
    LazyLock::new(|| asset("form", "js", "text/javascript; charset=utf-8", include_str!("../../assets/form.js")));

/// All of them.
pub static ASSETS: [&LazyLock<PageAsset>; 3] = [&STYLE, &SCRIPT, &FORM_SCRIPT];

/// The file at a path.
pub fn find_asset(path: &str) -> Option<&'static PageAsset> {
    ASSETS.iter().map(|asset| LazyLock::force(asset)).find(|asset| asset.path == path)
}

fn asset(name: &str, extension: &str, media_type: &'static str, text: &'static str) -> PageAsset {
    let digest: String = hex::encode(Sha256::digest(text)).chars().take(16).collect();
    PageAsset { path: format!("/assets/{name}-{digest}.{extension}"), media_type, text }
}

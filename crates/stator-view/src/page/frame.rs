//! What stands around every page.
//! The style and the script are each at an address that changes with its content.

use super::text::{ProseText, TimeText};
use crate::observation::FleetObservation;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};
use std::sync::LazyLock;

/// The pages that every other one leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageSection {
    Models,
    Sources,
    Changes,
    Previews,
    Capacity,
    New,
    Api,
}

const SECTIONS: [(PageSection, &str, &str); 7] = [
    (PageSection::Models, "/", "Models"),
    (PageSection::Sources, "/sources", "Sources"),
    (PageSection::Changes, "/changes", "Changes"),
    (PageSection::Previews, "/previews", "Previews"),
    (PageSection::Capacity, "/capacity", "Capacity"),
    (PageSection::New, "/new", "New model"),
    (PageSection::Api, "/api", "API"),
];

/// Whoever looks does so every half a minute at least; what is older is reported.
const LATE_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// What stands around a page.
pub(super) struct PageFrame {
    pub(super) title: String,
    pub(super) links: Vec<FrameLink>,
    pub(super) search: String,
    /// When what is shown was last found to be so; `None` on pages that show nothing of the cluster.
    pub(super) seen: Option<TimeText>,
    pub(super) notices: Vec<ProseText>,
    pub(super) is_live: bool,
    /// Who signed in.
    pub(super) reader: Option<String>,
    pub(super) style: &'static str,
    /// Theme, keys and ages, on every page.
    pub(super) frame_script: &'static str,
    /// What keeps a page live.
    pub(super) script: &'static str,
}

pub(super) struct FrameLink {
    pub(super) href: &'static str,
    pub(super) text: &'static str,
    pub(super) is_here: bool,
}

impl PageFrame {
    /// Around what does not change.
    pub(super) fn fixed(title: impl Into<String>, here: Option<PageSection>) -> Self {
        let links = SECTIONS.map(|(section, href, text)| FrameLink { href, text, is_here: here == Some(section) });
        Self {
            title: title.into(),
            links: links.into(),
            search: String::new(),
            seen: None,
            notices: Vec::new(),
            is_live: false,
            reader: None,
            style: &STYLE.path,
            frame_script: &FRAME_SCRIPT.path,
            script: &SCRIPT.path,
        }
    }

    /// Around what was seen.
    pub(super) fn live(
        title: impl Into<String>,
        here: PageSection,
        observation: &FleetObservation,
        now: Timestamp,
    ) -> Self {
        let seen = TimeText::ago(&observation.as_of.to_string(), now);
        let is_late = now.duration_since(observation.as_of) > LATE_AFTER;
        let late = is_late.then(|| format!("Last updated {} ago.", seen.text));
        Self {
            seen: Some(seen),
            notices: late.into_iter().chain(observation.notices()).map(|one| ProseText::new(&one)).collect(),
            is_live: true,
            reader: observation.reader.name.clone(),
            ..Self::fixed(title, Some(here))
        }
    }
}

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

/// Theme, keys, ages and copies of every page.
pub static FRAME_SCRIPT: LazyLock<PageAsset> =
    LazyLock::new(|| asset("frame", "js", "text/javascript; charset=utf-8", include_str!("../../assets/frame.js")));

/// What keeps the form live.
pub static FORM_SCRIPT: LazyLock<PageAsset> =
    LazyLock::new(|| asset("form", "js", "text/javascript; charset=utf-8", include_str!("../../assets/form.js")));

/// What shows lines of a log as they are written.
pub static LOG_SCRIPT: LazyLock<PageAsset> =
    LazyLock::new(|| asset("log", "js", "text/javascript; charset=utf-8", include_str!("../../assets/log.js")));

/// All of them.
pub static ASSETS: [&LazyLock<PageAsset>; 5] = [&STYLE, &FRAME_SCRIPT, &SCRIPT, &FORM_SCRIPT, &LOG_SCRIPT];

/// The file at a path.
pub fn find_asset(path: &str) -> Option<&'static PageAsset> {
    ASSETS.iter().map(|asset| LazyLock::force(asset)).find(|asset| asset.path == path)
}

fn asset(name: &str, extension: &str, media_type: &'static str, text: &'static str) -> PageAsset {
    let digest: String = hex::encode(Sha256::digest(text)).chars().take(16).collect();
    PageAsset { path: format!("/assets/{name}-{digest}.{extension}"), media_type, text }
}

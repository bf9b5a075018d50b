//! What stands around every page.

use super::assets::{SCRIPT, STYLE};
use super::text::TimeText;
use crate::observation::FleetObservation;
use jiff::{SignedDuration, Timestamp};

/// The pages that every other one leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageSection {
    Models,
    Sources,
    Capacity,
    New,
    Api,
}

const SECTIONS: [(PageSection, &str, &str); 5] = [
    (PageSection::Models, "/", "Models"),
    (PageSection::Sources, "/sources", "Sources"),
    (PageSection::Capacity, "/capacity", "Capacity"),
    (PageSection::New, "/new", "New model"),
    (PageSection::Api, "/api", "API"),
];

/// Whoever looks does so every half a minute at least; what is older is told.
const LATE_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// What stands around a page.
pub(super) struct PageFrame {
    pub(super) title: String,
    pub(super) links: Vec<FrameLink>,
    pub(super) search: String,
    /// When what is shown was last found to be so; `None` on pages that show nothing of the cluster.
    pub(super) seen: Option<TimeText>,
    pub(super) notices: Vec<String>,
    pub(super) is_live: bool,
    /// Who signed in.
    pub(super) reader: Option<String>,
    pub(super) style: &'static str,
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
            notices: late.into_iter().chain(observation.notices()).collect(),
            is_live: true,
            reader: observation.reader.name.clone(),
            ..Self::fixed(title, Some(here))
        }
    }
}

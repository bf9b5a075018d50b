//! Where a page of a list begins: a place between rows, so that rows that come and go neither repeat nor hide others.

use super::order::RowPlace;
use crate::problem::{ProblemDetails, ProblemKind, RequestFault};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// A place in a list, and the list that it is a place of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageCursor {
    /// The digest of filters and order.
    pub(super) list: String,
    /// The row that the page begins behind, or ends before.
    pub(super) place: RowPlace,
    /// Whether the page ends before the place.
    pub(super) is_backward: bool,
}

impl PageCursor {
    pub(super) fn to_text(&self) -> String {
        // A struct of strings and numbers always has a JSON form.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads what [`Self::to_text`] wrote for the list of that digest.
    pub(super) fn parse(text: &str, list: &str) -> Result<Self, ProblemDetails> {
        let cursor = URL_SAFE_NO_PAD.decode(text).ok().and_then(|json| serde_json::from_slice::<Self>(&json).ok());
        match cursor {
            Some(cursor) if cursor.list == list => Ok(cursor),
            Some(_) => Err(ProblemDetails::new(ProblemKind::Expired)),
            None => Err(ProblemDetails::of_parameters(vec![RequestFault {
                pointer: "#/query/continue".to_owned(),
                detail: "`continue` is not a place in a list".to_owned(),
                help: Some("use the value of `metadata.continue` of the page before, or omit it".to_owned()),
                ..RequestFault::default()
            }])),
        }
    }
}

//! What nobody can guess, and where browsers keep it.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand;
use http::{HeaderMap, header};

/// Bytes of tokens: as many as keep anybody from guessing.
const TOKEN_BYTES: usize = 32;

/// Whether two texts are the same, told in a time that says nothing about them.
pub(super) fn is_equal(one: &str, other: &str) -> bool {
    verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

/// A text that nobody can guess. `None` where the system has no random numbers.
pub(super) fn random_token() -> Option<String> {
    let mut bytes = [0; TOKEN_BYTES];
    rand::fill(&mut bytes).ok()?;
    Some(hex::encode(bytes))
}

/// Every value that a request has for a cookie: a browser may send several, of several paths.
pub(super) fn cookie_values<'a>(headers: &'a HeaderMap, cookie: &'a str) -> impl Iterator<Item = &'a str> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let values = pairs.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    values.filter(move |(name, _)| *name == cookie).map(|(_, value)| value)
}

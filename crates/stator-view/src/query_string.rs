//! Query strings: reading and writing them, and paths of names that anybody may have chosen.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What stands for itself in a path or a query (RFC 3986, unreserved).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text as one segment of a path, or one value of a query.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// A segment of a path as text; what is no UTF-8 gives characters that no name has.
pub(crate) fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The parameters of a query, in its order. Empty ones are left out, as forms send fields that nobody filled in.
pub(crate) fn parse(query: &str) -> impl Iterator<Item = (String, String)> {
    query.split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")));
        (!name.is_empty() && !value.is_empty()).then_some((name, value))
    })
}

/// The pairs of a form that was sent, empty ones included.
pub(crate) fn parse_form(body: &str) -> impl Iterator<Item = (String, String)> {
    body.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
    })
}

/// A query with its `?`; empty without parameters.
pub(crate) fn format<'a>(parameters: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let pairs: Vec<String> =
        parameters.into_iter().map(|(name, value)| format!("{}={}", encode(name), encode(&value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn forms_and_links_are_read_alike() {
        let read: Vec<_> = parse("q=two+words&health=Failed&health=%44egraded&empty=&=x&").collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read, [pair("q", "two words"), pair("health", "Failed"), pair("health", "Degraded")]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(name in "[a-z]{1,8}", value in any::<String>()) {
            let query = format([(name.as_str(), value.clone())]);
            let read: Vec<_> = parse(query.trim_start_matches('?')).collect();
            let wanted: Vec<_> = if value.is_empty() { Vec::new() } else { vec![(name, value.clone())] };
            prop_assert_eq!(read, wanted);
            prop_assert_eq!(decode(&encode(&value)), value);
        }
    }
}

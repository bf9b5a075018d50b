//! Reading a list of a host to its end: one loop for all hosts, which differ only in how they name the next page.

use super::api::ForgeError;
use super::client::ForgeRequest;
use super::response::ForgeResponse;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most items of one list that are read: pull requests, comments, statuses. Nobody has as many, and a host that goes
/// on listing for ever must not fill the memory.
const MAX_LISTED: usize = 10_000;
/// The most pages of one list: [`MAX_LISTED`] items of a server that is set to give ten at a time.
const MAX_PAGES: usize = 1_000;
/// The most bytes of one list, over all of its pages. Two thousand pull requests as GitHub describes them are most of it.
const MAX_LISTED_BYTES: usize = 64 << 20;
/// The most bytes of all lists that are being read. A host that goes on for ever is one source's, and the memory is all's.
const MAX_LISTED_BYTES_IN_ALL: usize = 128 << 20;
/// Bytes of all lists that are being read.
static LISTED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// What one list has of [`LISTED_BYTES`]; given back when dropped.
struct ListedBytes<'a> {
    all: &'a AtomicUsize,
    own: usize,
}

impl ListedBytes<'_> {
    /// Takes in a page; the limit that it exceeds, where it does.
    fn add(&mut self, bytes: usize) -> Result<(), usize> {
        self.own = self.own.saturating_add(bytes);
        let all = self.all.fetch_add(bytes, Ordering::AcqRel).saturating_add(bytes);
        if self.own > MAX_LISTED_BYTES {
            return Err(MAX_LISTED_BYTES);
        }
        if all > MAX_LISTED_BYTES_IN_ALL { Err(MAX_LISTED_BYTES_IN_ALL) } else { Ok(()) }
    }
}

impl Drop for ListedBytes<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Ordering::AcqRel);
    }
}

/// How a host cuts a list into pages.
#[derive(Clone, Copy)]
pub(super) struct PageStyle {
    /// The query parameter for the length of a page, and the length to ask for.
    pub size: (&'static str, usize),
    /// How the next page is found.
    pub next: NextPage,
}

impl PageStyle {
    /// A list that comes at once.
    pub const UNPAGED: Self = Self { size: ("", 0), next: NextPage::Never };
}

/// How the page after this one is found, and how the last one is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NextPage {
    /// There is none: the whole list comes at once.
    Never,
    /// `page=2`, until a page is not full: GitHub.
    Numbered,
    /// `page=2`, until the header `X-Next-Page` is empty; where a proxy took it away, until a page is not full: GitLab.
    NumberedWithHeader,
    /// `page=2`, until a page is empty, as a server may be set to give fewer than asked for. Old servers give the same
    /// page for ever, which ends the list as well: Gitea.
    NumberedToEmpty,
    /// The number of items before it, as this query parameter, until a page is not full: Azure DevOps.
    Skip(&'static str),
    /// As the page says itself; the first is asked for without a position: Bitbucket Cloud.
    Linked,
    /// As the page says itself, from `start=0` on: Bitbucket Data Center.
    Start,
}

/// Where a page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PagePosition {
    /// A query parameter: the number of the page, or of the items before it.
    Query(&'static str, usize),
    /// An address that the page before it gave.
    Link(String),
}

/// A page of a list, as a host sends it: the items alone, or an object with them, which may say where the next page is.
struct ListedPage<T> {
    items: Vec<T>,
    next: Option<PagePosition>,
}

/// A page that is an object. The items are `values` at both Bitbuckets, `value` at Azure DevOps and `statuses` at GitHub and
/// Gitea, which has null in place of no items. `next` is Bitbucket Cloud's, the other two are Data Center's.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "T: DeserializeOwned")]
struct PageObject<T> {
    #[serde(alias = "value", alias = "statuses", deserialize_with = "Option::deserialize")]
    values: Option<Vec<T>>,
    next: Option<String>,
    #[serde(default)]
    is_last_page: bool,
    next_page_start: Option<usize>,
}

impl<T> From<PageObject<T>> for ListedPage<T> {
    fn from(page: PageObject<T>) -> Self {
        let items = page.values.unwrap_or_default();
        let link = page.next.filter(|_| !items.is_empty()).map(PagePosition::Link);
        let start = page.next_page_start.filter(|_| !page.is_last_page);
        Self { items, next: start.map(|start| PagePosition::Query("start", start)).or(link) }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for ListedPage<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PageVisitor(PhantomData))
    }
}

struct PageVisitor<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for PageVisitor<T> {
    type Value = ListedPage<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page of a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        Ok(ListedPage { items: Vec::deserialize(SeqAccessDeserializer::new(items))?, next: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
        PageObject::deserialize(MapAccessDeserializer::new(fields)).map(ListedPage::from)
    }
}

impl NextPage {
    fn first_position(self) -> Option<PagePosition> {
        match self {
            Self::Numbered | Self::NumberedWithHeader | Self::NumberedToEmpty => Some(PagePosition::Query("page", 1)),
            Self::Skip(parameter) => Some(PagePosition::Query(parameter, 0)),
            Self::Never | Self::Linked => None,
            Self::Start => Some(PagePosition::Query("start", 0)),
        }
    }
}

impl PageStyle {
    /// The position of the page after one of `length` items at `current`; `None` after the last. `body` is what the page
    /// says itself, `header` the `X-Next-Page` of its answer.
    fn position_after(
        self,
        current: Option<&PagePosition>,
        length: usize,
        header: Option<&str>,
        body: Option<PagePosition>,
    ) -> Option<PagePosition> {
        let full = length >= self.size.1;
        let (more, step) = match self.next {
            NextPage::Numbered => (full, 1),
            NextPage::NumberedWithHeader => (header.map_or(full, |next| !next.trim().is_empty() && length > 0), 1),
            NextPage::NumberedToEmpty => (length > 0, 1),
            NextPage::Skip(_) => (full, length),
            NextPage::Never => return None,
            NextPage::Linked => return body,
            // A page that leads back would be read for ever.
            NextPage::Start => {
                return body.filter(|next| match (current, next) {
                    (Some(PagePosition::Query(_, now)), PagePosition::Query(_, next)) => next > now,
                    (Some(PagePosition::Link(_)) | None, _) | (_, PagePosition::Link(_)) => true,
                });
            }
        };
        match current {
            Some(PagePosition::Query(parameter, at)) if more => {
                Some(PagePosition::Query(parameter, at.saturating_add(step)))
            }
            Some(PagePosition::Query(..) | PagePosition::Link(_)) | None => None,
        }
    }
}

impl ForgeRequest<'_> {
    /// The same question, without a body, for the page at a position.
    ///
    /// # Errors
    /// As [`ForgeClient::follow`](super::client::ForgeClient::follow).
    fn at_position(&self, position: Option<&PagePosition>) -> Result<ForgeRequest<'_>, ForgeError> {
        let request = match position {
            Some(PagePosition::Link(link)) => self.client.follow(link)?,
            Some(PagePosition::Query(name, value)) => self.client.get_url(self.url.clone()).query(name, value),
            None => self.client.get_url(self.url.clone()),
        };
        Ok(request.resource(self.resource.clone()))
    }

    /// Sends it for every page of a list, and gives what `keep` makes of the items, with the answer of the last page for its
    /// headers. `things` names the items in errors.
    ///
    /// # Errors
    /// As [`ForgeRequest::send`] and [`ForgeResponse::json`], and [`ForgeError::Unreadable`] for a list that is too long
    /// in items, pages or bytes.
    pub async fn pages<I: DeserializeOwned, T>(
        self,
        style: PageStyle,
        things: &str,
        mut keep: impl FnMut(I) -> Option<T>,
    ) -> Result<(Vec<T>, ForgeResponse), ForgeError> {
        let first = if style.next == NextPage::Never { self } else { self.query(style.size.0, style.size.1) };
        let mut position = style.next.first_position();
        let (mut found, mut listed) = (Vec::new(), 0_usize);
        let mut bytes = ListedBytes { all: &LISTED_BYTES, own: 0 };
        let mut previous: Vec<u8> = Vec::new();
        for _ in 0..MAX_PAGES {
            let answer = first.at_position(position.as_ref())?.send().await?;
            if let Err(limit) = bytes.add(answer.body.len()) {
                let whose = if limit == MAX_LISTED_BYTES { "" } else { ", with the lists of other sources," };
                let limit = limit >> 20;
                let reason = format!("its list of {things}{whose} is longer than {limit} MiB");
                return Err(answer.host.unreadable_error(reason));
            }
            if style.next == NextPage::NumberedToEmpty && answer.body == previous {
                return Ok((found, answer));
            }
            let page: ListedPage<I> = answer.json()?;
            let length = page.items.len();
            position = style.position_after(position.as_ref(), length, answer.header("x-next-page"), page.next);
            listed = listed.saturating_add(length);
            found.extend(page.items.into_iter().filter_map(&mut keep));
            if position.is_none() {
                return Ok((found, answer));
            }
            if listed >= MAX_LISTED {
                return Err(answer.host.too_many_error(MAX_LISTED, things));
            }
            previous = answer.body;
        }
        Err(first.client.unreadable_error(format!("it lists {things} on more than {MAX_PAGES} pages")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The positions that are asked for when pages of these lengths come; `None` stands for the bare request.
    fn positions(style: PageStyle, pages: &[(usize, Option<&str>, Option<PagePosition>)]) -> Vec<Option<PagePosition>> {
        let mut asked = vec![style.next.first_position()];
        for (length, header, body) in pages {
            let current = asked.last().and_then(Option::as_ref);
            match style.position_after(current, *length, *header, body.clone()) {
                Some(next) => asked.push(Some(next)),
                None => break,
            }
        }
        asked
    }

    fn query(name: &'static str, values: &[usize]) -> Vec<Option<PagePosition>> {
        values.iter().map(|value| Some(PagePosition::Query(name, *value))).collect()
    }

    /// Row S8 of the review: a list had a hundred pages of 32 MiB, and nothing bounded all lists together.
    #[test]
    fn lists_are_bounded_in_bytes_each_and_together() {
        let all = AtomicUsize::new(0);
        let list = || ListedBytes { all: &all, own: 0 };
        let mut endless = list();
        assert_eq!([endless.add(32 << 20), endless.add(32 << 20)], [Ok(()), Ok(())]);
        assert_eq!(endless.add(1), Err(MAX_LISTED_BYTES));
        let (mut second, mut third) = (list(), list());
        assert_eq!(second.add(60 << 20), Ok(()));
        assert_eq!(third.add(32 << 20), Err(MAX_LISTED_BYTES_IN_ALL));
        drop((endless, third));
        assert_eq!(second.add(1 << 20), Ok(()), "what was refused takes no room");
        drop(second);
        assert_eq!(all.into_inner(), 0);
    }

    #[test]
    fn every_host_has_its_own_way_to_the_next_page() {
        let style = |next| PageStyle { size: ("size", 10), next };
        let plain = |lengths: &[usize]| lengths.iter().map(|length| (*length, None, None)).collect::<Vec<_>>();
        assert_eq!(positions(style(NextPage::Numbered), &plain(&[10, 10, 9, 10])), query("page", &[1, 2, 3]));
        assert_eq!(positions(style(NextPage::NumberedToEmpty), &plain(&[3, 3, 0, 3])), query("page", &[1, 2, 3]));
        assert_eq!(positions(style(NextPage::Skip("skip")), &plain(&[10, 10, 2])), query("skip", &[0, 10, 20]));
        let by_header = style(NextPage::NumberedWithHeader);
        assert_eq!(positions(by_header, &[(5, Some("2"), None), (10, Some(" "), None)]), query("page", &[1, 2]));
        assert_eq!(positions(by_header, &[(0, Some("2"), None)]), query("page", &[1]));
        assert_eq!(positions(by_header, &plain(&[10, 9])), query("page", &[1, 2]));
    }

    #[test]
    fn the_bitbuckets_say_themselves_where_the_next_page_is() {
        let page = |text: &str| {
            let page: ListedPage<u64> = serde_json::from_str(text).unwrap();
            (page.items.len(), None, page.next)
        };
        let style = |next| PageStyle { size: ("size", 10), next };
        let cloud = [page(r#"{"values":[1],"next":"https://x/2"}"#), page(r#"{"values":[],"next":"https://x/3"}"#)];
        let link = Some(PagePosition::Link("https://x/2".to_owned()));
        assert_eq!(positions(style(NextPage::Linked), &cloud), [None, link]);
        let server = [
            page(r#"{"values":[1],"isLastPage":false,"nextPageStart":25}"#),
            page(r#"{"values":[1],"isLastPage":true,"nextPageStart":50}"#),
        ];
        assert_eq!(positions(style(NextPage::Start), &server), query("start", &[0, 25]));
        let back = [page(r#"{"values":[1],"nextPageStart":25}"#), page(r#"{"values":[1],"nextPageStart":25}"#)];
        assert_eq!(positions(style(NextPage::Start), &back), query("start", &[0, 25]));
    }

    #[test]
    fn a_page_is_a_list_or_an_object_with_one() {
        let length = |text: &str| serde_json::from_str::<ListedPage<u64>>(text).map(|page| page.items.len()).ok();
        for text in ["[1,2]", r#"{"values":[1,2]}"#, r#"{"count":2,"value":[1,2]}"#, r#"{"sha":"a","statuses":[1,2]}"#]
        {
            assert_eq!(length(text), Some(2), "{text}");
        }
        assert_eq!(length(r#"{"statuses":null}"#), Some(0));
        for text in ["7", "null", "{}", r#"{"message":"no such thing"}"#, r#"["a"]"#] {
            assert_eq!(length(text), None, "{text}");
        }
    }
}

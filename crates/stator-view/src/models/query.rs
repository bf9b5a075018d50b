//! What an address asks of the list.

use super::filter::ModelFilter;
use super::order::{ModelOrder, SortKey};
use crate::problem::{ProblemDetails, RequestFault};
use crate::query_string;
use crate::words::{HEALTHS, SYNC_STATES};
use sha2::{Digest as _, Sha256};
use stator_core::dynamo::health::Health;
use stator_core::finding::did_you_mean;
use stator_model::plan::SyncState;
use std::collections::BTreeMap;

/// Rows of a page where nobody says how many.
pub const DEFAULT_LIMIT: usize = 100;
/// The most rows of a page.
pub const MAX_LIMIT: usize = 500;
/// The longest value of a parameter, in characters: with all that a query may have, an address stays below the 64 KiB at
/// which it is refused unread.
pub(crate) const MAX_VALUE_LENGTH: usize = 500;
/// The longest place in a list, which has values and names of a row in it.
pub(crate) const MAX_PLACE_LENGTH: usize = 4000;
/// How often a parameter may stand in a query.
pub(crate) const MAX_REPEATS: usize = 20;
/// The most parameters: each that may be repeated, as often, and the others.
const MAX_PARAMETERS: usize = 128;
/// The most keys that a list is sorted by.
const MAX_SORT_KEYS: usize = 4;

/// The parameters of a list of models, as they are written.
pub(crate) const PARAMETERS: [&str; 12] =
    ["q", "health", "sync", "namespace", "source", "gpu", "drift", "pending", "commit", "sort", "limit", "continue"];

/// Filters, order and page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelQuery {
    /// Which models.
    pub filter: ModelFilter,
    /// In which order.
    pub order: ModelOrder,
    /// How many at a time, where somebody says so.
    pub limit: Option<usize>,
    /// Where the page begins; the first page without.
    pub cursor: Option<String>,
}

impl ModelQuery {
    /// Reads a query string without its `?`.
    ///
    /// # Errors
    /// Every parameter that is unknown or has a value that is not allowed, all at once.
    pub fn parse(text: &str) -> Result<Self, ProblemDetails> {
        let (mut query, mut errors) = (Self::default(), Vec::new());
        let mut repeats = BTreeMap::<String, usize>::new();
        for (at, (name, value)) in query_string::parse(text).enumerate() {
            let repeats = repeats.entry(name.clone()).or_default();
            *repeats += 1;
            let most = if name == "continue" { MAX_PLACE_LENGTH } else { MAX_VALUE_LENGTH };
            if at >= MAX_PARAMETERS || *repeats > MAX_REPEATS || value.chars().count() > most {
                let detail = format!("a parameter has at most {MAX_REPEATS} values, each of at most {most} characters");
                errors.push(fault("", detail, &[], None));
                break;
            }
            if let Err(error) = query.take(&name, &value) {
                errors.push(*error);
            }
        }
        if errors.is_empty() { Ok(query) } else { Err(ProblemDetails::of_parameters(errors)) }
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), Box<RequestFault>> {
        match name {
            "q" => self.filter.search = Some(value.to_owned()),
            "health" => {
                let health = one_of(name, value, &HEALTHS, |one: Health| one.as_str())?;
                self.filter.health.insert(health);
            }
            "sync" => {
                let sync = one_of(name, value, &SYNC_STATES, |one: SyncState| one.as_str())?;
                self.filter.sync.insert(sync);
            }
            "namespace" => drop(self.filter.namespace.insert(value.to_owned())),
            "source" => drop(self.filter.source.insert(value.to_owned())),
            "gpu" => drop(self.filter.gpu.insert(value.to_owned())),
            "drift" => self.filter.drift = Some(one_of(name, value, &[true, false], flag_word)?),
            "pending" => self.filter.pending = Some(one_of(name, value, &[true, false], flag_word)?),
            "commit" => {
                let is_commit = value.len() <= 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
                let refused =
                    || fault(name, format!("`commit` is `{value}`; use the first digits of a commit"), &[], None);
                self.filter.commit = Some(is_commit.then(|| value.to_ascii_lowercase()).ok_or_else(refused)?);
            }
            "sort" => self.order = parse_order(value)?,
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
                let detail = || format!("`limit` is `{value}`; use a number from 1 to {MAX_LIMIT}");
                self.limit = Some(limit.ok_or_else(|| fault(name, detail(), &[], None))?);
            }
            "continue" => {
                let is_place = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
                let refused = || {
                    let help = "use the value of `metadata.continue` of the page before, or omit it".to_owned();
                    fault(name, "`continue` is not a place in a list".to_owned(), &[], Some(help))
                };
                self.cursor = Some(is_place.then(|| value.to_owned()).ok_or_else(refused)?);
            }
            other => {
                let help = did_you_mean(other, PARAMETERS);
                return Err(fault(other, format!("there is no parameter `{other}`"), &PARAMETERS, help).into());
            }
        }
        Ok(())
    }

    /// The parameters of this query, as they are written in an address, without the page.
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let ModelFilter { health, sync, namespace, source, gpu, drift, pending, commit, search } = &self.filter;
        let mut list: Vec<(&'static str, String)> = Vec::new();
        list.extend(search.iter().map(|words| ("q", words.clone())));
        list.extend(health.iter().map(|one| ("health", one.as_str().to_owned())));
        list.extend(sync.iter().map(|one| ("sync", one.as_str().to_owned())));
        list.extend(namespace.iter().map(|one| ("namespace", one.clone())));
        list.extend(source.iter().map(|one| ("source", one.clone())));
        list.extend(gpu.iter().map(|one| ("gpu", one.clone())));
        list.extend(drift.iter().map(|one| ("drift", one.to_string())));
        list.extend(pending.iter().map(|one| ("pending", one.to_string())));
        list.extend(commit.iter().map(|one| ("commit", one.clone())));
        if self.order != ModelOrder::default() {
            list.push(("sort", self.order.text()));
        }
        list.extend(self.limit.map(|limit| ("limit", limit.to_string())));
        list
    }

    /// The address of the list at a path, from its first page on.
    pub fn address(&self, path: &str) -> String {
        format!("{path}{}", query_string::format(self.parameters()))
    }

    /// The address of a page of it.
    pub fn page_address(&self, path: &str, cursor: &str) -> String {
        let page = [("continue", cursor.to_owned())];
        format!("{path}{}", query_string::format(self.parameters().into_iter().chain(page)))
    }

    /// What a cursor is bound to: filters and order. The size of the page may change on the way.
    pub(super) fn digest(&self) -> String {
        let sized = Self { limit: None, cursor: None, ..self.clone() };
        let order = self.order.text();
        let mut hash = Sha256::new();
        hash.update(query_string::format(sized.parameters()));
        hash.update(order);
        hex::encode(hash.finalize()).chars().take(16).collect()
    }
}

pub(crate) fn fault(name: &str, detail: String, allowed: &[&str], help: Option<String>) -> RequestFault {
    // As RFC 6901 escapes what separates segments.
    let name = name.replace('~', "~0").replace('/', "~1");
    let allowed = allowed.iter().map(|one| (*one).to_owned()).collect();
    RequestFault { pointer: format!("#/query/{name}"), detail, allowed, help, ..RequestFault::default() }
}

pub(crate) fn one_of<T: Copy>(
    name: &str,
    value: &str,
    allowed: &[T],
    word: impl Fn(T) -> &'static str,
) -> Result<T, Box<RequestFault>> {
    let words: Vec<&'static str> = allowed.iter().map(|one| word(*one)).collect();
    let found = allowed.iter().find(|one| word(**one) == value).copied();
    found.ok_or_else(|| {
        let help = did_you_mean(value, words.iter().copied());
        Box::new(fault(name, format!("`{name}` is `{value}`"), &words, help))
    })
}

pub(crate) fn flag_word(flag: bool) -> &'static str {
    if flag { "true" } else { "false" }
}

fn parse_order(value: &str) -> Result<ModelOrder, Box<RequestFault>> {
    let parts: Vec<&str> = value.split(',').collect();
    if parts.len() > MAX_SORT_KEYS {
        let detail = format!("`sort` has {} keys; use at most {MAX_SORT_KEYS}", parts.len());
        return Err(fault("sort", detail, &[], None).into());
    }
    let keys = parts.into_iter().map(|part| {
        let (word, turned) = part.strip_prefix('-').map_or((part, false), |word| (word, true));
        Ok((one_of("sort", word, &SortKey::ALL, SortKey::as_str)?, turned))
    });
    Ok(ModelOrder { keys: keys.collect::<Result<_, Box<RequestFault>>>()? })
}

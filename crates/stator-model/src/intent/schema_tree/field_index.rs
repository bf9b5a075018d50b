//! Where each field of a document may stand, to find the one that a wrong name was meant for.

use std::collections::HashMap;

/// How many places a message names.
const MAX_NAMED: usize = 4;
/// Stands for any key of a map in a path.
pub const ANY_KEY: &str = "*";
/// Stands for any item of a list in a path.
pub const ANY_ITEM: &str = "[]";

/// The fields that a name was meant for, as a reader finds them; the most likely first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MeantFields {
    /// Of the same map, by their names.
    Here(Vec<String>),
    /// Below that map, as paths from there.
    Below(Vec<String>),
    /// Elsewhere, as paths from the top of the document.
    Elsewhere(Vec<String>),
}

/// Where each field of a document may stand, by its name and by what else it may be called, normalized.
#[derive(Debug, Default)]
pub struct FieldIndex {
    places: HashMap<String, Vec<Vec<String>>>,
    count: usize,
}

impl FieldIndex {
    /// Adds a place of a field under one of its words.
    pub fn add(&mut self, word: &str, place: Vec<String>) {
        self.places.entry(word.to_owned()).or_default().push(place);
        self.count += 1;
    }

    /// How many places it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// The places of a field that have most of their path in common with a place, the shortest of them.
    pub fn nearest(&self, wanted: &str, from: &[String]) -> Option<MeantFields> {
        // A place that leads to where the reader is names nothing.
        let is_elsewhere = |place: &&Vec<String>| common_length(place, from) < place.len();
        let places: Vec<&Vec<String>> = self.places.get(wanted)?.iter().filter(is_elsewhere).collect();
        let distance = |place: &&Vec<String>| {
            let shared = common_length(place, from);
            let names_key = place.iter().skip(shared).any(|step| step == ANY_KEY);
            (usize::MAX - shared, place.len(), names_key)
        };
        let least = places.iter().map(distance).min()?;
        let mut near: Vec<String> =
            places.into_iter().filter(|place| distance(place) == least).map(|place| path_text(place, from)).collect();
        near.sort();
        near.dedup();
        near.truncate(MAX_NAMED);
        let is_below = usize::MAX - least.0 == from.len();
        Some(if is_below { MeantFields::Below(near) } else { MeantFields::Elsewhere(near) })
    }
}

/// How many steps two paths share from the top.
fn common_length(place: &[String], from: &[String]) -> usize {
    let is_item = |step: &str| step.starts_with('[');
    let fits = |(step, actual): &(&String, &String)| match step.as_str() {
        ANY_ITEM => is_item(actual),
        ANY_KEY => !is_item(actual),
        step => step == actual.as_str(),
    };
    place.iter().zip(from).take_while(fits).count()
}

/// A path in text: from where the reader is, if it is below that, else from the top.
fn path_text(place: &[String], from: &[String]) -> String {
    let shared = common_length(place, from);
    let start = if shared == from.len() { shared } else { 0 };
    let mut text = String::new();
    for (position, step) in place.iter().enumerate().skip(start) {
        let step = match (step.as_str(), from.get(position).filter(|_| position < shared)) {
            (ANY_KEY | ANY_ITEM, Some(actual)) => actual,
            (ANY_KEY, None) => "<name>",
            (step, _) => step,
        };
        if !text.is_empty() && !step.starts_with('[') {
            text.push('.');
        }
        text.push_str(step);
    }
    text
}

//! Where each field of a merged model was written.

use super::yaml::{Content, Node, Span};
use stator_core::finding::Location;
use std::sync::Arc;

/// The names of a tree's files, shared by everything that points into them.
pub type FileNames = Arc<[Box<str>]>;

/// Where each field of a merged model was written, by dotted path (`spec.serving.decode.gpus`, `spec.adapters[0]`).
///
/// Kept as a tree of places without values or file names: ten thousand models stay small.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origins {
    files: FileNames,
    root: Place,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Place {
    span: Span,
    below: Below,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum Below {
    #[default]
    Nothing,
    Fields(Vec<(Box<str>, Place)>),
    Items(Vec<Place>),
}

impl Origins {
    /// Takes the places out of a merged document.
    pub(super) fn new(files: FileNames, root: Node) -> Self {
        let span = root.span;
        Self { files, root: place(root, span) }
    }

    /// The place of a field, or of the nearest one above it that was written.
    pub fn locate(&self, path: &str) -> Location {
        let (place, _) = self.walk(path);
        self.location(place)
    }

    /// The place of a field, if it was written.
    pub fn written(&self, path: &str) -> Option<Location> {
        let (place, rest) = self.walk(path);
        rest.is_empty().then(|| self.location(place))
    }

    /// Follows a path as far as it goes; gives what is left of it.
    fn walk<'a>(&self, path: &'a str) -> (&Place, &'a str) {
        let (mut place, mut rest) = (&self.root, path);
        while let Some((next, left)) = step(place, rest) {
            (place, rest) = (next, left);
        }
        (place, rest)
    }

    fn location(&self, place: &Place) -> Location {
        let file = usize::try_from(place.span.file).ok().and_then(|file| self.files.get(file));
        match file {
            Some(file) => place.span.location(file),
            None => Location::default(),
        }
    }
}

fn place(node: Node, span: Span) -> Place {
    let below = match node.value {
        Content::Refused | Content::Bool(_) | Content::Number(_) | Content::Text(_) => Below::Nothing,
        Content::List(items) => Below::Items(
            items
                .into_iter()
                .map(|item| {
                    let span = item.span;
                    place(item, span)
                })
                .collect(),
        ),
        Content::Map(entries) => Below::Fields(
            entries
                .into_iter()
                .map(|entry| {
                    let span = entry.place();
                    (entry.key, place(entry.value, span))
                })
                .collect(),
        ),
    };
    Place { span, below }
}

/// One step along a path. Keys may hold dots (`metadata.labels.nvidia.com/x`), so the longest key that fits is taken.
fn step<'a, 'p>(place: &'p Place, path: &'a str) -> Option<(&'p Place, &'a str)> {
    if path.is_empty() {
        return None;
    }
    match &place.below {
        Below::Nothing => None,
        Below::Items(items) => {
            let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
            let item = items.get(index.parse::<usize>().ok()?)?;
            Some((item, rest))
        }
        Below::Fields(fields) => {
            let path = path.strip_prefix('.').unwrap_or(path);
            fields
                .iter()
                .filter_map(|(key, place)| {
                    let rest = path.strip_prefix(&**key)?;
                    (rest.is_empty() || rest.starts_with(['.', '['])).then_some((key.len(), place, rest))
                })
                .max_by_key(|(length, _, _)| *length)
                .map(|(_, place, rest)| (place, rest))
        }
    }
}

//! Where each field of a merged model was written.

use super::yaml::{YamlNode, YamlSpan, YamlValue};
use stator_core::finding::Location;
use std::sync::Arc;

/// The names of a tree's files, shared by everything that points into them.
pub type FileNames = Arc<[Box<str>]>;

/// Where each field of a merged model was written, by dotted path (`spec.serving.decode.gpus`, `spec.adapters[0]`).
///
/// Kept as a tree of places without values or file names: ten thousand models stay small.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldOrigins {
    files: FileNames,
    root: OriginNode,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct OriginNode {
    span: YamlSpan,
    children: OriginChildren,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum OriginChildren {
    #[default]
    Leaf,
    Fields(Vec<(Box<str>, OriginNode)>),
    Items(Vec<OriginNode>),
}

impl FieldOrigins {
    /// Takes the places out of a merged document.
    pub(super) fn new(files: FileNames, root: YamlNode) -> Self {
        let span = root.span;
        Self { files, root: build_origin_node(root, span) }
    }

    /// The place of a field, or of the nearest one above it that was written.
    pub fn locate(&self, path: &str) -> Location {
        let (place, _) = self.resolve_path(path);
        self.location(place)
    }

    /// The place of a field, if it was written.
    pub fn locate_exact(&self, path: &str) -> Option<Location> {
        let (place, rest) = self.resolve_path(path);
        rest.is_empty().then(|| self.location(place))
    }

    /// Follows a path as far as it goes; gives what is left of it.
    fn resolve_path<'a>(&self, path: &'a str) -> (&OriginNode, &'a str) {
        let (mut place, mut rest) = (&self.root, path);
        while let Some((next, left)) = descend_path(place, rest) {
            (place, rest) = (next, left);
        }
        (place, rest)
    }

    fn location(&self, place: &OriginNode) -> Location {
        let file = usize::try_from(place.span.file).ok().and_then(|file| self.files.get(file));
        match file {
            Some(file) => place.span.location(file),
            None => Location::default(),
        }
    }
}

fn build_origin_node(node: YamlNode, span: YamlSpan) -> OriginNode {
    let below = match node.value {
        YamlValue::Invalid | YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::Text(_) => OriginChildren::Leaf,
        YamlValue::List(items) => OriginChildren::Items(
            items
                .into_iter()
                .map(|item| {
                    let span = item.span;
                    build_origin_node(item, span)
                })
                .collect(),
        ),
        YamlValue::Map(entries) => OriginChildren::Fields(
            entries
                .into_iter()
                .map(|entry| {
                    let span = entry.place();
                    (entry.key, build_origin_node(entry.value, span))
                })
                .collect(),
        ),
    };
    OriginNode { span, children: below }
}

/// One step along a path. Keys may hold dots (`metadata.labels.nvidia.com/x`), so the longest key that fits is taken.
fn descend_path<'a, 'p>(place: &'p OriginNode, path: &'a str) -> Option<(&'p OriginNode, &'a str)> {
    if path.is_empty() {
        return None;
    }
    match &place.children {
        OriginChildren::Leaf => None,
        OriginChildren::Items(items) => {
            let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
            let item = items.get(index.parse::<usize>().ok()?)?;
            Some((item, rest))
        }
        OriginChildren::Fields(fields) => {
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

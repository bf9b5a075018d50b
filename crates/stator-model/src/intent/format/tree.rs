//! A YAML document with the lines and bytes its parts stand on.

use super::FormatError;
use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};
use std::collections::BTreeMap;
use std::ops::Range;

/// The deepest nesting that stator reads.
const MAX_DEPTH: usize = 64;
/// The most values that stator reads.
const MAX_NODES: usize = 100_000;

/// A document and its comments.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The top value; none in an empty document.
    pub root: Option<Node>,
    /// Each comment's place and text.
    pub comments: Vec<(Range<usize>, String)>,
}

impl Parsed {
    /// The comments, to be compared whatever their order.
    pub(super) fn sorted_comments(&self) -> Vec<&str> {
        let mut comments: Vec<&str> = self.comments.iter().map(|(_, text)| text.trim_end()).collect();
        comments.sort_unstable();
        comments
    }
}

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Node {
    /// Its bytes. Of a block, up to the start of what follows.
    pub bytes: Range<usize>,
    /// The line it starts on, from 0.
    pub line: usize,
    /// The column it starts in, from 0, in characters.
    pub column: usize,
    /// The last line that holds some of it, from 0.
    pub last_line: usize,
    /// What it is.
    pub content: Content,
}

/// What a value is.
#[derive(Debug)]
pub(super) enum Content {
    /// A scalar, and whether it is plain: only a plain one can be a number or null.
    Scalar { text: String, plain: bool },
    /// A list.
    List { items: Vec<Node> },
    /// A map in the order as written.
    Map { flow: bool, entries: Vec<(Node, Node)> },
}

/// A value without its place, maps without their order: equal when the data is.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Data<'a> {
    Scalar(&'a str, bool),
    List(Vec<Data<'a>>),
    Map(BTreeMap<Data<'a>, Data<'a>>),
}

impl Node {
    pub(super) fn value(&self) -> Data<'_> {
        match &self.content {
            Content::Scalar { text, plain } => Data::Scalar(text, *plain),
            Content::List { items } => Data::List(items.iter().map(Self::value).collect()),
            Content::Map { entries, .. } => {
                Data::Map(entries.iter().map(|(key, value)| (key.value(), value.value())).collect())
            }
        }
    }

    /// The text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar { text, .. } => Some(text),
            Content::List { .. } | Content::Map { .. } => None,
        }
    }
}

/// Reads one document.
pub(super) fn parse(text: &str) -> Result<Parsed, FormatError> {
    let options = granit_parser::options! { flow_nesting_limit: MAX_DEPTH, block_nesting_limit: MAX_DEPTH };
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| fault(*error.marker(), error.to_string()))?;
        builder.take(event, span, text)?;
    }
    Ok(Parsed { root: builder.root, comments: builder.comments })
}

fn fault(at: granit_parser::Marker, message: impl Into<String>) -> FormatError {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    FormatError::Syntax { line: number(at.line()), column: number(at.col().saturating_add(1)), message: message.into() }
}

/// A list or map that is still being read.
enum Open {
    List(Node, Vec<Node>),
    Map(Node, bool, Vec<(Node, Node)>, Option<Node>),
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    comments: Vec<(Range<usize>, String)>,
    documents: usize,
    nodes: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span, text: &str) -> Result<(), FormatError> {
        let refuse = |message: &str| Err(fault(span.start, message));
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return refuse("a second document: keep one document in a file");
                }
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                return refuse("an alias: write the value out where it is used");
            }
            Event::Comment(comment, _) => self.comments.push((bytes(span), comment.into_owned())),
            Event::Scalar(value, style, anchor, tag) => {
                if anchor != 0 || tag.is_some() {
                    return refuse("an anchor or a tag: write the value plainly");
                }
                let plain = style == ScalarStyle::Plain;
                let content = Content::Scalar { text: value.into_owned(), plain };
                let mut node = placed(span, content);
                node.last_line = last_line(text, span, style);
                self.close(node, span)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                if anchor != 0 || tag.is_some() {
                    return refuse("an anchor or a tag: write the value plainly");
                }
                self.deepen(Open::List(placed(span, Content::List { items: Vec::new() }), Vec::new()), span)?;
            }
            Event::MappingStart(style, anchor, tag) => {
                if anchor != 0 || tag.is_some() {
                    return refuse("an anchor or a tag: write the value plainly");
                }
                let flow = style == StructureStyle::Flow;
                let node = placed(span, Content::Map { flow, entries: Vec::new() });
                self.deepen(Open::Map(node, flow, Vec::new(), None), span)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let (mut node, flow) = match self.open.pop() {
                    Some(Open::List(mut node, items)) => {
                        let flow = text.get(node.bytes.start..).is_some_and(|rest| rest.starts_with('['));
                        node.content = Content::List { items };
                        (node, flow)
                    }
                    Some(Open::Map(mut node, flow, entries, _)) => {
                        node.content = Content::Map { flow, entries };
                        (node, flow)
                    }
                    None => return refuse("an end without a start"),
                };
                node.bytes.end = bytes(span).end;
                node.last_line = if flow {
                    span.start.line().saturating_sub(1)
                } else {
                    // A block ends where the next token starts; its own last line is that of its last part.
                    last_part(&node)
                };
                self.close(node, span)?;
            }
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::Anchor(..) => {}
            _ => return refuse("something that stator's YAML does not have"),
        }
        Ok(())
    }

    fn deepen(&mut self, open: Open, span: Span) -> Result<(), FormatError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(fault(span.start, "nested deeper than 64 levels: flatten it"));
        }
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self, node: Node, span: Span) -> Result<(), FormatError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(fault(span.start, "more than 100000 values: split the file"));
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, _, entries, key)) => match key.take() {
                None => {
                    let repeated =
                        |(earlier, _): &(Node, Node)| earlier.text().is_some() && earlier.text() == node.text();
                    if entries.iter().any(repeated) {
                        let name = node.text().unwrap_or_default();
                        return Err(fault(span.start, format!("`{name}` is given twice: keep one of them")));
                    }
                    *key = Some(node);
                }
                Some(key) => entries.push((key, node)),
            },
        }
        Ok(())
    }
}

fn bytes(span: Span) -> Range<usize> {
    span.start.byte_offset().unwrap_or(0)..span.end.byte_offset().unwrap_or(0)
}

fn placed(span: Span, content: Content) -> Node {
    let line = span.start.line().saturating_sub(1);
    Node { bytes: bytes(span), line, column: span.start.col(), last_line: line, content }
}

/// The last line of a scalar. Blank lines behind a block scalar separate it from what follows, unless it keeps them (`|+`).
fn last_line(text: &str, span: Span, style: ScalarStyle) -> usize {
    let end =
        span.end.line().saturating_sub(usize::from(span.end.col() == 0) + 1).max(span.start.line().saturating_sub(1));
    if !matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
        return end;
    }
    let written = text.get(bytes(span)).unwrap_or_default();
    let header = text.get(..bytes(span).start).and_then(|before| before.trim_end().lines().next_back());
    if header.is_some_and(|header| header.contains('+')) {
        return end;
    }
    let blank = written.lines().rev().take_while(|line| line.trim().is_empty()).count();
    end.saturating_sub(blank)
}

fn last_part(node: &Node) -> usize {
    match &node.content {
        Content::Scalar { .. } => node.last_line,
        Content::List { items } => items.last().map_or(node.line, |item| item.last_line),
        Content::Map { entries, .. } => {
            entries.last().map_or(node.line, |(key, value)| value.last_line.max(key.last_line))
        }
    }
}

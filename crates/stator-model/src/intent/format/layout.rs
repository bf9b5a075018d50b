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
pub(super) struct CommentedYaml {
    /// The top value; none in an empty document.
    pub root: Option<LayoutNode>,
    /// Each comment's place and text.
    pub comments: Vec<(Range<usize>, String)>,
}

impl CommentedYaml {
    /// The comments, to be compared whatever their order.
    pub(super) fn sorted_comments(&self) -> Vec<&str> {
        let mut comments: Vec<&str> = self.comments.iter().map(|(_, text)| text.trim_end()).collect();
        comments.sort_unstable();
        comments
    }
}

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct LayoutNode {
    /// Its bytes. Of a block, up to the start of what follows.
    pub bytes: Range<usize>,
    /// The line it starts on, from 0.
    pub line: usize,
    /// The column it starts in, from 0, in characters.
    pub column: usize,
    /// The last line that holds some of it, from 0.
    pub last_line: usize,
    /// What it is.
    pub content: LayoutContent,
}

/// What a value is.
#[derive(Debug)]
pub(super) enum LayoutContent {
    /// A scalar, and whether it is plain: only a plain one can be a number or null.
    Scalar { text: String, plain: bool },
    /// A list.
    List { items: Vec<LayoutNode> },
    /// A map in the order as written.
    Map { flow: bool, entries: Vec<(LayoutNode, LayoutNode)> },
}

/// A value without its place, maps without their order: equal when the data is.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NormalizedValue<'a> {
    Scalar(&'a str, bool),
    List(Vec<NormalizedValue<'a>>),
    Map(BTreeMap<NormalizedValue<'a>, NormalizedValue<'a>>),
}

impl LayoutNode {
    pub(super) fn normalized(&self) -> NormalizedValue<'_> {
        match &self.content {
            LayoutContent::Scalar { text, plain } => NormalizedValue::Scalar(text, *plain),
            LayoutContent::List { items } => NormalizedValue::List(items.iter().map(Self::normalized).collect()),
            LayoutContent::Map { entries, .. } => NormalizedValue::Map(
                entries.iter().map(|(key, value)| (key.normalized(), value.normalized())).collect(),
            ),
        }
    }

    /// The text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            LayoutContent::Scalar { text, .. } => Some(text),
            LayoutContent::List { .. } | LayoutContent::Map { .. } => None,
        }
    }
}

/// Reads one document.
pub(super) fn parse_layout(text: &str) -> Result<CommentedYaml, FormatError> {
    let options = granit_parser::options! { flow_nesting_limit: MAX_DEPTH, block_nesting_limit: MAX_DEPTH };
    let mut builder = LayoutBuilder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| syntax_error(*error.marker(), error.to_string()))?;
        builder.handle_event(event, span, text)?;
    }
    Ok(CommentedYaml { root: builder.root, comments: builder.comments })
}

fn syntax_error(at: granit_parser::Marker, message: impl Into<String>) -> FormatError {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    FormatError::Syntax { line: number(at.line()), column: number(at.col().saturating_add(1)), message: message.into() }
}

/// A list or map that is still being read.
enum OpenLayoutNode {
    List(LayoutNode, Vec<LayoutNode>),
    Map(LayoutNode, bool, Vec<(LayoutNode, LayoutNode)>, Option<LayoutNode>),
}

#[derive(Default)]
struct LayoutBuilder {
    open: Vec<OpenLayoutNode>,
    root: Option<LayoutNode>,
    comments: Vec<(Range<usize>, String)>,
    documents: usize,
    nodes: usize,
}

impl LayoutBuilder {
    fn handle_event(&mut self, event: Event<'_>, span: Span, text: &str) -> Result<(), FormatError> {
        let refuse = |message: &str| Err(syntax_error(span.start, message));
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
            Event::Comment(comment, _) => self.comments.push((byte_range(span), comment.into_owned())),
            Event::Scalar(value, style, anchor, tag) => {
                if anchor != 0 || tag.is_some() {
                    return refuse("an anchor or a tag: write the plain value");
                }
                let plain = style == ScalarStyle::Plain;
                let content = LayoutContent::Scalar { text: value.into_owned(), plain };
                let mut node = layout_node(span, content);
                node.last_line = last_line(text, span, style);
                self.attach_node(node, span)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                if anchor != 0 || tag.is_some() {
                    return refuse("an anchor or a tag: write the plain value");
                }
                self.push_open(
                    OpenLayoutNode::List(layout_node(span, LayoutContent::List { items: Vec::new() }), Vec::new()),
                    span,
                )?;
            }
            Event::MappingStart(style, anchor, tag) => {
                if anchor != 0 || tag.is_some() {
                    return refuse("an anchor or a tag: write the plain value");
                }
                let flow = style == StructureStyle::Flow;
                let node = layout_node(span, LayoutContent::Map { flow, entries: Vec::new() });
                self.push_open(OpenLayoutNode::Map(node, flow, Vec::new(), None), span)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let (mut node, flow) = match self.open.pop() {
                    Some(OpenLayoutNode::List(mut node, items)) => {
                        let flow = text.get(node.bytes.start..).is_some_and(|rest| rest.starts_with('['));
                        node.content = LayoutContent::List { items };
                        (node, flow)
                    }
                    Some(OpenLayoutNode::Map(mut node, flow, entries, _)) => {
                        node.content = LayoutContent::Map { flow, entries };
                        (node, flow)
                    }
                    None => return refuse("an end without a start"),
                };
                node.bytes.end = byte_range(span).end;
                node.last_line = if flow {
                    span.start.line().saturating_sub(1)
                } else {
                    // A block ends where the next token starts; its own last line is that of its last part.
                    last_block_line(&node)
                };
                self.attach_node(node, span)?;
            }
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::Anchor(..) => {}
            _ => return refuse("YAML that stator does not support"),
        }
        Ok(())
    }

    fn push_open(&mut self, open: OpenLayoutNode, span: Span) -> Result<(), FormatError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(syntax_error(span.start, "nested deeper than 64 levels: flatten it"));
        }
        self.open.push(open);
        Ok(())
    }

    fn attach_node(&mut self, node: LayoutNode, span: Span) -> Result<(), FormatError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(syntax_error(span.start, "more than 100000 values: split the file"));
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(OpenLayoutNode::List(_, items)) => items.push(node),
            Some(OpenLayoutNode::Map(_, _, entries, key)) => match key.take() {
                None => {
                    let repeated = |(earlier, _): &(LayoutNode, LayoutNode)| {
                        earlier.text().is_some() && earlier.text() == node.text()
                    };
                    if entries.iter().any(repeated) {
                        let name = node.text().unwrap_or_default();
                        return Err(syntax_error(span.start, format!("`{name}` is defined twice: keep one of them")));
                    }
                    *key = Some(node);
                }
                Some(key) => entries.push((key, node)),
            },
        }
        Ok(())
    }
}

fn byte_range(span: Span) -> Range<usize> {
    span.start.byte_offset().unwrap_or(0)..span.end.byte_offset().unwrap_or(0)
}

fn layout_node(span: Span, content: LayoutContent) -> LayoutNode {
    let line = span.start.line().saturating_sub(1);
    LayoutNode { bytes: byte_range(span), line, column: span.start.col(), last_line: line, content }
}

/// The last line of a scalar. Blank lines behind a block scalar separate it from what follows, unless it keeps them (`|+`).
fn last_line(text: &str, span: Span, style: ScalarStyle) -> usize {
    let end =
        span.end.line().saturating_sub(usize::from(span.end.col() == 0) + 1).max(span.start.line().saturating_sub(1));
    if !matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
        return end;
    }
    let written = text.get(byte_range(span)).unwrap_or_default();
    let header = text.get(..byte_range(span).start).and_then(|before| before.trim_end().lines().next_back());
    if header.is_some_and(|header| header.contains('+')) {
        return end;
    }
    let blank = written.lines().rev().take_while(|line| line.trim().is_empty()).count();
    end.saturating_sub(blank)
}

fn last_block_line(node: &LayoutNode) -> usize {
    match &node.content {
        LayoutContent::Scalar { .. } => node.last_line,
        LayoutContent::List { items } => items.last().map_or(node.line, |item| item.last_line),
        LayoutContent::Map { entries, .. } => {
            entries.last().map_or(node.line, |(key, value)| value.last_line.max(key.last_line))
        }
    }
}

//! YAML as nodes with their places.
//!
//! An alias is a second reference to its anchor's node: nothing is copied. The size of a document
//! with each alias written out, and its depth, are bounded while it is parsed, so that what walks
//! the nodes later may recurse and takes bounded time.

mod offsets;
pub(super) mod scalar;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use crate::file::{Code, Wrong};
use offsets::Offsets;

/// The deepest nesting of mappings and lists. Envoy's descriptors take two levels each.
const DEEPEST: usize = 64;

/// The most that a document may weigh with each alias written out: 1 for a node, and 1 for each 32
/// bytes of its text. 16 MiB of ordinary descriptors weigh a third of it.
const MOST_WEIGHT: usize = 6_000_000;

/// The number of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(usize);

/// A part of a document.
#[derive(Debug)]
pub(super) struct Node<'t> {
    /// In bytes of the text.
    pub(super) span: Range<usize>,
    pub(super) content: Content<'t>,
    weight: usize,
    /// 0 for a scalar.
    height: usize,
}

#[derive(Debug)]
pub(super) enum Content<'t> {
    /// A text; `is_plain` without quotes, so that it may be a number, `true` or null.
    Scalar { text: Cow<'t, str>, is_plain: bool },
    /// A list.
    List(Vec<NodeId>),
    /// A mapping. Keys may come twice.
    Map(Vec<(NodeId, NodeId)>),
    /// A mapping or list that is not complete. Not in a finished document.
    Open,
}

/// A document.
#[derive(Debug, Default)]
pub(super) struct Yaml<'t> {
    nodes: Vec<Node<'t>>,
    root: Option<NodeId>,
}

impl<'t> Yaml<'t> {
    /// Parses the one document of a text.
    ///
    /// # Errors
    ///
    /// The first mistake: behind it nothing can be read.
    pub(super) fn parse(text: &'t str) -> Result<Self, Wrong> {
        let (yaml, anchors, open) = (Self::default(), HashMap::new(), Vec::new());
        let mut builder = Builder { yaml, anchors, open, documents: 0, weight: 0 };
        let offsets = Offsets::new(text);
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| {
                let at = offsets.byte(error.marker().index());
                if error.info().contains("recursion limit") {
                    return too_deep(at..at + 1);
                }
                let hint = error.info().contains("tab").then(|| "YAML is indented by blanks".into());
                let message = format!("this is no YAML: {}", error.info());
                Wrong { span: at..at + 1, code: Code::Syntax, message, hint }
            })?;
            builder.event(event, offsets.span(span))?;
        }
        Ok(builder.yaml)
    }

    /// The document; `None` if the text is empty.
    pub(super) fn root(&self) -> Option<NodeId> {
        self.root
    }

    pub(super) fn node(&self, id: NodeId) -> &Node<'t> {
        &self.nodes[id.0]
    }

    /// The text of a scalar.
    pub(super) fn text(&self, id: NodeId) -> Option<&str> {
        match &self.node(id).content {
            Content::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Whether a node is a scalar that means nothing: `~`, `null`, or no text at all.
    pub(super) fn is_null(&self, id: NodeId) -> bool {
        matches!(&self.node(id).content, Content::Scalar { text, is_plain: true } if scalar::is_null(text))
    }
}

/// A mapping or list whose end has not come.
struct Open {
    id: NodeId,
    weight: usize,
    height: usize,
    is_map: bool,
    /// Of a mapping keys and values in turn.
    children: Vec<NodeId>,
}

/// Makes nodes of events.
struct Builder<'t> {
    yaml: Yaml<'t>,
    anchors: HashMap<usize, NodeId>,
    open: Vec<Open>,
    documents: usize,
    /// Of all so far, with each alias written out.
    weight: usize,
}

impl<'t> Builder<'t> {
    fn event(&mut self, event: Event<'t>, span: Range<usize>) -> Result<(), Wrong> {
        let refused = |message: &str, hint: &str| {
            let (message, hint) = (message.to_owned(), Some(hint.to_owned()));
            Err(Wrong { span: span.clone(), code: Code::Unsupported, message, hint })
        };
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                let is_second = self.documents > 1;
                if is_second { refused("a second document", "one document in a file") } else { Ok(()) }
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor).copied() {
                Some(id) if matches!(self.yaml.node(id).content, Content::Open) => {
                    refused("the alias stands inside of its own anchor", "it would never end")
                }
                Some(id) => {
                    self.grow(self.yaml.node(id).weight, &span)?;
                    self.attach(id, span)
                }
                None => refused("there is no such anchor", "an anchor (`&name`) stands before its aliases"),
            },
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = match (style, core_tag(tag.as_deref())) {
                    (_, Some("str")) => false,
                    (style, None) => style == ScalarStyle::Plain,
                    (_, Some("int" | "bool" | "null" | "float")) => true,
                    _ => return refused("a tag that has no meaning here", "take it off"),
                };
                let weight = 1 + text.len() / 32;
                self.grow(weight, &span)?;
                let id = self.new_node(span.clone(), Content::Scalar { text, is_plain }, weight, 0, anchor);
                self.attach(id, span)
            }
            Event::SequenceStart(anchor, tag) => match core_tag(tag.as_deref()) {
                None | Some("seq") => self.start(false, anchor, span),
                Some(_) => refused("a tag that has no meaning here", "take it off"),
            },
            Event::MappingStart(anchor, tag) => match core_tag(tag.as_deref()) {
                None | Some("map") => self.start(true, anchor, span),
                Some(_) => refused("a tag that has no meaning here", "take it off"),
            },
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
        }
    }

    fn new_node(
        &mut self,
        span: Range<usize>,
        content: Content<'t>,
        weight: usize,
        height: usize,
        anchor: usize,
    ) -> NodeId {
        let id = NodeId(self.yaml.nodes.len());
        self.yaml.nodes.push(Node { span, content, weight, height });
        if anchor > 0 {
            self.anchors.insert(anchor, id);
        }
        id
    }

    fn start(&mut self, is_map: bool, anchor: usize, span: Range<usize>) -> Result<(), Wrong> {
        if self.open.len() >= DEEPEST {
            return Err(too_deep(span));
        }
        self.grow(1, &span)?;
        let id = self.new_node(span, Content::Open, 1, 1, anchor);
        self.open.push(Open { id, weight: 1, height: 1, is_map, children: Vec::new() });
        Ok(())
    }

    fn end(&mut self, span: Range<usize>) -> Result<(), Wrong> {
        let Some(Open { id, weight, height, is_map, children }) = self.open.pop() else { return Ok(()) };
        let content = if is_map {
            let pairs = children.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
            Content::Map(self.merged(pairs)?)
        } else {
            Content::List(children)
        };
        let node = &mut self.yaml.nodes[id.0];
        // The parser gives the beginning alone.
        let span = node.span.start..span.end.max(node.span.start);
        *node = Node { span: span.clone(), content, weight, height };
        self.attach(id, span)
    }

    /// Puts a complete node, or an alias of it at `span`, into the mapping or list around it.
    fn attach(&mut self, id: NodeId, span: Range<usize>) -> Result<(), Wrong> {
        let Node { weight, height, .. } = *self.yaml.node(id);
        if self.open.len() + height > DEEPEST {
            return Err(too_deep(span));
        }
        let Some(around) = self.open.last_mut() else {
            self.yaml.root = Some(id);
            return Ok(());
        };
        around.weight += weight;
        around.height = around.height.max(height + 1);
        around.children.push(id);
        Ok(())
    }

    /// Counts the weight of what comes next.
    fn grow(&mut self, weight: usize, span: &Range<usize>) -> Result<(), Wrong> {
        self.weight += weight;
        if self.weight <= MOST_WEIGHT {
            return Ok(());
        }
        let message = "the file is too large with its aliases written out".into();
        let hint = Some("several files, one domain each".into());
        Err(Wrong { span: span.clone(), code: Code::TooMuch, message, hint })
    }

    /// Writes the mappings behind `<<` out: their pairs, except for keys that the mapping has. The
    /// mappings' weights bound the pairs.
    fn merged(&mut self, pairs: Vec<(NodeId, NodeId)>) -> Result<Vec<(NodeId, NodeId)>, Wrong> {
        let yaml = &self.yaml;
        let is_merge = |key: NodeId| matches!(&yaml.node(key).content, Content::Scalar { text, is_plain: true } if text == "<<");
        if !pairs.iter().any(|(key, _)| is_merge(*key)) {
            return Ok(pairs);
        }
        let (merges, mut own): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(key, _)| is_merge(*key));
        let mut known: BTreeSet<&str> = own.iter().filter_map(|(key, _)| yaml.text(*key)).collect();
        for (_, source) in merges {
            let sources = match &yaml.node(source).content {
                Content::List(sources) => &sources[..],
                _ => &[source],
            };
            for source in sources {
                let Content::Map(more) = &yaml.node(*source).content else {
                    let message = "`<<` takes a mapping, or a list of mappings".into();
                    let span = yaml.node(*source).span.clone();
                    return Err(Wrong { span, code: Code::WrongType, message, hint: None });
                };
                for (key, value) in more {
                    if yaml.text(*key).is_none_or(|text| known.insert(text)) {
                        own.push((*key, *value));
                    }
                }
            }
        }
        Ok(own)
    }
}

fn too_deep(span: Range<usize>) -> Wrong {
    let (message, hint) = ("the file is nested too deeply", format!("at most {DEEPEST} levels"));
    Wrong { span, code: Code::TooMuch, message: message.into(), hint: Some(hint) }
}

/// What a tag of YAML's own says; `?` of another one.
fn core_tag(tag: Option<&Tag>) -> Option<&str> {
    tag.map(|tag| match (&*tag.handle, &*tag.suffix) {
        ("", "!") | ("!", "") => "str",
        (_, suffix) if tag.is_yaml_core_schema() => suffix,
        _ => "?",
    })
}

#[cfg(test)]
mod tests;

//! The flattened program of a type: where the bytes of one element lie, in the order of the data.
//!
//! Regular patterns stay loops however long they are; neighbouring runs are one run; short loops inside loops
//! become lists, so that [`crate::transfer`] can copy them column by column. Basic types are forgotten here:
//! conversions and counting have [`crate::signature`].

use std::rc::Rc;

/// A piece of a program: `bytes` bytes of data, displacements counted from `at`.
#[derive(Clone, Debug)]
pub struct Node {
    /// Displacement of everything inside.
    pub at: isize,
    /// Bytes of data; never 0.
    pub bytes: usize,
    /// How they lie.
    pub shape: Shape,
}

/// How the bytes of a node lie.
#[derive(Clone, Debug)]
pub enum Shape {
    /// One after the other.
    Run,
    /// The same again and again.
    Loop(Rc<Loop>),
    /// Runs of one length at irregular places.
    Gather {
        /// Bytes of each.
        bytes: usize,
        /// Where they begin.
        places: Rc<[isize]>,
    },
    /// Runs at irregular places.
    Runs(Rc<[Run]>),
    /// Anything after anything.
    List(Rc<[Item]>),
}

/// A body, repeated.
#[derive(Debug)]
pub struct Loop {
    /// How often; at least 2.
    pub count: usize,
    /// Bytes from one to the next in memory.
    pub stride: isize,
    /// Node that is repeated.
    pub body: Node,
}

/// A run among others. Its length is the difference of offsets to the next one; the last is followed by an
/// end mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Offset of its first byte in the data of the node.
    pub offset: usize,
    /// Displacement of its first byte in memory.
    pub at: isize,
}

/// A node among others.
#[derive(Debug)]
pub struct Item {
    /// Offset of its first byte in the data of the list.
    pub offset: usize,
    /// Node that lies there.
    pub node: Node,
}

/// Lists up to this many entries are taken apart and joined with their neighbours.
const SHORT_LIST: usize = 16;

impl Node {
    /// One run.
    pub fn run(at: isize, bytes: usize) -> Self {
        Node { at, bytes, shape: Shape::Run }
    }

    /// The same, `by` bytes further.
    pub fn shifted(mut self, by: isize) -> Self {
        self.at += by;
        self
    }

    /// `count` copies, `stride` bytes apart. The caller has checked that all of it fits memory.
    pub fn repeat(&self, count: usize, stride: isize) -> Option<Node> {
        if count < 2 {
            return (count == 1).then(|| self.clone());
        }
        let bytes = self.bytes * count;
        match &self.shape {
            Shape::Run if stride == self.bytes as isize => return Some(Node::run(self.at, bytes)),
            Shape::Loop(inner) if inner.stride.checked_mul(inner.count as isize) == Some(stride) => {
                let shape = Shape::Loop(Rc::new(Loop {
                    count: inner.count * count,
                    stride: inner.stride,
                    body: inner.body.clone(),
                }));
                return Some(Node { at: self.at, bytes, shape });
            }
            _ => {}
        }
        if self.entries().is_some_and(|entries| entries > 1 && entries * count <= SHORT_LIST) {
            return Node::concat((0..count).map(|i| self.clone().shifted(i as isize * stride)));
        }
        let mut body = self.as_short_list();
        let at = std::mem::take(&mut body.at);
        Some(Node { at, bytes, shape: Shape::Loop(Rc::new(Loop { count, stride, body })) })
    }

    /// All nodes, one after the other in the data.
    pub fn concat(nodes: impl Iterator<Item = Node>) -> Option<Node> {
        let mut joined = Joined::default();
        for node in nodes {
            if node.entries().is_some_and(|entries| entries <= SHORT_LIST) {
                node.for_each_entry(0, &mut |entry| joined.push(entry));
            } else {
                joined.push(node);
            }
        }
        joined.finish()
    }

    /// Calls `visit` with address and length of each run, counted from `base`, until it gives false; whether
    /// it never did.
    pub fn for_each_run(&self, base: usize, visit: &mut impl FnMut(usize, usize) -> bool) -> bool {
        let base = base.wrapping_add_signed(self.at);
        let at = |displacement: isize| base.wrapping_add_signed(displacement);
        match &self.shape {
            Shape::Run => visit(base, self.bytes),
            Shape::Gather { bytes, places } => places.iter().all(|place| visit(at(*place), *bytes)),
            Shape::Runs(runs) => runs.windows(2).all(|w| visit(at(w[0].at), w[1].offset - w[0].offset)),
            Shape::List(items) => items.iter().all(|item| item.node.for_each_run(base, visit)),
            Shape::Loop(l) => (0..l.count as isize).all(|i| l.body.for_each_run(at(i * l.stride), visit)),
        }
    }

    /// Number of entries of a list or a short loop of runs; none for other shapes.
    fn entries(&self) -> Option<usize> {
        match &self.shape {
            Shape::Run => Some(1),
            Shape::Gather { places, .. } => Some(places.len()),
            Shape::Runs(runs) => Some(runs.len() - 1),
            Shape::List(items) => Some(items.len()),
            Shape::Loop(l) if matches!(l.body.shape, Shape::Run) && l.count <= SHORT_LIST / 2 => {
                Some(l.count)
            }
            Shape::Loop(_) => None,
        }
    }

    /// The entries of a node that has some, as nodes of their own.
    fn for_each_entry(&self, by: isize, put: &mut impl FnMut(Node)) {
        let base = self.at + by;
        match &self.shape {
            Shape::Run => put(Node::run(base, self.bytes)),
            Shape::Gather { bytes, places } => places.iter().for_each(|at| put(Node::run(base + at, *bytes))),
            Shape::Runs(runs) => {
                runs.windows(2).for_each(|w| put(Node::run(base + w[0].at, w[1].offset - w[0].offset)));
            }
            Shape::List(items) => items.iter().for_each(|item| put(item.node.clone().shifted(base))),
            Shape::Loop(l) => {
                for i in 0..l.count as isize {
                    put(l.body.clone().shifted(base + i * l.stride));
                }
            }
        }
    }

    /// A short loop of runs as a list, which is copied faster inside another loop.
    fn as_short_list(&self) -> Node {
        match &self.shape {
            Shape::Loop(l) if self.entries().is_some() => {
                let places = (0..l.count as isize).map(|i| l.body.at + i * l.stride).collect();
                Node { shape: Shape::Gather { bytes: l.body.bytes, places }, ..*self }
            }
            _ => self.clone(),
        }
    }
}

/// Nodes being joined; neighbouring runs have become one.
#[derive(Default)]
struct Joined {
    nodes: Vec<Node>,
    all_runs: bool,
}

impl Joined {
    fn push(&mut self, node: Node) {
        let is_run = matches!(node.shape, Shape::Run);
        if self.nodes.is_empty() {
            self.all_runs = true;
        }
        self.all_runs &= is_run;
        if is_run
            && let Some(last) = self.nodes.last_mut()
            && matches!(last.shape, Shape::Run)
            && last.at.checked_add_unsigned(last.bytes) == Some(node.at)
        {
            last.bytes += node.bytes;
            return;
        }
        self.nodes.push(node);
    }

    fn finish(mut self) -> Option<Node> {
        if self.nodes.len() < 2 {
            return self.nodes.pop();
        }
        let bytes = self.nodes.iter().map(|node| node.bytes).sum();
        let shape = if !self.all_runs {
            Shape::List(with_offsets(self.nodes, |offset, node| Item { offset, node }))
        } else {
            let (at, each) = (self.nodes[0].at, self.nodes[0].bytes);
            if self.nodes.iter().any(|node| node.bytes != each) {
                self.nodes.push(Node::run(0, 0));
                Shape::Runs(with_offsets(self.nodes, |offset, node| Run { offset, at: node.at }))
            } else if let Some(stride) = regular(&self.nodes) {
                let body = Node::run(0, each);
                let shape = Shape::Loop(Rc::new(Loop { count: self.nodes.len(), stride, body }));
                return Some(Node { at, bytes, shape });
            } else {
                Shape::Gather { bytes: each, places: self.nodes.iter().map(|node| node.at).collect() }
            }
        };
        Some(Node { at: 0, bytes, shape })
    }
}

/// The distance between neighbours, when it is always the same.
fn regular(nodes: &[Node]) -> Option<isize> {
    let stride = nodes[1].at.checked_sub(nodes[0].at)?;
    nodes.windows(2).all(|w| w[1].at.checked_sub(w[0].at) == Some(stride)).then_some(stride)
}

fn with_offsets<T>(nodes: Vec<Node>, entry: impl Fn(usize, Node) -> T) -> Rc<[T]> {
    let mut offset = 0;
    nodes
        .into_iter()
        .map(|node| {
            let here = offset;
            offset += node.bytes;
            entry(here, node)
        })
        .collect()
}

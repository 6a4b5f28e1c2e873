//! The places of a file that a view shows (MPI 14.3): from a displacement on, the data of a file type,
//! repeated without end.
//!
//! The data that a view shows are a stream of bytes. A position counts in the stream, an offset in the file.
//! Because a file type goes forward only, each range of the file is one range of the stream, and both ways
//! from one to the other take a division for each nested loop.

use std::fmt;

use crate::node::{Node, Shape};

/// A view of a file.
#[derive(Clone, Debug)]
pub struct View {
    displacement: i64,
    /// One element of the file type; none when it has no data.
    body: Option<Node>,
    /// Bytes of the file from one to the next. Of a type whose elements would lie in each other it is so
    /// large that the second one lies beyond any file.
    stride: i64,
    /// Some bytes are shown more than once.
    overlaps: bool,
}

/// Why a type cannot be that of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Some data lie at this displacement, before the view begins.
    Negative(i64),
    /// Some data lie before those in front of them.
    Backward,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Negative(at) => write!(f, "it has data at displacement {at}, expected 0 or more"),
            Unfit::Backward => {
                f.write_str("its displacements go backward, expected each at or behind the one before")
            }
        }
    }
}

/// Equal runs of a file at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Where the first begins.
    pub offset: i64,
    /// Bytes of each; never 0.
    pub bytes: u64,
    /// Bytes from one to the next.
    pub stride: i64,
    /// How many; never 0.
    pub count: u64,
}

impl Runs {
    /// One run.
    pub fn one(offset: i64, bytes: u64) -> Self {
        Runs { offset, bytes, stride: 0, count: 1 }
    }

    /// The byte behind the last one.
    pub fn end(&self) -> i64 {
        self.offset + self.stride * (self.count as i64 - 1) + self.bytes as i64
    }

    /// Bytes of all.
    pub fn total(&self) -> u64 {
        self.bytes * self.count
    }

    /// How many of its bytes lie before an offset.
    pub fn total_before(&self, offset: i64) -> u64 {
        if offset >= self.end() {
            return self.total();
        }
        let inside = offset.saturating_sub(self.offset).max(0);
        let whole = if self.count > 1 { (inside / self.stride) as u64 } else { 0 };
        whole * self.bytes + ((inside - whole as i64 * self.stride) as u64).min(self.bytes)
    }

    /// Offset and bytes of each.
    pub fn each(self) -> impl Iterator<Item = (i64, u64)> {
        (0..self.count).map(move |i| (self.offset + self.stride * i as i64, self.bytes))
    }
}

/// A list of runs, in which those that continue a pattern are one entry.
#[derive(Clone, Debug, Default)]
pub struct RunList(Vec<Runs>);

impl RunList {
    /// Adds runs behind those that are there.
    pub fn push(&mut self, runs: Runs) {
        if let Some(last) = self.0.last_mut() {
            if last.count == 1 && last.end() == runs.offset && runs.count == 1 {
                last.bytes += runs.bytes;
                return;
            }
            let continues = runs.count == 1 || (runs.stride == last.stride && last.count > 1);
            if continues && last.bytes == runs.bytes {
                let step = runs.offset - last.offset;
                if last.count == 1 && step > 0 {
                    // One run behind one run: a pattern may begin.
                    (last.stride, last.count) = (step, 2);
                    return;
                }
                if last.count > 1 && step == last.stride * last.count as i64 {
                    last.count += runs.count;
                    return;
                }
            }
        }
        self.0.push(runs);
    }

    /// The entries.
    pub fn entries(&self) -> &[Runs] {
        &self.0
    }

    /// Bytes of all.
    pub fn total(&self) -> u64 {
        self.0.iter().map(Runs::total).sum()
    }

    /// The runs as the program of a type whose address is that of the byte at `base` of the file.
    pub fn node(&self, base: i64) -> Option<Node> {
        let nodes = self.0.iter().filter_map(|runs| {
            let run = Node::run((runs.offset - base) as isize, runs.bytes as usize);
            run.repeat(runs.count as usize, runs.stride as isize)
        });
        Node::concat(nodes)
    }
}

impl From<Vec<Runs>> for RunList {
    fn from(entries: Vec<Runs>) -> Self {
        RunList(entries)
    }
}

/// Where the runs of a node begin and end.
#[derive(Clone, Copy)]
struct Span {
    first: i128,
    last: i128,
    end: i128,
    forward: bool,
    overlaps: bool,
}

impl Span {
    fn of(node: &Node) -> Span {
        let at = node.at as i128;
        let span = match &node.shape {
            Shape::Run => Span { first: 0, last: 0, end: node.bytes as i128, forward: true, overlaps: false },
            Shape::Loop(l) => Span::of(&l.body).repeated(l.count as i128, l.stride as i128),
            Shape::Gather { bytes, places } => {
                Span::of_all(places.iter().map(|place| Span::of(&Node::run(*place, *bytes))))
            }
            Shape::Runs(runs) => Span::of_all(
                runs.windows(2).map(|w| Span::of(&Node::run(w[0].at, w[1].offset - w[0].offset))),
            ),
            Shape::List(items) => Span::of_all(items.iter().map(|item| Span::of(&item.node))),
        };
        Span { first: span.first + at, last: span.last + at, end: span.end + at, ..span }
    }

    fn repeated(self, count: i128, stride: i128) -> Span {
        if count < 2 {
            return self;
        }
        let shift = (count - 1) * stride;
        Span {
            first: self.first,
            last: self.last + shift,
            end: self.end + shift.max(0),
            forward: self.forward && self.first + stride >= self.last,
            overlaps: self.overlaps || self.first + stride < self.end,
        }
    }

    fn of_all(mut spans: impl Iterator<Item = Span>) -> Span {
        let first = spans.next().expect("a list has entries");
        spans.fold(first, |all, next| Span {
            first: all.first,
            last: next.last,
            end: all.end.max(next.end),
            forward: all.forward && next.forward && next.first >= all.last,
            overlaps: all.overlaps || next.overlaps || next.first < all.end,
        })
    }
}

impl View {
    /// A view of a type of this shape and extent from `displacement` on.
    ///
    /// # Errors
    /// When the type's data lie before its beginning, or not one behind the other. That its elements do not
    /// is no error (MPI 14.3 asks it of the type alone, and PnetCDF puts a whole file's header before a
    /// subarray, whose bounds hold for both): only the first one is shown.
    pub fn new(displacement: i64, node: Option<&Node>, extent: i128) -> Result<View, Unfit> {
        let stride = extent.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let Some(node) = node else { return Ok(View { displacement, body: None, stride, overlaps: false }) };
        let span = Span::of(node);
        if span.first < 0 {
            return Err(Unfit::Negative(span.first as i64));
        }
        if !span.forward {
            return Err(Unfit::Backward);
        }
        let tiled = span.repeated(2, stride.into());
        let (stride, overlaps) =
            if tiled.forward && stride > 0 { (stride, tiled.overlaps) } else { (i64::MAX, span.overlaps) };
        let mut view = View { displacement, body: Some(node.clone()), stride, overlaps };
        if let Shape::Run = node.shape
            && node.bytes as i64 == stride
        {
            view.displacement = displacement.saturating_add(node.at as i64);
            view.body = Some(Node::run(0, node.bytes));
        }
        Ok(view)
    }

    /// All bytes of the file.
    pub fn of_bytes() -> View {
        View { displacement: 0, body: Some(Node::run(0, 1)), stride: 1, overlaps: false }
    }

    /// Whether some bytes are shown more than once.
    pub fn overlaps(&self) -> bool {
        self.overlaps
    }

    /// The first element alone, as it is shown to who writes: a byte that is shown once by each element is
    /// written once then. Every access behind it is beyond any file.
    #[must_use]
    pub fn without_overlapping_elements(mut self) -> View {
        if let Some(body) = self.body.as_ref().filter(|_| self.overlaps) {
            let span = Span::of(body);
            if !span.overlaps {
                (self.stride, self.overlaps) = (i64::MAX, false);
            }
        }
        self
    }

    /// Whether it shows all bytes from some offset on.
    pub fn is_contiguous(&self) -> bool {
        let fills = |body: &Node| matches!(body.shape, Shape::Run) && body.bytes as i64 == self.stride;
        self.body.as_ref().is_some_and(fills)
    }

    /// Whether the type has no data, so that nothing can be accessed.
    pub fn is_empty(&self) -> bool {
        self.body.is_none()
    }

    /// Offset of the byte at a position; none when it is beyond any file.
    pub fn offset_of(&self, position: u64) -> Option<i64> {
        let Some(body) = &self.body else { return Some(self.displacement) };
        let each = body.bytes as u64;
        let (element, skip) = (position / each, (position % each) as usize);
        let base = i128::from(self.displacement) + i128::from(element) * i128::from(self.stride);
        i64::try_from(base + place(body, skip)).ok()
    }

    /// Offset behind the last of `bytes` bytes from a position on; none when it is beyond any file.
    pub fn end_of(&self, position: u64, bytes: u64) -> Option<i64> {
        if bytes == 0 {
            return self.offset_of(position);
        }
        self.offset_of(position.checked_add(bytes - 1)?)?.checked_add(1)
    }

    /// How many bytes of the stream lie before an offset. Of a view that shows bytes twice, up to the last
    /// copy.
    pub fn position_of(&self, offset: i64) -> u64 {
        let Some(body) = &self.body else { return 0 };
        // Elements count from where their data begin, which may be far behind where their extents do. The
        // data of those before end before this one's.
        let inside = i128::from(offset) - i128::from(self.displacement);
        let behind_first = inside - first(body);
        if behind_first <= 0 {
            return 0;
        }
        let element = behind_first / i128::from(self.stride);
        let rest = inside - element * i128::from(self.stride);
        element as u64 * body.bytes as u64 + data_before(body, rest) as u64
    }

    /// Calls `visit` with the runs of `bytes` bytes from a position on, in order, until it gives false. The
    /// caller has checked that they end before the last offset ([`View::end_of`]).
    pub fn for_each(&self, position: u64, bytes: u64, visit: &mut dyn FnMut(Runs) -> bool) {
        let Some(body) = &self.body else { return };
        if bytes == 0 {
            return;
        }
        if self.is_contiguous() {
            visit(Runs::one(self.displacement + position as i64, bytes));
            return;
        }
        let each = body.bytes as u64;
        let (element, skip) = ((position / each) as i64, (position % each) as usize);
        let mut walk = Walk { left: bytes, visit };
        walk.repeated(body, self.displacement + element * self.stride, self.stride, u64::MAX, skip);
    }

    /// The runs of `bytes` bytes from a position on.
    pub fn runs(&self, position: u64, bytes: u64) -> RunList {
        let mut list = RunList::default();
        self.for_each(position, bytes, &mut |runs| {
            list.push(runs);
            true
        });
        list
    }
}

/// Displacement of a byte of a node's data.
fn place(node: &Node, skip: usize) -> i128 {
    let at = node.at as i128;
    at + match &node.shape {
        Shape::Run => skip as i128,
        Shape::Loop(l) => {
            let (i, rest) = (skip / l.body.bytes, skip % l.body.bytes);
            i as i128 * l.stride as i128 + place(&l.body, rest)
        }
        Shape::Gather { bytes, places } => places[skip / bytes] as i128 + (skip % bytes) as i128,
        Shape::Runs(runs) => {
            let i = runs.partition_point(|run| run.offset <= skip) - 1;
            runs[i].at as i128 + (skip - runs[i].offset) as i128
        }
        Shape::List(items) => {
            let i = items.partition_point(|item| item.offset <= skip) - 1;
            place(&items[i].node, skip - items[i].offset)
        }
    }
}

/// Where the first data of a node lie.
fn first(node: &Node) -> i128 {
    place(node, 0)
}

/// Bytes of a node's data that lie before a displacement; its runs go forward and do not overlap.
fn data_before(node: &Node, displacement: i128) -> usize {
    let inside = displacement - node.at as i128;
    if inside <= 0 && first(node) >= displacement {
        return 0;
    }
    match &node.shape {
        Shape::Run => inside.clamp(0, node.bytes as i128) as usize,
        Shape::Loop(l) => {
            let from_first = inside - first(&l.body);
            if from_first <= 0 {
                return 0;
            }
            // Of copies at one place, which a view that is only read may have, the last.
            let i = from_first.checked_div(l.stride as i128).unwrap_or(i128::MAX);
            let i = i.clamp(0, l.count as i128 - 1);
            i as usize * l.body.bytes + data_before(&l.body, inside - i * l.stride as i128)
        }
        Shape::Gather { bytes, places } => {
            let i = places.partition_point(|place| (*place as i128) < inside);
            if i == 0 {
                return 0;
            }
            (i - 1) * bytes + (inside - places[i - 1] as i128).min(*bytes as i128) as usize
        }
        Shape::Runs(runs) => {
            let i = runs[..runs.len() - 1].partition_point(|run| (run.at as i128) < inside);
            if i == 0 {
                return 0;
            }
            let bytes = runs[i].offset - runs[i - 1].offset;
            runs[i - 1].offset + (inside - runs[i - 1].at as i128).min(bytes as i128) as usize
        }
        Shape::List(items) => {
            let i = items.partition_point(|item| first(&item.node) < inside);
            if i == 0 {
                return 0;
            }
            items[i - 1].offset + data_before(&items[i - 1].node, inside)
        }
    }
}

/// On the way through the runs of a range.
struct Walk<'a> {
    left: u64,
    visit: &'a mut dyn FnMut(Runs) -> bool,
}

impl Walk<'_> {
    /// `bytes` bytes at an offset, or as many as are left; whether to continue.
    fn run(&mut self, offset: i64, bytes: u64) -> bool {
        let bytes = bytes.min(self.left);
        self.left -= bytes;
        (bytes == 0 || (self.visit)(Runs::one(offset, bytes))) && self.left > 0
    }

    /// A node `count` times from its byte `skip` on.
    fn repeated(&mut self, body: &Node, mut base: i64, stride: i64, mut count: u64, skip: usize) -> bool {
        if skip > 0 {
            if !self.node(body, base, skip) {
                return false;
            }
            base += stride;
            count -= 1;
        }
        if let Shape::Run = body.shape {
            let bytes = body.bytes as u64;
            let whole = (self.left / bytes).min(count);
            if whole > 0 {
                self.left -= whole * bytes;
                let runs = Runs { offset: base + body.at as i64, bytes, stride, count: whole };
                if !(self.visit)(runs) || self.left == 0 {
                    return false;
                }
                base += stride * whole as i64;
            }
            return whole == count || self.run(base + body.at as i64, bytes);
        }
        while count > 0 {
            if !self.node(body, base, 0) {
                return false;
            }
            base += stride;
            count -= 1;
        }
        true
    }

    fn node(&mut self, node: &Node, base: i64, skip: usize) -> bool {
        let base = base + node.at as i64;
        match &node.shape {
            Shape::Run => self.run(base + skip as i64, (node.bytes - skip) as u64),
            Shape::Loop(l) => {
                let (i, rest) = (skip / l.body.bytes, skip % l.body.bytes);
                let begin = base + i as i64 * l.stride as i64;
                self.repeated(&l.body, begin, l.stride as i64, (l.count - i) as u64, rest)
            }
            Shape::Gather { bytes, places } => {
                let (i, mut rest) = (skip / bytes, skip % bytes);
                places[i..].iter().all(|place| {
                    let skip = std::mem::take(&mut rest);
                    self.run(base + *place as i64 + skip as i64, (bytes - skip) as u64)
                })
            }
            Shape::Runs(runs) => {
                let i = runs.partition_point(|run| run.offset <= skip) - 1;
                let mut rest = skip - runs[i].offset;
                runs[i..].windows(2).all(|w| {
                    let skip = std::mem::take(&mut rest);
                    let bytes = w[1].offset - w[0].offset - skip;
                    self.run(base + w[0].at as i64 + skip as i64, bytes as u64)
                })
            }
            Shape::List(items) => {
                let i = items.partition_point(|item| item.offset <= skip) - 1;
                let mut rest = skip - items[i].offset;
                items[i..].iter().all(|item| {
                    let skip = std::mem::take(&mut rest);
                    self.node(&item.node, base, skip)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Element, Wire};
    use crate::part::Part;

    fn int() -> Part {
        Part::of_element(Element::Signed(4), Wire::Same)
    }

    fn view(displacement: i64, part: &Part) -> View {
        View::new(displacement, part.node.as_ref(), part.bounds.extent()).unwrap()
    }

    /// Types with runs in loops, in lists, and in lists inside loops.
    fn types() -> Vec<Part> {
        let vector = int().contiguous(2).unwrap().repeat(40, 24).unwrap();
        let matrix = vector.resized(0, 1000).unwrap().repeat(3, 1000).unwrap();
        let lengths = [1, 3, 2, 1, 4_i64];
        let places = [4, 12, 40, 60, 64_i128];
        let blocks = int().blocks(lengths.into_iter(), places.into_iter()).unwrap();
        let many = int().blocks((0..40).map(|i| 1 + i % 3), (0..40).map(|i| i128::from(i) * 20 + 8)).unwrap();
        let list =
            Part::concat(vec![matrix.clone(), vector.shift(3100).unwrap(), blocks.shift(4400).unwrap()]);
        let resized = blocks.resized(0, 120).unwrap().contiguous(7).unwrap();
        let list = list.and_then(|list| list.resized(0, 5000)).unwrap();
        vec![int(), vector, matrix, blocks, many, list, resized]
    }

    #[test]
    fn view_finds_every_byte_both_ways() {
        for (index, part) in types().iter().enumerate() {
            let view = view(100, part);
            let bytes = part.bounds.size as u64 * 2 + 5;
            let mut offsets = Vec::new();
            view.for_each(0, bytes, &mut |runs| {
                offsets.extend(runs.each().flat_map(|(at, bytes)| at..at + bytes as i64));
                true
            });
            assert_eq!(offsets.len() as u64, bytes, "type {index}");
            assert!(offsets.is_sorted(), "type {index}");
            for (position, offset) in offsets.iter().enumerate() {
                assert_eq!(view.offset_of(position as u64), Some(*offset), "type {index}");
            }
            for offset in 0..offsets[offsets.len() - 1] {
                let before = offsets.partition_point(|other| *other < offset) as u64;
                assert_eq!(view.position_of(offset), before, "type {index}, offset {offset}");
            }
            for begin in (0..bytes).step_by(7) {
                let part = (bytes - begin).min(93);
                let mut found = Vec::new();
                for runs in view.runs(begin, part).entries() {
                    found.extend(runs.each().flat_map(|(at, bytes)| at..at + bytes as i64));
                }
                assert_eq!(found, offsets[begin as usize..(begin + part) as usize], "type {index}");
            }
        }
    }

    #[test]
    fn view_beyond_two_gigabytes_keeps_its_places() {
        let row = int().resized(0, 3 << 30).unwrap();
        let view = view(1 << 40, &row);
        assert_eq!(view.offset_of(4 * 5), Some((1 << 40) + 5 * (3 << 30)));
        assert_eq!(view.position_of((1 << 40) + 5 * (3 << 30) + 2), 22);
        assert_eq!(view.offset_of(u64::MAX), None);
        assert_eq!(view.end_of(u64::MAX - 3, 100), None);
    }

    #[test]
    fn view_refuses_types_that_go_backward() {
        let refused = |part: &Part| View::new(0, part.node.as_ref(), part.bounds.extent()).unwrap_err();
        assert_eq!(refused(&int().shift(-4).unwrap()), Unfit::Negative(-4));
        let backward = int().blocks([1, 1_i64].into_iter(), [8, 0_i128].into_iter()).unwrap();
        assert_eq!(refused(&backward), Unfit::Backward);
        let twice = int().blocks([2, 2_i64].into_iter(), [0, 4_i128].into_iter()).unwrap();
        assert!(view(0, &twice).overlaps());
        assert!(!view(0, &int()).overlaps() && view(7, &int()).is_contiguous());
    }

    /// Of a type with a lower bound, as PnetCDF's lists of blocks are.
    #[test]
    fn view_counts_elements_from_their_data() {
        for lower in [0, 1, 7, 20, 1000] {
            let part = int().blocks([1, 1_i64].into_iter(), [lower, lower + 8_i128].into_iter()).unwrap();
            let view = view(5, &part);
            let offsets: Vec<i64> =
                (0..64).map(|position| view.offset_of(position).expect("it is in the file")).collect();
            assert_eq!(offsets[..9], [0, 1, 2, 3, 8, 9, 10, 11, 12].map(|at| 5 + lower as i64 + at));
            for offset in 0..offsets[63] {
                let before = offsets.partition_point(|other| *other < offset) as u64;
                assert_eq!(view.position_of(offset), before, "lower bound {lower}, offset {offset}");
            }
        }
    }

    #[test]
    fn view_of_elements_in_each_other_shows_the_first() {
        for (lower, extent) in [(0, 4), (0, 0), (8, -4)] {
            let part = int().repeat(3, 8).unwrap().resized(lower, extent).unwrap();
            let view = view(100, &part);
            assert!(!view.overlaps() && !view.is_contiguous());
            let offsets = [0, 4, 8, 11].map(|position| view.offset_of(position));
            assert_eq!(offsets, [100, 108, 116, 119].map(Some));
            assert_eq!((view.end_of(0, 12), view.end_of(0, 13), view.end_of(12, 1)), (Some(120), None, None));
            let positions =
                [0, 100, 103, 107, 108, 118, 120, i64::MAX].map(|offset| view.position_of(offset));
            assert_eq!(positions, [0, 0, 3, 4, 4, 10, 12, 12]);
            let runs: Vec<_> = view.runs(2, 10).entries().iter().flat_map(|runs| runs.each()).collect();
            assert_eq!(runs, [(102, 2), (108, 4), (116, 4)]);
        }
        let shown = view(100, &int().resized(0, 2).unwrap());
        assert!(shown.overlaps() && shown.offset_of(4) == Some(102));
        let written = shown.without_overlapping_elements();
        assert!(!written.overlaps() && written.offset_of(3) == Some(103) && written.offset_of(4).is_none());
        let twice = int().blocks([2, 2_i64].into_iter(), [0, 4_i128].into_iter()).unwrap();
        assert!(view(0, &twice).without_overlapping_elements().overlaps());
    }

    #[test]
    fn view_runs_of_a_pattern_are_one_entry() {
        let vector = int().repeat(1000, 16).unwrap();
        let list = view(0, &vector.resized(0, 16_000).unwrap()).runs(0, 8000);
        assert_eq!(list.entries(), [Runs { offset: 0, bytes: 4, stride: 16, count: 2000 }]);
        let runs = list.entries()[0];
        assert_eq!((runs.end(), runs.total(), runs.total_before(17)), (31_988, 8000, 5));
        assert_eq!((runs.total_before(-3), runs.total_before(1 << 30)), (0, 8000));
        assert_eq!(list.node(0).unwrap().bytes, 8000);
    }
}

//! Array sections: a type's data in an array whose elements do not lie side by side, as Fortran hands it
//! over.
//!
//! Data are described as if the elements followed each other; [`Part::through`] moves every byte to where the
//! section has it. So any type may meet any section: a run of bytes may end in the midst of an element.

use crate::bounds::Bounds;
use crate::node::{Node, Shape};
use crate::part::{Part, TooLarge};

/// An array section. The first dimension varies fastest.
#[derive(Clone, Debug)]
pub struct Section {
    element_bytes: usize,
    dimensions: Vec<Dimension>,
}

#[derive(Clone, Copy, Debug)]
struct Dimension {
    /// Elements of all dimensions in front of it.
    before: usize,
    /// Bytes from one of its elements to the next.
    stride: isize,
}

/// Why a type's data have no place in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Data that begin before the section or end behind it: bytes of the data's range, bytes of the section.
    Outside(i128, i128),
    /// Numbers leave this machine.
    TooLarge,
}

impl From<TooLarge> for Misfit {
    fn from(_: TooLarge) -> Self {
        Misfit::TooLarge
    }
}

impl Section {
    /// Of elements of so many bytes; for each dimension the number of elements and the bytes from one to the
    /// next. The last one may be -1 elements long: it is as long as it must be. None if there are no bytes,
    /// or too many.
    pub fn new(element_bytes: usize, dimensions: &[(isize, isize)]) -> Option<(Self, Option<usize>)> {
        let mut section = Section { element_bytes, dimensions: Vec::new() };
        let mut elements = Some(1_usize);
        for (at, &(extent, stride)) in dimensions.iter().enumerate() {
            section.dimensions.push(Dimension { before: elements?, stride });
            elements = match usize::try_from(extent) {
                Ok(extent) => Some(elements?.checked_mul(extent)?),
                Err(_) if at + 1 == dimensions.len() => None,
                Err(_) => return None,
            };
        }
        let bytes = match elements {
            Some(elements) => Some(elements.checked_mul(element_bytes)?),
            None => None,
        };
        (element_bytes > 0 && bytes != Some(0)).then_some((section, bytes))
    }

    /// Where the bytes from `at` on lie.
    fn put(&self, at: usize, bytes: usize, nodes: &mut Vec<Node>) {
        let (size, end) = (self.element_bytes, at + bytes);
        let (first, last) = (at.div_ceil(size), end / size);
        if first > last {
            return nodes.push(Node::run(self.place(last) + (at % size) as isize, bytes));
        }
        if at < first * size {
            nodes.push(Node::run(self.place(first - 1) + (at % size) as isize, first * size - at));
        }
        if first < last {
            self.put_elements(self.dimensions.len(), first, last, 0, nodes);
        }
        if last * size < end {
            nodes.push(Node::run(self.place(last), end - last * size));
        }
    }

    /// Where an element lies.
    fn place(&self, mut element: usize) -> isize {
        let mut place = 0;
        for dimension in self.dimensions.iter().rev() {
            place += (element / dimension.before) as isize * dimension.stride;
            element %= dimension.before;
        }
        place
    }

    /// Elements `first..last` of the first `rank` dimensions, at `by`.
    fn put_elements(&self, rank: usize, first: usize, last: usize, by: isize, nodes: &mut Vec<Node>) {
        let Some((dimension, rank)) = rank.checked_sub(1).map(|rank| (self.dimensions[rank], rank)) else {
            return nodes.push(Node::run(by, self.element_bytes));
        };
        let each = dimension.before;
        let at = |index: usize| by + index as isize * dimension.stride;
        let (mut from, to) = (first / each, last / each);
        if from == to {
            return self.put_elements(rank, first % each, last % each, at(from), nodes);
        }
        if !first.is_multiple_of(each) {
            self.put_elements(rank, first % each, each, at(from), nodes);
            from += 1;
        }
        if from < to {
            let mut whole = Vec::new();
            self.put_elements(rank, 0, each, 0, &mut whole);
            let whole = Node::concat(whole.into_iter());
            let all = whole.and_then(|whole| whole.repeat(to - from, dimension.stride));
            nodes.extend(all.map(|all| all.shifted(at(from))));
        }
        if !last.is_multiple_of(each) {
            self.put_elements(rank, 0, last % each, at(to), nodes);
        }
    }

    /// Moves all bytes of a node whose displacements count from `by`.
    fn put_node(&self, node: &Node, by: isize, nodes: &mut Vec<Node>) {
        let base = by + node.at;
        match &node.shape {
            Shape::Run => self.put(base as usize, node.bytes, nodes),
            Shape::Gather { bytes, places } => {
                places.iter().for_each(|place| self.put((base + place) as usize, *bytes, nodes));
            }
            Shape::Runs(runs) => runs.windows(2).for_each(|w| {
                self.put((base + w[0].at) as usize, w[1].offset - w[0].offset, nodes);
            }),
            Shape::List(items) => items.iter().for_each(|item| self.put_node(&item.node, base, nodes)),
            Shape::Loop(l) => {
                (0..l.count as isize).for_each(|i| self.put_node(&l.body, base + i * l.stride, nodes));
            }
        }
    }
}

impl Part {
    /// `count` elements of the type in an array section of so many bytes (none: as many as needed), as one
    /// element of a type of its own.
    ///
    /// # Errors
    /// When they lie outside the section, or their numbers leave this machine.
    pub fn through(&self, count: i64, section: &Section, bytes: Option<usize>) -> Result<Part, Misfit> {
        let whole = self.contiguous(count)?;
        let Some(node) = whole.node.as_ref() else {
            return if whole.bounds.size == 0 { Ok(Part::empty()) } else { Err(Misfit::TooLarge) };
        };
        let begin = whole.bounds.true_lower();
        let end = begin + whole.bounds.true_extent();
        let room = bytes.map_or(i128::from(i64::MAX), |bytes| bytes as i128);
        if begin < 0 || end > room {
            return Err(Misfit::Outside(if begin < 0 { begin } else { end }, room));
        }
        let mut nodes = Vec::new();
        section.put_node(node, 0, &mut nodes);
        let node = Node::concat(nodes.into_iter());
        let (mut first, mut behind) = (isize::MAX, isize::MIN);
        if let Some(node) = &node {
            node.for_each_run(0, &mut |at, bytes| {
                let at = at as isize;
                (first, behind) = (first.min(at), behind.max(at.wrapping_add_unsigned(bytes)));
                true
            });
        }
        let bounds = Bounds::of_data(whole.bounds.size, first as i128, behind as i128);
        Ok(Part { bounds, node, fits: true, signature: whole.signature })
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::{Datatype, Description, Element, Layout, Wire};

    /// Loads `count` elements of `part` from the section of an array of 1,000 numbered shorts.
    fn load(
        part: &Part,
        count: i64,
        first: isize,
        dimensions: &[(isize, isize)],
        element: usize,
    ) -> Vec<u16> {
        let mut array: Vec<u16> = (0..1000).collect();
        let (section, bytes) = Section::new(element, dimensions).unwrap();
        let part = part.through(count, &section, bytes).unwrap();
        let layout = Layout { part, description: Description::default(), handle: None };
        let mut datatype = Datatype::new(Rc::new(layout));
        datatype.commit(false);
        let buffer = datatype.buffer(array.as_mut_ptr().cast::<u8>().wrapping_offset(first), 1).unwrap();
        let mut found = vec![0_u16; buffer.bytes / 2];
        // SAFETY: the array has all elements of the section, and the other one room for the data.
        unsafe { buffer.load(0, found.as_mut_ptr().cast(), buffer.bytes) };
        found
    }

    fn short() -> Part {
        Part::of_element(Element::Signed(2), Wire::Same)
    }

    #[test]
    fn section_elements_are_where_the_strides_lead() {
        // array(10:4:-3), and a(1:7:2, 2:3) of an array of ten rows.
        assert_eq!(load(&short(), 3, 20, &[(3, -6)], 2), [10, 7, 4]);
        assert_eq!(load(&short(), 8, 0, &[(4, 4), (2, 20)], 2), [0, 2, 4, 6, 10, 12, 14, 16]);
        // The first six only, and as many as needed of an assumed size.
        assert_eq!(load(&short(), 6, 0, &[(4, 4), (2, 20)], 2), [0, 2, 4, 6, 10, 12]);
        assert_eq!(load(&short(), 9, 0, &[(4, 4), (-1, 20)], 2), [0, 2, 4, 6, 10, 12, 14, 16, 20]);
        let cube: Vec<u16> = (0..24).map(|i| i % 2 * 3 + i / 2 % 3 * 10 + i / 6 * 100).collect();
        assert_eq!(load(&short(), 24, 0, &[(2, 6), (3, 20), (4, 200)], 2), cube);
    }

    #[test]
    fn section_of_larger_elements_is_cut_by_types_of_any_size() {
        // Elements of three shorts, every second one; types of two shorts with a gap of one.
        let pair = short().contiguous(2).unwrap();
        let elements: Vec<u16> = (0..12).map(|i| i / 3 * 6 + i % 3).collect();
        assert_eq!(load(&pair, 6, 0, &[(4, 12)], 6), elements);
        let gap = pair.resized(0, 6).unwrap();
        let expected: Vec<u16> = (0..4).flat_map(|i| [elements[i * 3], elements[i * 3 + 1]]).collect();
        assert_eq!(load(&gap, 4, 0, &[(4, 12)], 6), expected);
        let vector = short().repeat(4, 4).unwrap();
        let expected: Vec<u16> = (0..4).map(|i| elements[i * 2]).collect();
        assert_eq!(load(&vector, 1, 0, &[(4, 12)], 6), expected);
    }

    #[test]
    fn section_must_hold_all_data() {
        let (section, bytes) = Section::new(2, &[(4, 4)]).unwrap();
        assert_eq!(short().through(5, &section, bytes).unwrap_err(), Misfit::Outside(10, 8));
        assert_eq!(
            short().shift(-2).unwrap().through(1, &section, bytes).unwrap_err(),
            Misfit::Outside(-2, 8)
        );
        assert_eq!(short().through(0, &section, bytes).unwrap().bounds.size, 0);
        assert!(Section::new(2, &[(0, 4)]).is_none());
    }
}

//! Where the data of one element of a type lie, and what they are: everything of a type but how it was made.

use crate::bounds::Bounds;
use crate::element::{Basic, Element, Wire};
use crate::node::Node;
use crate::signature::Signature;

/// A type whose numbers leave 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Where the data of one element lie, and what they are.
#[derive(Clone, Debug)]
pub struct Part {
    /// Size and bounds.
    pub bounds: Bounds,
    /// The bytes; none when there are no data or they do not fit memory.
    pub node: Option<Node>,
    /// Whether all numbers of the type fit this machine; otherwise it can be described but not communicated.
    pub fits: bool,
    /// The basic types.
    pub signature: Signature,
}

impl Part {
    /// No data.
    pub fn empty() -> Self {
        Part { bounds: Bounds::EMPTY, node: None, fits: true, signature: Signature::empty() }
    }

    /// Of one element that is not part of another type; of a pair with the gap that C puts between its
    /// members.
    pub fn of_element(element: Element, wire: Wire) -> Part {
        let (size, align) = (element.bytes(), element.align());
        let Element::Pair(pair) = element else {
            let signature = Signature::basic(Basic { element, wire });
            let node = Some(Node::run(0, size));
            return Part { bounds: Bounds::basic(size, align), node, fits: true, signature };
        };
        let (first, second) = pair.members();
        let at = first.bytes().next_multiple_of(second.align());
        let runs = [Node::run(0, first.bytes()), Node::run(at as isize, second.bytes())];
        let members = vec![
            Signature::basic(Basic { element: first, wire }),
            // An index travels as it is.
            Signature::basic(Basic {
                element: second,
                wire: if second == first { wire } else { Wire::Same },
            }),
        ];
        Part {
            bounds: Bounds::with_gaps(size, at + second.bytes(), align),
            node: Node::concat(runs.into_iter()),
            fits: true,
            signature: Signature::sequence(members).expect("two small numbers have a small sum"),
        }
    }

    /// `count` copies, `stride` bytes apart.
    ///
    /// # Errors
    /// When its numbers leave 128 bits.
    pub fn repeat(&self, count: i64, stride: i128) -> Result<Part, TooLarge> {
        let bounds = self.bounds.repeat(count, stride).ok_or(TooLarge)?;
        let signature = self.signature.repeat(count.into()).ok_or(TooLarge)?;
        Ok(Part::new(bounds, signature, self.fits, || {
            self.node.as_ref().and_then(|node| node.repeat(count as usize, stride as isize))
        }))
    }

    /// `count` copies, one after the other.
    ///
    /// # Errors
    /// As [`Part::repeat`].
    pub fn contiguous(&self, count: i64) -> Result<Part, TooLarge> {
        self.repeat(count, self.bounds.extent())
    }

    /// The same, `by` bytes further.
    ///
    /// # Errors
    /// As [`Part::repeat`].
    pub fn shift(&self, by: i128) -> Result<Part, TooLarge> {
        let bounds = self.bounds.shift(by).ok_or(TooLarge)?;
        Ok(Part::new(bounds, self.signature.clone(), self.fits, || {
            self.node.clone().map(|node| node.shifted(by as isize))
        }))
    }

    /// All parts, one after the other in the data.
    ///
    /// # Errors
    /// As [`Part::repeat`].
    pub fn concat(parts: Vec<Part>) -> Result<Part, TooLarge> {
        let mut bounds = Bounds::EMPTY;
        for part in &parts {
            bounds = bounds.and(&part.bounds).ok_or(TooLarge)?;
        }
        let fits = parts.iter().all(|part| part.fits);
        let (nodes, signatures): (Vec<_>, Vec<_>) =
            parts.into_iter().map(|part| (part.node, part.signature)).unzip();
        let signature = Signature::sequence(signatures).ok_or(TooLarge)?;
        Ok(Part::new(bounds, signature, fits, || Node::concat(nodes.into_iter().flatten())))
    }

    /// Blocks of `lengths` contiguous elements at `displacements` bytes.
    ///
    /// # Errors
    /// As [`Part::repeat`].
    pub fn blocks(
        &self,
        lengths: impl Iterator<Item = i64> + Clone,
        displacements: impl Iterator<Item = i128> + Clone,
    ) -> Result<Part, TooLarge> {
        let extent = self.bounds.extent();
        let blocks = || lengths.clone().zip(displacements.clone()).filter(|(length, _)| *length > 0);
        let mut bounds = Bounds::EMPTY;
        let mut elements = 0_i128;
        for (length, displacement) in blocks() {
            let block = self.bounds.repeat(length, extent).and_then(|block| block.shift(displacement));
            bounds = block.and_then(|block| bounds.and(&block)).ok_or(TooLarge)?;
            elements = elements.checked_add(length.into()).ok_or(TooLarge)?;
        }
        let signature = self.signature.repeat(elements).ok_or(TooLarge)?;
        Ok(Part::new(bounds, signature, self.fits, || {
            let node = self.node.as_ref()?;
            // Blocks of one length share their program.
            let mut known: Option<(i64, Node)> = None;
            Node::concat(blocks().filter_map(|(length, displacement)| {
                if known.as_ref().is_none_or(|(last, _)| *last != length) {
                    known = Some((length, node.repeat(length as usize, extent as isize)?));
                }
                known.as_ref().map(|(_, block)| block.clone().shifted(displacement as isize))
            }))
        }))
    }

    /// With bounds set by the user.
    ///
    /// # Errors
    /// As [`Part::repeat`].
    pub fn resized(&self, lower: i128, extent: i128) -> Result<Part, TooLarge> {
        let bounds = self.bounds.resized(lower, extent).ok_or(TooLarge)?;
        Ok(Part::new(bounds, self.signature.clone(), self.fits, || self.node.clone()))
    }

    fn new(
        bounds: Bounds,
        signature: Signature,
        parts_fit: bool,
        node: impl FnOnce() -> Option<Node>,
    ) -> Part {
        let fits = bounds.fit_memory() && (parts_fit || bounds.size == 0);
        let node = if fits && bounds.size > 0 { node() } else { None };
        Part { bounds, node, fits, signature }
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::{Datatype, Description, Layout};

    fn committed(part: Part) -> Datatype {
        let layout = Layout { part, description: Description::default(), handle: None };
        let mut datatype = Datatype::new(Rc::new(layout));
        datatype.commit(false);
        datatype
    }

    #[test]
    fn part_packs_and_unpacks_a_column_in_pieces() {
        // The second and third of eight columns of shorts.
        let short = Part::of_element(Element::Signed(2), Wire::Same);
        let part = short.contiguous(2).and_then(|pair| pair.repeat(10, 16)).and_then(|rows| rows.shift(2));
        let datatype = committed(part.unwrap());
        let mut matrix: Vec<u16> = (0..80).collect();
        let expected: Vec<u16> = (0..10).flat_map(|row| [row * 8 + 1, row * 8 + 2]).collect();
        let buffer = datatype.buffer(matrix.as_mut_ptr().cast(), 1).unwrap();
        assert_eq!(buffer.bytes, 40);
        let mut stream = [0_u16; 20];
        for (offset, bytes) in [(0, 7), (7, 1), (8, 20), (28, 12)] {
            // SAFETY: the matrix has all rows, and the stream has as many bytes as the data.
            unsafe { buffer.load(offset, stream.as_mut_ptr().cast::<u8>().add(offset), bytes) };
        }
        assert_eq!(stream[..], expected);
        stream.fill(999);
        // SAFETY: as above.
        unsafe { buffer.store(0, stream.as_ptr().cast(), 40) };
        let changed: Vec<u16> = (0..80).map(|i| if (1..3).contains(&(i % 8)) { 999 } else { i }).collect();
        assert_eq!(matrix, changed);
    }

    /// Two shorts, 8 bytes behind the address or before it, with other memory around them.
    fn short_pair(at: i128, lower: i128, extent: i128) -> Datatype {
        let pair = Part::of_element(Element::Signed(2), Wire::Same).repeat(2, 4);
        committed(pair.and_then(|pair| pair.shift(at)).and_then(|pair| pair.resized(lower, extent)).unwrap())
    }

    #[test]
    fn room_of_elements_has_what_lies_between_their_bounds() {
        for (at, lower, extent, span, room) in [
            (8, 0, 32, (8, 6 + 64), (0, 96)),
            (0, 0, 16, (0, 6 + 32), (0, 48)),
            (-8, -8, 16, (-8, 6 + 32), (-8, 24 + 32)),
            (-8, -16, 32, (-8, 6 + 64), (-16, 48 + 64)),
            (8, 0, -16, (8 - 32, 6 + 32), (8 - 32, 6 + 32)),
            // Bounds of an array at address 0, which the data are far from.
            (1 << 40, 0, 24, (1 << 40, 6 + 48), (1 << 40, 6 + 48)),
        ] {
            let elements = short_pair(at, lower, extent).elements();
            assert_eq!((elements.span(3), elements.room(3)), (span, room), "{at}, {lower}, {extent}");
            assert_eq!(elements.room(0).1, 0, "none");
        }
    }

    /// Scratch for elements with gaps counts from an address that may be that of packed data, and all data on
    /// MPI_BOTTOM have one address.
    #[test]
    fn buffers_of_one_address_are_one_only_where_their_data_lie_alike() {
        let mut memory = [0_u8; 64];
        let (near, far) = (short_pair(0, 0, 16), short_pair(32, 0, 48));
        let at = memory.as_mut_ptr();
        let [one, same, other] = [&near, &near, &far].map(|datatype| datatype.buffer(at, 1).unwrap());
        let packed = crate::Buffer::contiguous(at, 4);
        assert!(one.is_at(&same) && packed.is_at(&crate::Buffer::contiguous(at, 4)));
        assert!(!one.is_at(&other) && !one.is_at(&packed) && !packed.is_at(&one));
        assert!(!one.is_at(&one.part(2, 2)) && !one.is_at(&near.buffer(at.wrapping_add(8), 1).unwrap()));
    }

    #[test]
    fn part_without_gaps_is_contiguous() {
        let double = Part::of_element(Element::Float(8), Wire::Same);
        assert!(committed(double.contiguous(7).unwrap()).is_plain());
        assert!(!committed(double.repeat(7, 16).unwrap()).is_contiguous());
        assert_eq!(double.repeat(i64::MAX, i128::MAX).unwrap_err(), TooLarge);
    }
}

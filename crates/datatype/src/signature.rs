//! The type signature: which basic types follow each other in the data, without their places.
//!
//! Used by whatever counts or converts basic elements, and, as a hash, for comparing what two processes think
//! of a message.

use std::rc::Rc;

use crate::element::{Basic, Element};

/// The basic elements of one element of a type, in order.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Bytes of data.
    pub size: i128,
    /// Number of basic elements.
    pub elements: i128,
    /// Hash of the sequence: depends on the order, not on how the sequence was put together.
    pub hash: u64,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// Sequence of so many of the same basic type.
    Basic(Basic, i128),
    /// A sequence, again and again.
    Repeat(i128, Rc<Signature>),
    /// One sequence after the other.
    Sequence(Rc<[Signature]>),
}

/// Base of the polynomial that the hash is; odd, so that it has an inverse modulo 2^64.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

impl Signature {
    /// Of nothing.
    pub fn empty() -> Self {
        Signature { size: 0, elements: 0, hash: 0, shape: Shape::Sequence(Rc::new([])) }
    }

    /// Of a basic type.
    pub fn basic(basic: Basic) -> Self {
        let hash = spread(basic.element);
        Signature { size: basic.element.bytes() as i128, elements: 1, hash, shape: Shape::Basic(basic, 1) }
    }

    /// `count` times the same; none when the size has no 128 bits.
    pub fn repeat(&self, count: i128) -> Option<Self> {
        if count == 1 {
            return Some(self.clone());
        }
        if count == 0 || self.size == 0 {
            return Some(Signature::empty());
        }
        let shape = match &self.shape {
            Shape::Basic(basic, n) => Shape::Basic(*basic, n.checked_mul(count)?),
            Shape::Repeat(n, inner) => Shape::Repeat(n.checked_mul(count)?, inner.clone()),
            Shape::Sequence(_) => Shape::Repeat(count, Rc::new(self.clone())),
        };
        Some(Signature {
            size: self.size.checked_mul(count)?,
            elements: self.elements.checked_mul(count)?,
            hash: self.hash.wrapping_mul(geometric_sum(power(BASE, self.elements), count)),
            shape,
        })
    }

    /// The basic element, if all are the same.
    pub fn single(&self) -> Option<Element> {
        match &self.shape {
            Shape::Basic(basic, _) => Some(basic.element),
            Shape::Repeat(_, inner) => inner.single(),
            Shape::Sequence(_) => None,
        }
    }

    /// One after the other; none when the size has no 128 bits.
    pub fn sequence(parts: Vec<Signature>) -> Option<Self> {
        let (mut size, mut elements, mut hash) = (0_i128, 0_i128, 0_u64);
        let mut joined: Vec<Signature> = Vec::new();
        for part in parts {
            size = size.checked_add(part.size)?;
            elements = elements.checked_add(part.elements)?;
            hash = hash.wrapping_mul(power(BASE, part.elements)).wrapping_add(part.hash);
            if part.size == 0 {
                continue;
            }
            match joined.last_mut().and_then(|last| last.extended(&part)) {
                Some(longer) => *joined.last_mut().expect("just extended") = longer,
                None => joined.push(part),
            }
        }
        let shape = match joined.len() {
            1 => joined.pop().expect("one").shape,
            _ => Shape::Sequence(joined.into()),
        };
        Some(Signature { size, elements, hash, shape })
    }

    /// Joins this and `next` into one stretch, when both are of the same basic type.
    fn extended(&self, next: &Signature) -> Option<Self> {
        match (&self.shape, &next.shape) {
            (Shape::Basic(mine, n), Shape::Basic(theirs, m)) if mine == theirs => Some(Signature {
                size: self.size + next.size,
                elements: n + m,
                hash: self.hash.wrapping_mul(power(BASE, *m)).wrapping_add(next.hash),
                shape: Shape::Basic(*mine, n + m),
            }),
            _ => None,
        }
    }

    /// How many basic elements are whole in the first `bytes` bytes of one element, and the bytes left over.
    /// All that is beyond the end is left over.
    pub fn elements_in(&self, bytes: i128) -> (i128, i128) {
        if bytes >= self.size {
            return (self.elements, bytes - self.size);
        }
        match &self.shape {
            Shape::Basic(basic, _) => {
                let each = basic.element.bytes() as i128;
                (bytes / each, bytes % each)
            }
            Shape::Repeat(_, inner) => {
                let (elements, left) = inner.elements_in(bytes % inner.size);
                (bytes / inner.size * inner.elements + elements, left)
            }
            Shape::Sequence(parts) => {
                let (mut elements, mut left) = (0, bytes);
                for part in parts.iter() {
                    let fits = left >= part.size;
                    let found = part.elements_in(left);
                    (elements, left) = (elements + found.0, found.1);
                    if !fits {
                        break;
                    }
                }
                (elements, left)
            }
        }
    }

    /// Bytes of the first `elements` basic elements of one element.
    pub fn bytes_of(&self, elements: i128) -> i128 {
        if elements >= self.elements {
            return self.size;
        }
        match &self.shape {
            Shape::Basic(basic, _) => elements * basic.element.bytes() as i128,
            Shape::Repeat(_, inner) => {
                elements / inner.elements * inner.size + inner.bytes_of(elements % inner.elements)
            }
            Shape::Sequence(parts) => {
                let mut left = elements;
                let mut bytes = 0;
                for part in parts.iter() {
                    let some = left.min(part.elements);
                    bytes += part.bytes_of(some);
                    left -= some;
                }
                bytes
            }
        }
    }

    /// Hash of the first `elements` basic elements of one element.
    pub fn hash_of_first(&self, elements: i128) -> u64 {
        if elements >= self.elements {
            return self.hash;
        }
        let joined = |first: u64, behind: i128, second: u64| {
            first.wrapping_mul(power(BASE, behind)).wrapping_add(second)
        };
        match &self.shape {
            Shape::Basic(basic, _) => spread(basic.element).wrapping_mul(geometric_sum(BASE, elements)),
            Shape::Repeat(_, inner) => {
                let (whole, left) = (elements / inner.elements, elements % inner.elements);
                let repeated = inner.hash.wrapping_mul(geometric_sum(power(BASE, inner.elements), whole));
                joined(repeated, left, inner.hash_of_first(left))
            }
            Shape::Sequence(parts) => {
                let (mut hash, mut left) = (0, elements);
                for part in parts.iter() {
                    let some = left.min(part.elements);
                    hash = joined(hash, some, part.hash_of_first(some));
                    left -= some;
                }
                hash
            }
        }
    }

    /// The basic type, when all elements are of the same.
    pub fn only_basic(&self) -> Option<Basic> {
        match self.shape {
            Shape::Basic(basic, _) => Some(basic),
            _ => None,
        }
    }

    /// Calls `visit` with each stretch of equal basic elements and their number, in order.
    pub fn visit(&self, visit: &mut impl FnMut(Basic, i128)) {
        match &self.shape {
            Shape::Basic(basic, count) => visit(*basic, *count),
            Shape::Repeat(count, inner) => (0..*count).for_each(|_| inner.visit(visit)),
            Shape::Sequence(parts) => parts.iter().for_each(|part| part.visit(visit)),
        }
    }

    /// Sum of `measure` over all basic elements; none when it has no 128 bits.
    pub fn sum(&self, measure: &impl Fn(Basic) -> i128) -> Option<i128> {
        match &self.shape {
            Shape::Basic(basic, count) => measure(*basic).checked_mul(*count),
            Shape::Repeat(count, inner) => inner.sum(measure)?.checked_mul(*count),
            Shape::Sequence(parts) => {
                parts.iter().try_fold(0_i128, |sum, part| sum.checked_add(part.sum(measure)?))
            }
        }
    }
}

/// A number that tells kinds of basic elements apart. Names of the same kind (MPI_INT, MPI_INT32_T,
/// MPI_INTEGER) are not told apart.
fn spread(element: Element) -> u64 {
    let (kind, bytes) = match element {
        Element::Signed(n) => (1, n),
        Element::Unsigned(n) => (2, n),
        Element::Float(n) => (3, n),
        Element::Complex(n) => (4, n),
        Element::Quad { complex } => (8, 16 << u8::from(complex)),
        Element::Logical(n) => (5, n),
        Element::Byte => (6, 1),
        Element::Character(n) => (7, n),
        Element::Pair(_) => unreachable!("a pair is two basic elements"),
    };
    let mut hash = (kind << 8 | u64::from(bytes)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53) | 1
}

/// `base` to the `exponent`, modulo 2^64.
fn power(mut base: u64, mut exponent: i128) -> u64 {
    let mut result = 1_u64;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}

/// `1 + q + q^2 + ...` of `terms` terms, modulo 2^64.
fn geometric_sum(q: u64, terms: i128) -> u64 {
    // Doubling: the sum of 2n terms is that of n terms, times 1 + q^n.
    let (mut sum, mut q_to_n) = (0_u64, 1_u64);
    for bit in (0..128 - terms.leading_zeros()).rev() {
        sum = sum.wrapping_mul(q_to_n.wrapping_add(1));
        q_to_n = q_to_n.wrapping_mul(q_to_n);
        if terms >> bit & 1 == 1 {
            sum = sum.wrapping_mul(q).wrapping_add(1);
            q_to_n = q_to_n.wrapping_mul(q);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Wire;

    fn basic(element: Element) -> Signature {
        Signature::basic(Basic { element, wire: Wire::Same })
    }

    #[test]
    fn signature_hash_ignores_grouping() {
        let (int, double) = (basic(Element::Signed(4)), basic(Element::Float(8)));
        let pair = Signature::sequence(vec![int.clone(), double.clone()]).unwrap();
        let thrice = pair.repeat(3).unwrap();
        let flat = Signature::sequence((0..3).flat_map(|_| [int.clone(), double.clone()]).collect()).unwrap();
        assert_eq!(thrice.hash, flat.hash);
        let other = Signature::sequence(vec![double, int]).unwrap();
        assert_ne!(pair.hash, other.hash);
        assert_eq!(thrice.repeat(5).unwrap().hash, pair.repeat(15).unwrap().hash);
        assert_eq!((thrice.elements, thrice.size), (6, 36));
    }

    #[test]
    fn signature_hash_of_a_prefix_matches() {
        let (int, double) = (basic(Element::Signed(4)), basic(Element::Float(8)));
        let both = Signature::sequence(vec![int.repeat(2).unwrap(), double.clone()]).unwrap();
        let long = both.repeat(10).unwrap();
        let flat = |n: usize| {
            let parts = (0..n).map(|i| if i % 3 < 2 { int.clone() } else { double.clone() });
            Signature::sequence(parts.collect()).unwrap().hash
        };
        for n in 0..=30 {
            assert_eq!(long.hash_of_first(n as i128), flat(n), "{n} elements");
        }
        assert_eq!(int.repeat(7).unwrap().hash_of_first(3), int.repeat(3).unwrap().hash);
        assert!(int.repeat(7).unwrap().only_basic().is_some() && both.only_basic().is_none());
    }

    #[test]
    fn signature_counts_elements_within_a_struct() {
        let (int, double) = (basic(Element::Signed(4)), basic(Element::Float(8)));
        let both = Signature::sequence(vec![int.repeat(2).unwrap(), double]).unwrap().repeat(10).unwrap();
        assert_eq!(both.elements_in(0), (0, 0));
        assert_eq!(both.elements_in(4), (1, 0));
        assert_eq!(both.elements_in(15), (2, 7));
        assert_eq!(both.elements_in(16 * 4 + 8), (14, 0));
        assert_eq!(both.elements_in(170), (30, 10));
        for elements in 0..=30 {
            assert_eq!(both.elements_in(both.bytes_of(elements)), (elements, 0));
        }
    }
}

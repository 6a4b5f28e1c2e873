//! external32 (MPI 14.5.2): the representation of data that all machines share, for MPI_Pack_external.
//!
//! The data of a buffer are a stream of native numbers in the order of the type map, and external32 is the
//! same stream of numbers of the standard's lengths in big endian. So a piece is loaded from the buffer,
//! converted, and written, or the other way round.

use crate::buffer::Buffer;
use crate::element::{Basic, Element, Wire};
use crate::signature::Signature;

/// Native bytes converted at a time; all elements are smaller.
const PIECE_BYTES: usize = 4096;

impl Basic {
    /// Numbers that it consists of.
    fn numbers(self) -> usize {
        match self.element {
            Element::Complex(_) | Element::Quad { complex: true } => 2,
            _ => 1,
        }
    }

    /// Bytes of it in external32.
    pub fn external_bytes(self) -> usize {
        match self.wire {
            Wire::Narrow(bytes) => bytes.into(),
            Wire::Same | Wire::Extended => self.element.bytes(),
        }
    }

    /// Native numbers to external32 ones; both slices hold the same number of them.
    fn encode(self, native: &[u8], external: &mut [u8]) {
        let (here, there) = self.number_bytes();
        for (number, place) in native.chunks_exact(here).zip(external.chunks_exact_mut(there)) {
            match self.wire {
                Wire::Extended => place.copy_from_slice(&quad(number).to_be_bytes()),
                Wire::Same | Wire::Narrow(_) => {
                    place.copy_from_slice(&number[..there]);
                    place.reverse();
                }
            }
        }
    }

    /// External32 numbers to native ones; both slices hold the same number of them.
    fn decode(self, external: &[u8], native: &mut [u8]) {
        let (here, there) = self.number_bytes();
        for (place, number) in native.chunks_exact_mut(here).zip(external.chunks_exact(there)) {
            if self.wire == Wire::Extended {
                extended(number, place);
                continue;
            }
            place[..there].copy_from_slice(number);
            place[..there].reverse();
            let negative = matches!(self.element, Element::Signed(_)) && number[0] & 0x80 != 0;
            place[there..].fill(if negative { 0xff } else { 0 });
        }
    }

    /// Bytes of one number here and in external32.
    fn number_bytes(self) -> (usize, usize) {
        (self.element.bytes() / self.numbers(), self.external_bytes() / self.numbers())
    }
}

/// Bytes of data with this signature in external32; none when they cannot be counted.
pub fn external_size(signature: &Signature) -> Option<i128> {
    signature.sum(&|basic| basic.external_bytes() as i128)
}

/// Writes all data of a buffer to `to`.
///
/// # Safety
/// As [`Buffer::load`]; `to` has room for the external size of the signature, which is that of all the
/// buffer's data.
pub unsafe fn pack(buffer: &Buffer, signature: &Signature, mut to: *mut u8) {
    for_each_piece(signature, |basic, offset, native| {
        let mut numbers = [0; PIECE_BYTES];
        let bytes = native / basic.element.bytes() * basic.external_bytes();
        // SAFETY: our contract; the pieces follow each other on both sides.
        unsafe {
            buffer.load(offset, numbers.as_mut_ptr(), native);
            basic.encode(&numbers[..native], std::slice::from_raw_parts_mut(to, bytes));
            to = to.add(bytes);
        }
    });
}

/// Reads all data of a buffer from `from`.
///
/// # Safety
/// As [`Buffer::store`]; `from` has the external size of the signature, which is that of all the buffer's
/// data.
pub unsafe fn unpack(buffer: &Buffer, signature: &Signature, mut from: *const u8) {
    for_each_piece(signature, |basic, offset, native| {
        let mut numbers = [0; PIECE_BYTES];
        let bytes = native / basic.element.bytes() * basic.external_bytes();
        // SAFETY: our contract; the pieces follow each other on both sides.
        unsafe {
            basic.decode(std::slice::from_raw_parts(from, bytes), &mut numbers[..native]);
            buffer.store(offset, numbers.as_ptr(), native);
            from = from.add(bytes);
        }
    });
}

/// Reads data of a buffer from the first `bytes` bytes at `from`, as far as they are whole elements. Returns
/// the bytes of the buffer's data that were written.
///
/// # Safety
/// As [`unpack`], but for the number of bytes at `from`.
pub unsafe fn unpack_part(buffer: &Buffer, signature: &Signature, from: *const u8, bytes: usize) -> usize {
    let (mut taken, mut given, mut is_over) = (0, 0, false);
    for_each_piece(signature, |basic, offset, native| {
        let whole = (native / basic.element.bytes()).min((bytes - taken) / basic.external_bytes());
        let (here, there) = (whole * basic.element.bytes(), whole * basic.external_bytes());
        if is_over || whole == 0 {
            is_over = true;
            return;
        }
        let mut numbers = [0; PIECE_BYTES];
        // SAFETY: our contract; the pieces follow each other on both sides.
        unsafe {
            basic.decode(std::slice::from_raw_parts(from.add(taken), there), &mut numbers[..here]);
            buffer.store(offset, numbers.as_ptr(), here);
        }
        (taken, given) = (taken + there, given + here);
        is_over = here < native;
    });
    given
}

/// Calls `piece` with basic element, offset in the data and native bytes, for pieces of whole equal elements.
fn for_each_piece(signature: &Signature, mut piece: impl FnMut(Basic, usize, usize)) {
    let mut offset = 0;
    signature.visit(&mut |basic, count| {
        let each = basic.element.bytes();
        let mut left = count as usize * each;
        while left > 0 {
            let native = left.min(PIECE_BYTES / each * each);
            piece(basic, offset, native);
            offset += native;
            left -= native;
        }
    });
}

/// Bits of the fraction of binary128 that a long double does not have: 112 against 63 behind the explicit
/// one.
const FEWER_BITS: u32 = 49;

/// An x86 long double as binary128: the exponents are the same, the explicit leading one goes.
fn quad(long_double: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    bytes[..10].copy_from_slice(&long_double[..10]);
    let bits = u128::from_le_bytes(bytes);
    let (sign_and_exponent, mantissa) = (bits >> 64, bits & u128::from(u64::MAX >> 1));
    sign_and_exponent << 112 | mantissa << FEWER_BITS
}

/// Binary128 as an x86 long double, rounded to the nearest, ties to even.
fn extended(quad: &[u8], long_double: &mut [u8]) {
    let bits = u128::from_be_bytes(quad.try_into().expect("a number of 16 bytes"));
    let (sign, exponent) = ((bits >> 127) as u16, (bits >> 112 & 0x7fff) as u16);
    let fraction = bits & ((1 << 112) - 1);
    let mut mantissa = fraction >> FEWER_BITS;
    let rest = fraction & ((1 << FEWER_BITS) - 1);
    let half = 1 << (FEWER_BITS - 1);
    let mut exponent = u128::from(exponent);
    if exponent == 0x7fff {
        // Infinity stays; of what is not a number, at least one bit of the fraction must stay.
        mantissa |= u128::from(fraction != 0) << 62;
    } else if rest > half || (rest == half && mantissa & 1 == 1) {
        mantissa += 1;
        exponent += mantissa >> 63;
        mantissa &= (1 << 63) - 1;
    }
    let leading_one = u128::from(exponent != 0) << 63;
    let bits = u128::from(sign) << 79 | exponent << 64 | leading_one | mantissa;
    long_double.copy_from_slice(&bits.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both_ways(basic: Basic, native: &[u8], external: &[u8]) {
        let mut encoded = vec![0; external.len()];
        basic.encode(native, &mut encoded);
        assert_eq!(encoded, external);
        let mut decoded = vec![0; native.len()];
        basic.decode(external, &mut decoded);
        assert_eq!(decoded, native);
    }

    #[test]
    fn external32_is_big_endian_with_standard_lengths() {
        let same = |element| Basic { element, wire: Wire::Same };
        both_ways(same(Element::Signed(4)), &(-2_i32).to_le_bytes(), &[255, 255, 255, 254]);
        both_ways(same(Element::Float(8)), &1.5_f64.to_le_bytes(), &1.5_f64.to_be_bytes());
        let complex = [2.0_f32.to_le_bytes(), 3.0_f32.to_le_bytes()].concat();
        let swapped = [2.0_f32.to_be_bytes(), 3.0_f32.to_be_bytes()].concat();
        both_ways(same(Element::Complex(4)), &complex, &swapped);
        let long = Basic { element: Element::Signed(8), wire: Wire::Narrow(4) };
        both_ways(long, &(-3_i64).to_le_bytes(), &(-3_i32).to_be_bytes());
        let wide = Basic { element: Element::Character(4), wire: Wire::Narrow(2) };
        both_ways(wide, &0xfffe_u32.to_le_bytes(), &[0xff, 0xfe]);
    }

    #[test]
    fn external32_binary128_is_swapped_per_number() {
        let native: Vec<u8> = (0..32).collect();
        let external: Vec<u8> = (0..16).rev().chain((16..32).rev()).collect();
        let element = Element::Quad { complex: true };
        both_ways(Basic { element, wire: Wire::Same }, &native, &external);
    }

    #[test]
    fn external32_long_double_is_binary128() {
        let basic = Basic { element: Element::Float(16), wire: Wire::Extended };
        let long_double = |sign_and_exponent: u16, mantissa: u64| {
            let mut bytes = vec![0; 16];
            bytes[..8].copy_from_slice(&mantissa.to_le_bytes());
            bytes[8..10].copy_from_slice(&sign_and_exponent.to_le_bytes());
            bytes
        };
        let quad = |bits: u128| bits.to_be_bytes();
        both_ways(basic, &long_double(0x3fff, 1 << 63), &quad(0x3fff << 112));
        both_ways(basic, &long_double(0xbfff, 3 << 62), &quad(0xbfff8 << 108));
        both_ways(basic, &long_double(0, 0), &quad(0));
        both_ways(basic, &long_double(0x7fff, 1 << 63), &quad(0x7fff << 112));
        let mut rounded = vec![0; 16];
        basic.decode(&quad(0x3fff << 112 | ((1 << 112) - 1)), &mut rounded);
        assert_eq!(
            rounded,
            long_double(0x4000, 1 << 63),
            "the largest fraction rounds to the next power of two"
        );
    }
}

//! Datatypes: the predefined ones of the ABI, and the map by which the bytes of a message lie in memory.

use std::rc::Rc;

use crate::abi::*;
use crate::buffer::Buffer;
use crate::error::{Error, Result, check};

/// What the elements of a predefined type are, for reductions and conversions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Signed integer of so many bytes.
    Signed(u8),
    /// Unsigned integer of so many bytes.
    Unsigned(u8),
    /// Binary floating point number of so many bytes; 16 is the platform's long double.
    Float(u8),
    /// Complex number of two floating point numbers of so many bytes each.
    Complex(u8),
    /// C bool or Fortran LOGICAL of so many bytes.
    Logical(u8),
    /// Bytes without meaning.
    Byte,
    /// Characters.
    Character(u8),
    /// A value of the first kind and an int: MPI_MINLOC and MPI_MAXLOC.
    Pair(PairValue),
}

/// First member of a pair type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairValue {
    /// float
    Float,
    /// double
    Double,
    /// long double
    LongDouble,
    /// short
    Short,
    /// int
    Int,
    /// long
    Long,
    /// Two Fortran REALs, DOUBLE PRECISIONs or INTEGERs: index of the same type, so many bytes each, integer or not.
    Same {
        /// Bytes of each.
        bytes: u8,
        /// Whether they are integers.
        integer: bool,
    },
}

/// A type as the calls see it.
#[derive(Clone, Debug)]
pub struct Datatype {
    /// Bytes of data in one element.
    pub size: usize,
    /// Lower bound.
    pub lower: isize,
    /// Distance from one element to the next.
    pub extent: isize,
    /// What it is, when predefined.
    pub element: Option<Element>,
    /// Where the bytes of one element lie, unless they fill `[0, size)` and `size == extent`.
    pub map: Option<Rc<Blocks>>,
}

/// Contiguous runs of bytes of one element: displacement and length, in the order of the data.
pub type Blocks = [(isize, usize)];

/// The data of `count` elements of a type with gaps, for packing at any offset.
#[derive(Debug)]
pub struct Typemap {
    blocks: Rc<Blocks>,
    size: usize,
    extent: isize,
}

impl Typemap {
    /// Calls `copy(displacement, done, bytes)` for each run of memory that holds data bytes `[offset, offset + bytes)`.
    fn runs(&self, offset: usize, bytes: usize, mut copy: impl FnMut(isize, usize, usize)) {
        let (mut element, mut inside) = (offset / self.size, offset % self.size);
        let mut done = 0;
        while done < bytes {
            let mut before = 0;
            for &(displacement, length) in self.blocks.iter() {
                if inside < before + length && done < bytes {
                    let skip = inside - before;
                    let run = (length - skip).min(bytes - done);
                    copy(element as isize * self.extent + displacement + skip as isize, done, run);
                    done += run;
                    inside += run;
                }
                before += length;
            }
            element += 1;
            inside = 0;
        }
    }

    /// Copies data bytes `[offset, offset + bytes)` to `to`.
    ///
    /// # Safety
    /// `base` leads to memory laid out as the type says; `to` is valid for writing.
    pub unsafe fn pack(&self, base: *const u8, offset: usize, to: *mut u8, bytes: usize) {
        // SAFETY: our contract, run by run.
        self.runs(offset, bytes, |at, done, run| unsafe {
            std::ptr::copy_nonoverlapping(base.wrapping_offset(at), to.add(done), run);
        });
    }

    /// Copies `bytes` bytes from `from` to the data at `offset`.
    ///
    /// # Safety
    /// As [`Typemap::pack`].
    pub unsafe fn unpack(&self, base: *mut u8, offset: usize, from: *const u8, bytes: usize) {
        // SAFETY: our contract, run by run.
        self.runs(offset, bytes, |at, done, run| unsafe {
            std::ptr::copy_nonoverlapping(from.add(done), base.wrapping_offset(at), run);
        });
    }
}

impl Datatype {
    const fn basic(element: Element, size: usize) -> Self {
        Datatype { size, lower: 0, extent: size as isize, element: Some(element), map: None }
    }

    fn pair(value: PairValue, first: usize, second: usize, align: usize) -> Self {
        let at = first.next_multiple_of(second);
        let extent = (at + second).next_multiple_of(align);
        let gaps = at != first || extent != at + second;
        Datatype {
            size: first + second,
            lower: 0,
            extent: extent as isize,
            element: Some(Element::Pair(value)),
            map: gaps.then(|| Rc::from([(0, first), (at as isize, second)])),
        }
    }

    /// Whether `count` elements fill memory without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.map.is_none() && self.extent == self.size as isize
    }

    /// `count` elements at `address` as a stream of bytes.
    ///
    /// # Errors
    /// MPI_ERR_COUNT when the bytes cannot be counted.
    #[inline]
    pub fn buffer(&self, address: *mut u8, count: usize) -> Result<Buffer> {
        let bytes =
            self.size.checked_mul(count).filter(|&bytes| bytes <= isize::MAX as usize).ok_or_else(|| {
                Error::new(
                    MPI_ERR_COUNT,
                    format_args!("{count} elements of {} bytes exceed the address space", self.size),
                )
            })?;
        let map = self
            .map
            .as_ref()
            .map(|blocks| Rc::new(Typemap { blocks: blocks.clone(), size: self.size, extent: self.extent }));
        Ok(Buffer { at: address, bytes, map: if bytes == 0 { None } else { map } })
    }
}

/// The predefined types, by handle.
#[derive(Debug)]
pub struct Predefined(Vec<Option<Datatype>>);

const FIRST: usize = 0x200;
const LAST: usize = 0x2ff;

impl Predefined {
    /// The table.
    pub fn new() -> Self {
        let mut types = vec![None; LAST - FIRST + 1];
        let mut put = |handle: MPI_Datatype, datatype: Datatype| types[handle.0 - FIRST] = Some(datatype);
        for (handle, element) in numbers() {
            let size = match element {
                Element::Signed(n)
                | Element::Unsigned(n)
                | Element::Float(n)
                | Element::Logical(n)
                | Element::Character(n) => n as usize,
                Element::Complex(n) => 2 * n as usize,
                Element::Byte => 1,
                Element::Pair(_) => unreachable!("pairs are not in the list of numbers"),
            };
            put(handle, Datatype::basic(element, size));
        }
        use PairValue::*;
        put(MPI_FLOAT_INT, Datatype::pair(Float, 4, 4, 4));
        put(MPI_DOUBLE_INT, Datatype::pair(Double, 8, 4, 8));
        put(MPI_LONG_INT, Datatype::pair(Long, 8, 4, 8));
        put(MPI_2INT, Datatype::pair(Int, 4, 4, 4));
        put(MPI_SHORT_INT, Datatype::pair(Short, 2, 4, 4));
        put(MPI_LONG_DOUBLE_INT, Datatype::pair(LongDouble, 16, 4, 16));
        put(MPI_2REAL, Datatype::pair(Same { bytes: 4, integer: false }, 4, 4, 4));
        put(MPI_2DOUBLE_PRECISION, Datatype::pair(Same { bytes: 8, integer: false }, 8, 8, 8));
        put(MPI_2INTEGER, Datatype::pair(Same { bytes: 4, integer: true }, 4, 4, 4));
        Predefined(types)
    }

    /// A predefined type.
    #[inline(always)]
    pub fn find(&self, handle: MPI_Datatype) -> Option<&Datatype> {
        self.0.get(handle.0.wrapping_sub(FIRST))?.as_ref()
    }
}

impl Default for Predefined {
    fn default() -> Self {
        Self::new()
    }
}

/// Every predefined type that is a number, a character or a byte.
fn numbers() -> Vec<(MPI_Datatype, Element)> {
    use Element::*;
    vec![
        (MPI_AINT, Signed(8)),
        (MPI_COUNT, Signed(8)),
        (MPI_OFFSET, Signed(8)),
        (MPI_PACKED, Byte),
        (MPI_SHORT, Signed(2)),
        (MPI_INT, Signed(4)),
        (MPI_LONG, Signed(8)),
        (MPI_LONG_LONG, Signed(8)),
        (MPI_UNSIGNED_SHORT, Unsigned(2)),
        (MPI_UNSIGNED, Unsigned(4)),
        (MPI_UNSIGNED_LONG, Unsigned(8)),
        (MPI_UNSIGNED_LONG_LONG, Unsigned(8)),
        (MPI_FLOAT, Float(4)),
        (MPI_DOUBLE, Float(8)),
        (MPI_LONG_DOUBLE, Float(16)),
        (MPI_C_FLOAT_COMPLEX, Complex(4)),
        (MPI_C_DOUBLE_COMPLEX, Complex(8)),
        (MPI_C_LONG_DOUBLE_COMPLEX, Complex(16)),
        (MPI_CXX_FLOAT_COMPLEX, Complex(4)),
        (MPI_CXX_DOUBLE_COMPLEX, Complex(8)),
        (MPI_CXX_LONG_DOUBLE_COMPLEX, Complex(16)),
        (MPI_LOGICAL, Logical(4)),
        (MPI_INTEGER, Signed(4)),
        (MPI_REAL, Float(4)),
        (MPI_COMPLEX, Complex(4)),
        (MPI_DOUBLE_PRECISION, Float(8)),
        (MPI_DOUBLE_COMPLEX, Complex(8)),
        (MPI_CHARACTER, Character(1)),
        (MPI_BYTE, Byte),
        (MPI_CHAR, Character(1)),
        (MPI_SIGNED_CHAR, Signed(1)),
        (MPI_UNSIGNED_CHAR, Unsigned(1)),
        (MPI_WCHAR, Character(4)),
        (MPI_C_BOOL, Logical(1)),
        (MPI_CXX_BOOL, Logical(1)),
        (MPI_INT8_T, Signed(1)),
        (MPI_INT16_T, Signed(2)),
        (MPI_INT32_T, Signed(4)),
        (MPI_INT64_T, Signed(8)),
        (MPI_UINT8_T, Unsigned(1)),
        (MPI_UINT16_T, Unsigned(2)),
        (MPI_UINT32_T, Unsigned(4)),
        (MPI_UINT64_T, Unsigned(8)),
        (MPI_LOGICAL1, Logical(1)),
        (MPI_LOGICAL2, Logical(2)),
        (MPI_LOGICAL4, Logical(4)),
        (MPI_LOGICAL8, Logical(8)),
        (MPI_INTEGER1, Signed(1)),
        (MPI_INTEGER2, Signed(2)),
        (MPI_INTEGER4, Signed(4)),
        (MPI_INTEGER8, Signed(8)),
        (MPI_REAL4, Float(4)),
        (MPI_REAL8, Float(8)),
        (MPI_REAL16, Float(16)),
        (MPI_COMPLEX8, Complex(4)),
        (MPI_COMPLEX16, Complex(8)),
        (MPI_COMPLEX32, Complex(16)),
    ]
}

/// Checks a count argument.
///
/// # Errors
/// MPI_ERR_COUNT when it is negative.
#[inline(always)]
pub fn checked_count(count: i64) -> Result<usize> {
    check(count >= 0, MPI_ERR_COUNT, || format!("count is {count}, expected 0 or more"))?;
    Ok(count as usize)
}

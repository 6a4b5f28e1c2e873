//! The predefined types of the ABI: what their elements are, their names, and the table of them by handle.

use std::collections::HashMap;
use std::rc::Rc;

use core::ffi::c_int;

use tutti_datatype::{
    Datatype,
    Element::{self, *},
    PairValue, Part, Wire,
};

use super::named;
use crate::abi::*;
use crate::check_mode;

/// Type of MPI_2REAL and MPI_2DOUBLE_PRECISION in Fortran where options of the compiler make such reals
/// larger (`tutti_table::fortran::sources`); the binary interface has no names for these pairs.
pub const TUTTI_2LONG_DOUBLE: MPI_Datatype = MPI_Datatype(0x236);
/// The same of REAL(16).
pub const TUTTI_2REAL16: MPI_Datatype = MPI_Datatype(0x237);
/// C's `_Float16`, which MPICH's interface has besides MPI_REAL2 (`tutti_table::mpich`): results must tell
/// one from the other. The name is that of MPICH.
pub const MPIX_C_FLOAT16: MPI_Datatype = MPI_Datatype(0x24a);

/// Where and what the data of one element of a predefined type are.
pub fn part(handle: MPI_Datatype, element: Element) -> Part {
    let wire = match handle {
        MPI_LONG | MPI_UNSIGNED_LONG | MPI_LONG_INT => Wire::Narrow(4),
        MPI_WCHAR => Wire::Narrow(2),
        MPI_LONG_DOUBLE
        | MPI_C_LONG_DOUBLE_COMPLEX
        | MPI_CXX_LONG_DOUBLE_COMPLEX
        | MPI_LONG_DOUBLE_INT
        | TUTTI_2LONG_DOUBLE => Wire::Extended,
        _ => Wire::Same,
    };
    Part::of_element(element, wire)
}

/// The predefined types, by handle.
#[derive(Debug)]
pub struct Predefined {
    types: Vec<Option<Datatype>>,
    /// Bytes of the types whose elements fill memory from their address on; 0 for all others.
    plain_sizes: [u8; LAST - FIRST + 1],
    /// Types of MPI_Type_create_f90_*, by constructor and arguments: the same call gives the same handle.
    pub f90: HashMap<(c_int, c_int, c_int), MPI_Datatype>,
}

const FIRST: usize = 0x200;
const LAST: usize = 0x2ff;

impl Predefined {
    /// The table.
    pub fn new() -> Self {
        let mut types: Vec<Option<Datatype>> = (FIRST..=LAST).map(|_| None).collect();
        for (handle, element, name) in TYPES {
            let layout = named(*handle, part(*handle, *element));
            types[handle.0 - FIRST] =
                Some(Datatype::predefined(Rc::new(layout), *element, name, check_mode::is_on()));
        }
        let mut plain_sizes = [0; LAST - FIRST + 1];
        for (plain, datatype) in plain_sizes.iter_mut().zip(&types) {
            *plain = datatype
                .as_ref()
                .filter(|datatype| datatype.is_plain())
                .map_or(0, |datatype| datatype.size as u8);
        }
        Predefined { types, plain_sizes, f90: HashMap::new() }
    }

    /// Bytes of a predefined type whose elements fill memory from their address on.
    #[inline(always)]
    pub fn plain_size(&self, handle: MPI_Datatype) -> Option<usize> {
        match self.plain_sizes.get(handle.0.wrapping_sub(FIRST)) {
            Some(&size) if size != 0 => Some(usize::from(size)),
            _ => None,
        }
    }

    /// Kind of the elements of such a type.
    #[inline(always)]
    pub fn plain_element(&self, handle: MPI_Datatype) -> Option<Element> {
        self.plain_size(handle)?;
        self.find(handle)?.element
    }

    /// A predefined type.
    #[inline(always)]
    pub fn find(&self, handle: MPI_Datatype) -> Option<&Datatype> {
        self.types.get(handle.0.wrapping_sub(FIRST))?.as_ref()
    }

    /// A predefined type, to be changed: its name or its attributes.
    pub fn find_mut(&mut self, handle: MPI_Datatype) -> Option<&mut Datatype> {
        self.types.get_mut(handle.0.wrapping_sub(FIRST))?.as_mut()
    }
}

impl Default for Predefined {
    fn default() -> Self {
        Self::new()
    }
}

/// A row of the table: the name is the constant's.
macro_rules! types {
    ($($handle:ident $element:expr;)*) => {
        &[$(($handle, $element, stringify!($handle)),)*]
    };
}

/// Every predefined type.
const TYPES: &[(MPI_Datatype, Element, &str)] = types! {
    MPI_AINT Signed(8);
    MPI_COUNT Signed(8);
    MPI_OFFSET Signed(8);
    MPI_PACKED Byte;
    MPI_SHORT Signed(2);
    MPI_INT Signed(4);
    MPI_LONG Signed(8);
    MPI_LONG_LONG Signed(8);
    MPI_UNSIGNED_SHORT Unsigned(2);
    MPI_UNSIGNED Unsigned(4);
    MPI_UNSIGNED_LONG Unsigned(8);
    MPI_UNSIGNED_LONG_LONG Unsigned(8);
    MPI_FLOAT Float(4);
    MPI_DOUBLE Float(8);
    MPI_LONG_DOUBLE Float(16);
    MPI_C_FLOAT_COMPLEX Complex(4);
    MPI_C_DOUBLE_COMPLEX Complex(8);
    MPI_C_LONG_DOUBLE_COMPLEX Complex(16);
    MPI_CXX_FLOAT_COMPLEX Complex(4);
    MPI_CXX_DOUBLE_COMPLEX Complex(8);
    MPI_CXX_LONG_DOUBLE_COMPLEX Complex(16);
    MPI_LOGICAL Logical(4);
    MPI_INTEGER Signed(4);
    MPI_REAL Float(4);
    MPI_COMPLEX Complex(4);
    MPI_DOUBLE_PRECISION Float(8);
    MPI_DOUBLE_COMPLEX Complex(8);
    MPI_CHARACTER Character(1);
    MPI_BYTE Byte;
    MPI_CHAR Character(1);
    MPI_SIGNED_CHAR Signed(1);
    MPI_UNSIGNED_CHAR Unsigned(1);
    MPI_WCHAR Character(4);
    MPI_C_BOOL Logical(1);
    MPI_CXX_BOOL Logical(1);
    MPI_INT8_T Signed(1);
    MPI_INT16_T Signed(2);
    MPI_INT32_T Signed(4);
    MPI_INT64_T Signed(8);
    MPI_UINT8_T Unsigned(1);
    MPI_UINT16_T Unsigned(2);
    MPI_UINT32_T Unsigned(4);
    MPI_UINT64_T Unsigned(8);
    MPI_LOGICAL1 Logical(1);
    MPI_LOGICAL2 Logical(2);
    MPI_LOGICAL4 Logical(4);
    MPI_LOGICAL8 Logical(8);
    MPI_INTEGER1 Signed(1);
    MPI_INTEGER2 Signed(2);
    MPI_INTEGER4 Signed(4);
    MPI_INTEGER8 Signed(8);
    MPI_REAL4 Float(4);
    MPI_REAL8 Float(8);
    MPI_REAL16 Quad { complex: false };
    MPI_COMPLEX8 Complex(4);
    MPI_COMPLEX16 Complex(8);
    MPI_COMPLEX32 Quad { complex: true };
    MPI_LOGICAL16 Logical(16);
    MPI_INTEGER16 Signed(16);
    MPI_REAL2 Float(2);
    MPI_COMPLEX4 Complex(2);
    MPIX_C_FLOAT16 Float(2);
    MPI_FLOAT_INT Pair(PairValue::Float);
    MPI_DOUBLE_INT Pair(PairValue::Double);
    MPI_LONG_INT Pair(PairValue::Long);
    MPI_2INT Pair(PairValue::Int);
    MPI_SHORT_INT Pair(PairValue::Short);
    MPI_LONG_DOUBLE_INT Pair(PairValue::LongDouble);
    MPI_2REAL Pair(PairValue::Same { bytes: 4, integer: false });
    MPI_2DOUBLE_PRECISION Pair(PairValue::Same { bytes: 8, integer: false });
    TUTTI_2LONG_DOUBLE Pair(PairValue::Same { bytes: 16, integer: false });
    TUTTI_2REAL16 Pair(PairValue::Quad);
    MPI_2INTEGER Pair(PairValue::Same { bytes: 4, integer: true });
};

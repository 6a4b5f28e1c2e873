//! Types chosen by what they can represent (MPI 19.1.5 and 19.1.9): by decimal digits and range as Fortran's
//! SELECTED_*_KIND do, by size, and pairs by their members.

use std::rc::Rc;

use core::ffi::c_int;

use tutti_datatype::{Datatype, Description, Element, Layout, Part, Wire};

use super::Types;
use super::predefined::{TUTTI_2LONG_DOUBLE, TUTTI_2REAL16};
use crate::abi::*;
use crate::error::{Error, Result};

/// Kinds of REAL: decimal digits, decimal range.
const REALS: [(c_int, c_int, Kind); 4] = [
    (6, 37, Kind::Float(4)),
    (15, 307, Kind::Float(8)),
    (18, 4931, Kind::LongDouble),
    (33, 4931, Kind::Quad),
];

/// A kind of REAL.
#[derive(Clone, Copy)]
enum Kind {
    Float(u8),
    LongDouble,
    Quad,
}

/// Kinds of INTEGER: decimal range, bytes.
const INTEGERS: [(c_int, u8); 5] = [(2, 1), (4, 2), (9, 4), (18, 8), (38, 16)];

impl Types {
    /// MPI_Type_create_f90_real and MPI_Type_create_f90_complex: at least `digits` digits and a range of
    /// `range`.
    ///
    /// # Errors
    /// MPI_ERR_ARG when no kind has that, or nothing is asked for.
    pub fn f90_real(&mut self, combiner: c_int, digits: c_int, range: c_int) -> Result<MPI_Datatype> {
        self.f90_type(combiner, &[digits, range], None)
    }

    /// MPI_Type_create_f90_integer: a range of at least `range`.
    ///
    /// # Errors
    /// MPI_ERR_ARG when no kind has that.
    pub fn f90_integer(&mut self, range: c_int) -> Result<MPI_Datatype> {
        self.f90_type(MPI_COMBINER_F90_INTEGER, &[range], None)
    }

    /// The predefined type without a name that a constructor with these arguments stands for; always the same
    /// handle. A new one has `wanted`, if another process has it under that.
    ///
    /// # Errors
    /// MPI_ERR_ARG when no kind is such.
    pub(super) fn f90_type(
        &mut self,
        combiner: c_int,
        arguments: &[c_int],
        wanted: Option<MPI_Datatype>,
    ) -> Result<MPI_Datatype> {
        let (element, wire) = element_of(combiner, arguments)?;
        let key = (combiner, arguments[0], arguments.get(1).copied().unwrap_or(0));
        if let Some(handle) = self.predefined.f90.get(&key) {
            return Ok(*handle);
        }
        let layout = |handle| {
            let description = Description {
                combiner,
                integers: arguments.to_vec(),
                addresses: Vec::new(),
                counts: Vec::new(),
                types: Vec::new(),
            };
            Rc::new(Layout { part: Part::of_element(element, wire), description, handle })
        };
        let datatype = Datatype::predefined(layout(None), element, "", crate::check_mode::is_on());
        let handle = match wanted {
            Some(handle) => {
                self.made.insert_at(handle.0, datatype);
                handle
            }
            None => self.add(datatype),
        };
        self.find_mut(handle).expect("just made").layout = layout(Some(handle.0));
        self.predefined.f90.insert(key, handle);
        Ok(handle)
    }
}

/// The element of a kind.
fn element_of(combiner: c_int, arguments: &[c_int]) -> Result<(Element, Wire)> {
    if let [range] = *arguments {
        let kind = INTEGERS.iter().find(|kind| kind.0 >= range).ok_or_else(|| {
            Error::new(MPI_ERR_ARG, format_args!("r is {range}, no INTEGER has such a range"))
        })?;
        return Ok((Element::Signed(kind.1), Wire::Same));
    }
    let [digits, range] = [arguments[0], arguments[1]];
    let kind = REALS.iter().find(|kind| kind.0 >= digits && kind.1 >= range);
    match kind {
        Some(&(_, _, kind)) if digits != MPI_UNDEFINED || range != MPI_UNDEFINED => {
            let complex = combiner == MPI_COMBINER_F90_COMPLEX;
            let number = |bytes| if complex { Element::Complex(bytes) } else { Element::Float(bytes) };
            Ok(match kind {
                Kind::Float(bytes) => (number(bytes), Wire::Same),
                Kind::LongDouble => (number(16), Wire::Extended),
                Kind::Quad => (Element::Quad { complex }, Wire::Same),
            })
        }
        _ => Err(no_kind("p", digits, range)),
    }
}

#[cold]
fn no_kind(name: &str, digits: c_int, range: c_int) -> Error {
    Error::new(
        MPI_ERR_ARG,
        format_args!("{name} is {digits} and r is {range}, no kind of REAL has such digits and range"),
    )
}

/// MPI_Type_match_size.
///
/// # Errors
/// MPI_ERR_ARG when the class is none, or has no type of that size.
pub fn match_size(class: c_int, size: c_int) -> Result<MPI_Datatype> {
    let found = match (class, size) {
        (MPI_TYPECLASS_INTEGER, 1) => MPI_INTEGER1,
        (MPI_TYPECLASS_INTEGER, 2) => MPI_INTEGER2,
        (MPI_TYPECLASS_INTEGER, 4) => MPI_INTEGER4,
        (MPI_TYPECLASS_INTEGER, 8) => MPI_INTEGER8,
        (MPI_TYPECLASS_INTEGER, 16) => MPI_INTEGER16,
        (MPI_TYPECLASS_REAL, 2) => MPI_REAL2,
        (MPI_TYPECLASS_REAL, 4) => MPI_REAL4,
        (MPI_TYPECLASS_REAL, 8) => MPI_REAL8,
        (MPI_TYPECLASS_REAL, 16) => MPI_REAL16,
        (MPI_TYPECLASS_COMPLEX, 4) => MPI_COMPLEX4,
        (MPI_TYPECLASS_COMPLEX, 8) => MPI_COMPLEX8,
        (MPI_TYPECLASS_COMPLEX, 16) => MPI_COMPLEX16,
        (MPI_TYPECLASS_COMPLEX, 32) => MPI_COMPLEX32,
        (MPIX_TYPECLASS_LOGICAL, 1) => MPI_LOGICAL1,
        (MPIX_TYPECLASS_LOGICAL, 2) => MPI_LOGICAL2,
        (MPIX_TYPECLASS_LOGICAL, 4) => MPI_LOGICAL4,
        (MPIX_TYPECLASS_LOGICAL, 8) => MPI_LOGICAL8,
        (MPIX_TYPECLASS_LOGICAL, 16) => MPI_LOGICAL16,
        (
            MPI_TYPECLASS_INTEGER | MPI_TYPECLASS_REAL | MPI_TYPECLASS_COMPLEX | MPIX_TYPECLASS_LOGICAL,
            size,
        ) => {
            return Err(Error::new(
                MPI_ERR_ARG,
                format_args!("size is {size}, the class has no type of that size"),
            ));
        }
        (class, _) => {
            return Err(Error::new(
                MPI_ERR_ARG,
                format_args!("typeclass is {class}, expected an MPI_TYPECLASS constant"),
            ));
        }
    };
    Ok(found)
}

/// MPI_Type_get_value_index: the predefined pair of these two, or MPI_DATATYPE_NULL.
pub fn value_index(value: MPI_Datatype, index: MPI_Datatype) -> MPI_Datatype {
    match (value, index) {
        (MPI_FLOAT, MPI_INT) => MPI_FLOAT_INT,
        (MPI_DOUBLE, MPI_INT) => MPI_DOUBLE_INT,
        (MPI_LONG, MPI_INT) => MPI_LONG_INT,
        (MPI_INT, MPI_INT) => MPI_2INT,
        (MPI_SHORT, MPI_INT) => MPI_SHORT_INT,
        (MPI_LONG_DOUBLE, MPI_INT) => MPI_LONG_DOUBLE_INT,
        (MPI_REAL, MPI_REAL) => MPI_2REAL,
        (MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION) => MPI_2DOUBLE_PRECISION,
        // Reals of Fortran that options of the compiler have made larger.
        (MPI_DOUBLE, MPI_DOUBLE) => MPI_2DOUBLE_PRECISION,
        (MPI_LONG_DOUBLE, MPI_LONG_DOUBLE) => TUTTI_2LONG_DOUBLE,
        (MPI_REAL16, MPI_REAL16) => TUTTI_2REAL16,
        (MPI_INTEGER, MPI_INTEGER) => MPI_2INTEGER,
        _ => MPI_DATATYPE_NULL,
    }
}

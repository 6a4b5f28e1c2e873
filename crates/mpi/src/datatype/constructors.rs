//! The constructors of MPI 5.1.2 to 5.1.7 and 5.1.10, but for arrays: checked arguments in, a layout out.
//!
//! Each exists for int counts and for large counts; [`Arguments`] keeps what the user gave in the arrays in
//! which MPI_Type_get_contents gives it back: ints in the first case, large counts in the second.

use std::rc::Rc;

use core::ffi::c_int;

use tutti_datatype::{Description, Layout, Part};

use crate::abi::*;
use crate::error::{Result, check};

/// Which of the two interfaces was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Counts are ints, displacements in bytes are MPI_Aint.
    Int,
    /// Counts and displacements are MPI_Count.
    Large,
}

/// Arguments of a constructor, in the order of the standard's tables (5.1.13).
#[derive(Debug)]
pub struct Arguments {
    form: Form,
    integers: Vec<c_int>,
    addresses: Vec<MPI_Aint>,
    counts: Vec<MPI_Count>,
}

impl Arguments {
    /// None yet.
    pub fn new(form: Form) -> Self {
        Arguments { form, integers: Vec::new(), addresses: Vec::new(), counts: Vec::new() }
    }

    /// Numbers that are ints in both interfaces.
    pub fn integers(mut self, values: &[c_int]) -> Self {
        self.integers.extend(values);
        self
    }

    /// Counts: ints or large counts.
    pub fn counts(mut self, values: &[i64]) -> Self {
        match self.form {
            Form::Int => self.integers.extend(values.iter().map(|value| *value as c_int)),
            Form::Large => self.counts.extend(values),
        }
        self
    }

    /// Distances in bytes: addresses or large counts.
    pub fn distances(mut self, values: &[i64]) -> Self {
        match self.form {
            Form::Int => self.addresses.extend(values.iter().map(|value| *value as MPI_Aint)),
            Form::Large => self.counts.extend(values),
        }
        self
    }

    /// The finished type.
    pub fn describe(self, combiner: c_int, types: Vec<Rc<Layout>>, part: Part) -> Layout {
        let Arguments { integers, addresses, counts, .. } = self;
        Layout {
            part,
            description: Description { combiner, integers, addresses, counts, types },
            handle: None,
        }
    }
}

/// MPI_Type_contiguous.
///
/// # Errors
/// MPI_ERR_COUNT.
pub fn contiguous(form: Form, count: i64, old: &Rc<Layout>) -> Result<Layout> {
    not_negative("count", count, MPI_ERR_COUNT)?;
    let arguments = Arguments::new(form).counts(&[count]);
    Ok(arguments.describe(MPI_COMBINER_CONTIGUOUS, vec![old.clone()], old.part.contiguous(count)?))
}

/// MPI_Type_vector: the stride counts elements.
///
/// # Errors
/// MPI_ERR_COUNT; MPI_ERR_ARG when the stride is too large.
pub fn vector(form: Form, count: i64, blocklength: i64, stride: i64, old: &Rc<Layout>) -> Result<Layout> {
    let bytes = i128::from(stride).checked_mul(old.part.bounds.extent());
    let part = strided(count, blocklength, bytes, old)?;
    let arguments = Arguments::new(form).counts(&[count, blocklength, stride]);
    Ok(arguments.describe(MPI_COMBINER_VECTOR, vec![old.clone()], part))
}

/// MPI_Type_create_hvector: the stride counts bytes.
///
/// # Errors
/// MPI_ERR_COUNT; MPI_ERR_ARG when the stride is too large.
pub fn hvector(form: Form, count: i64, blocklength: i64, stride: i64, old: &Rc<Layout>) -> Result<Layout> {
    let part = strided(count, blocklength, Some(stride.into()), old)?;
    let arguments = Arguments::new(form).counts(&[count, blocklength]).distances(&[stride]);
    Ok(arguments.describe(MPI_COMBINER_HVECTOR, vec![old.clone()], part))
}

fn strided(count: i64, blocklength: i64, stride_bytes: Option<i128>, old: &Rc<Layout>) -> Result<Part> {
    not_negative("count", count, MPI_ERR_COUNT)?;
    not_negative("blocklength", blocklength, MPI_ERR_COUNT)?;
    let Some(stride) = stride_bytes else {
        return Err(crate::error::Error::new(MPI_ERR_ARG, "the stride is larger than can be described"));
    };
    Ok(old.part.contiguous(blocklength)?.repeat(count, stride)?)
}

/// In which unit displacements of blocks are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Extents of the old type.
    Elements,
    /// Bytes.
    Bytes,
}

impl Unit {
    fn bytes(self, old: &Layout) -> i128 {
        match self {
            Unit::Elements => old.part.bounds.extent(),
            Unit::Bytes => 1,
        }
    }
}

/// MPI_Type_indexed and MPI_Type_create_hindexed.
///
/// # Errors
/// MPI_ERR_COUNT.
pub fn indexed(
    form: Form,
    unit: Unit,
    blocklengths: &[i64],
    displacements: &[i64],
    old: &Rc<Layout>,
) -> Result<Layout> {
    lengths_not_negative(blocklengths)?;
    let part = blocks(blocklengths.iter().copied(), displacements, unit, old)?;
    let arguments = Arguments::new(form).counts(&[blocklengths.len() as i64]).counts(blocklengths);
    Ok(match unit {
        Unit::Elements => {
            arguments.counts(displacements).describe(MPI_COMBINER_INDEXED, vec![old.clone()], part)
        }
        Unit::Bytes => {
            arguments.distances(displacements).describe(MPI_COMBINER_HINDEXED, vec![old.clone()], part)
        }
    })
}

/// MPI_Type_create_indexed_block and MPI_Type_create_hindexed_block.
///
/// # Errors
/// MPI_ERR_COUNT.
pub fn indexed_block(
    form: Form,
    unit: Unit,
    blocklength: i64,
    displacements: &[i64],
    old: &Rc<Layout>,
) -> Result<Layout> {
    not_negative("blocklength", blocklength, MPI_ERR_COUNT)?;
    let part = blocks(displacements.iter().map(|_| blocklength), displacements, unit, old)?;
    let arguments = Arguments::new(form).counts(&[displacements.len() as i64, blocklength]);
    Ok(match unit {
        Unit::Elements => {
            arguments.counts(displacements).describe(MPI_COMBINER_INDEXED_BLOCK, vec![old.clone()], part)
        }
        Unit::Bytes => {
            arguments.distances(displacements).describe(MPI_COMBINER_HINDEXED_BLOCK, vec![old.clone()], part)
        }
    })
}

fn blocks(
    lengths: impl Iterator<Item = i64> + Clone,
    displacements: &[i64],
    unit: Unit,
    old: &Rc<Layout>,
) -> Result<Part> {
    let unit = unit.bytes(old);
    // 63 bits times what a Bounds keeps below 2^124 may leave 128 bits; it saturates, and the check of bounds
    // refuses it.
    let places = displacements.iter().map(move |at| i128::from(*at).saturating_mul(unit));
    Ok(old.part.blocks(lengths, places)?)
}

/// MPI_Type_create_struct.
///
/// # Errors
/// MPI_ERR_COUNT.
pub fn structure(
    form: Form,
    blocklengths: &[i64],
    displacements: &[i64],
    types: Vec<Rc<Layout>>,
) -> Result<Layout> {
    lengths_not_negative(blocklengths)?;
    let mut parts = Vec::with_capacity(types.len());
    for ((layout, length), at) in types.iter().zip(blocklengths).zip(displacements) {
        parts.push(layout.part.contiguous(*length)?.shift((*at).into())?);
    }
    let arguments = Arguments::new(form).counts(&[blocklengths.len() as i64]).counts(blocklengths);
    Ok(arguments.distances(displacements).describe(MPI_COMBINER_STRUCT, types, Part::concat(parts)?))
}

/// MPI_Type_create_resized.
///
/// # Errors
/// MPI_ERR_COUNT.
pub fn resized(form: Form, lower: i64, extent: i64, old: &Rc<Layout>) -> Result<Layout> {
    let part = old.part.resized(lower.into(), extent.into())?;
    let arguments = Arguments::new(form).distances(&[lower, extent]);
    Ok(arguments.describe(MPI_COMBINER_RESIZED, vec![old.clone()], part))
}

/// MPI_Type_dup.
pub fn duplicate(old: &Rc<Layout>) -> Layout {
    Arguments::new(Form::Int).describe(MPI_COMBINER_DUP, vec![old.clone()], old.part.clone())
}

/// Checks an argument that counts something.
///
/// # Errors
/// `class`, when it is negative.
pub fn not_negative(name: &str, value: i64, class: c_int) -> Result<()> {
    check(value >= 0, class, || format!("{name} is {value}, expected 0 or more"))
}

fn lengths_not_negative(blocklengths: &[i64]) -> Result<()> {
    match blocklengths.iter().position(|length| *length < 0) {
        None => Ok(()),
        Some(i) => not_negative(&format!("array_of_blocklengths[{i}]"), blocklengths[i], MPI_ERR_COUNT),
    }
}

//! Types made anew as they were made before: by the constructor that their description names, of other types.

use std::rc::Rc;

use tutti_datatype::{Description, Layout};

use super::arrays::{self, Distribution};
use super::constructors::{self, Form, Unit};
use crate::abi::*;
use crate::error::Result;

/// A type by the same constructor with the same numbers, of these types.
///
/// # Errors
/// As the constructor's: what fits with other types may not fit with these.
///
/// # Panics
/// When the constructor takes a type and there is none.
pub(crate) fn remade(of: &Description, types: Vec<Rc<Layout>>) -> Result<Layout> {
    let form = if of.counts.is_empty() { Form::Int } else { Form::Large };
    let ints: Vec<i64> = of.integers.iter().map(|number| i64::from(*number)).collect();
    let distances: Vec<i64> = of.addresses.iter().map(|number| *number as i64).collect();
    // Counts first, distances behind them, in both forms.
    let all = if form == Form::Large { of.counts.clone() } else { [ints.clone(), distances].concat() };
    let length = |at: usize| all.get(at).copied().unwrap_or(0) as usize;
    let n = length(0);
    if of.combiner == MPI_COMBINER_STRUCT {
        return constructors::structure(form, &all[1..=n], &all[1 + n..], types);
    }
    let old = &types[0];
    match of.combiner {
        MPI_COMBINER_CONTIGUOUS => constructors::contiguous(form, all[0], old),
        MPI_COMBINER_VECTOR => constructors::vector(form, all[0], all[1], all[2], old),
        MPI_COMBINER_HVECTOR => constructors::hvector(form, all[0], all[1], all[2], old),
        MPI_COMBINER_INDEXED => constructors::indexed(form, Unit::Elements, &all[1..=n], &all[1 + n..], old),
        MPI_COMBINER_HINDEXED => constructors::indexed(form, Unit::Bytes, &all[1..=n], &all[1 + n..], old),
        MPI_COMBINER_INDEXED_BLOCK => {
            constructors::indexed_block(form, Unit::Elements, all[1], &all[2..], old)
        }
        MPI_COMBINER_HINDEXED_BLOCK => constructors::indexed_block(form, Unit::Bytes, all[1], &all[2..], old),
        MPI_COMBINER_RESIZED => constructors::resized(form, all[0], all[1], old),
        MPI_COMBINER_SUBARRAY => {
            let (dimensions, numbers) = match form {
                Form::Int => (ints[0] as usize, &ints[1..]),
                Form::Large => (ints[0] as usize, &all[..]),
            };
            let (sizes, rest) = numbers.split_at(dimensions);
            let (subsizes, rest) = rest.split_at(dimensions);
            let order = of.integers[of.integers.len() - 1];
            arrays::subarray(form, sizes, subsizes, &rest[..dimensions], order, old)
        }
        MPI_COMBINER_DARRAY => {
            let dimensions = of.integers[2] as usize;
            let (gsizes, rest) = match form {
                Form::Int => (ints[3..3 + dimensions].to_vec(), &of.integers[3 + dimensions..]),
                Form::Large => (of.counts.clone(), &of.integers[3..]),
            };
            let array = Distribution {
                size: of.integers[0],
                rank: of.integers[1],
                gsizes: &gsizes,
                distribs: &rest[..dimensions],
                dargs: &rest[dimensions..2 * dimensions],
                psizes: &rest[2 * dimensions..3 * dimensions],
                order: rest[3 * dimensions],
            };
            arrays::darray(form, array, old)
        }
        _ => Ok(constructors::duplicate(old)),
    }
}

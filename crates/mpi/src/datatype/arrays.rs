//! Parts of multidimensional arrays: MPI_Type_create_subarray (5.1.3) and MPI_Type_create_darray (5.1.4).
//!
//! Both begin with one element and add one dimension after the other, the one that varies fastest first. The
//! result has the extent of the whole array.

use std::rc::Rc;

use core::ffi::c_int;

use tutti_datatype::{Layout, Part};

use super::constructors::{Arguments, Form};
use crate::abi::*;
use crate::error::{Error, Result, check};

/// MPI_Type_create_subarray.
///
/// # Errors
/// MPI_ERR_ARG, MPI_ERR_COUNT.
pub fn subarray(
    form: Form,
    sizes: &[i64],
    subsizes: &[i64],
    starts: &[i64],
    order: c_int,
    old: &Rc<Layout>,
) -> Result<Layout> {
    let dimensions = fastest_first(sizes.len(), order)?;
    let mut part = old.part.clone();
    let mut row = old.part.bounds.extent();
    let mut start = 0_i128;
    for &d in &dimensions {
        let (size, subsize, first) = (sizes[d], subsizes[d], starts[d]);
        check(size >= 1, MPI_ERR_ARG, || format!("array_of_sizes[{d}] is {size}, expected 1 or more"))?;
        check((1..=size).contains(&subsize), MPI_ERR_ARG, || {
            format!("array_of_subsizes[{d}] is {subsize}, expected 1 to {size}")
        })?;
        check((0..=size - subsize).contains(&first), MPI_ERR_ARG, || {
            format!("array_of_starts[{d}] is {first}, expected 0 to {}", size - subsize)
        })?;
        part = part.repeat(subsize, row)?;
        start = sum(start, product(first.into(), row)?)?;
        row = product(row, size.into())?;
    }
    let part = part.shift(start)?.resized(0, row)?;
    let arguments = Arguments::new(form)
        .integers(&[sizes.len() as c_int])
        .counts(sizes)
        .counts(subsizes)
        .counts(starts)
        .integers(&[order]);
    Ok(arguments.describe(MPI_COMBINER_SUBARRAY, vec![old.clone()], part))
}

/// The arguments of MPI_Type_create_darray but the old type.
#[derive(Clone, Copy, Debug)]
pub struct Distribution<'a> {
    /// Number of processes.
    pub size: c_int,
    /// The one whose part is described.
    pub rank: c_int,
    /// Elements of the array, per dimension.
    pub gsizes: &'a [i64],
    /// How they are distributed.
    pub distribs: &'a [c_int],
    /// Parameter of the distribution.
    pub dargs: &'a [c_int],
    /// Processes, per dimension.
    pub psizes: &'a [c_int],
    /// Order of dimensions in memory.
    pub order: c_int,
}

/// MPI_Type_create_darray.
///
/// # Errors
/// MPI_ERR_ARG, MPI_ERR_COUNT.
pub fn darray(form: Form, array: Distribution<'_>, old: &Rc<Layout>) -> Result<Layout> {
    let Distribution { size, rank, gsizes, distribs, dargs, psizes, order } = array;
    let dimensions = fastest_first(gsizes.len(), order)?;
    check(size >= 1, MPI_ERR_ARG, || format!("size is {size}, expected 1 or more"))?;
    check((0..size).contains(&rank), MPI_ERR_ARG, || format!("rank is {rank}, expected 0 to {}", size - 1))?;
    let coordinates = coordinates(size, rank, psizes)?;
    let mut part = old.part.clone();
    let mut row = old.part.bounds.extent();
    for &d in &dimensions {
        let gsize = gsizes[d];
        check(gsize >= 1, MPI_ERR_ARG, || format!("array_of_gsizes[{d}] is {gsize}, expected 1 or more"))?;
        let cut = Cut { d, gsize, processes: psizes[d].into(), mine: coordinates[d] };
        part = cut.apply(distribs[d], dargs[d], &part, row)?;
        row = product(row, gsize.into())?;
    }
    let part = part.resized(0, row)?;
    let arguments = Arguments::new(form)
        .integers(&[size, rank, gsizes.len() as c_int])
        .counts(gsizes)
        .integers(distribs)
        .integers(dargs)
        .integers(psizes)
        .integers(&[order]);
    Ok(arguments.describe(MPI_COMBINER_DARRAY, vec![old.clone()], part))
}

/// One dimension of an array, distributed.
struct Cut {
    d: usize,
    gsize: i64,
    processes: i64,
    mine: i64,
}

impl Cut {
    /// Share of this process in `part`s that are `row` bytes apart.
    fn apply(&self, distribution: c_int, argument: c_int, part: &Part, row: i128) -> Result<Part> {
        let (d, gsize, processes) = (self.d, self.gsize, self.processes);
        let block = match (distribution, argument) {
            (MPI_DISTRIBUTE_NONE, _) => {
                check(processes == 1, MPI_ERR_ARG, || {
                    format!("array_of_psizes[{d}] is {processes}, expected 1 with MPI_DISTRIBUTE_NONE")
                })?;
                gsize
            }
            (MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG) => (gsize - 1) / processes + 1,
            (MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG) => 1,
            (MPI_DISTRIBUTE_BLOCK | MPI_DISTRIBUTE_CYCLIC, argument) => {
                check(argument >= 1, MPI_ERR_ARG, || {
                    format!(
                        "array_of_dargs[{d}] is {argument}, expected 1 or more or MPI_DISTRIBUTE_DFLT_DARG"
                    )
                })?;
                argument.into()
            }
            (other, _) => {
                return Err(Error::new(
                    MPI_ERR_ARG,
                    format_args!("array_of_distribs[{d}] is {other}, expected an MPI_DISTRIBUTE constant"),
                ));
            }
        };
        let cover = i128::from(block) * i128::from(processes);
        check(distribution != MPI_DISTRIBUTE_BLOCK || cover >= i128::from(gsize), MPI_ERR_ARG, || {
            format!("array_of_dargs[{d}] is {block}, too few for {gsize} elements on {processes} processes")
        })?;
        self.blocks(block, part, row)
    }

    /// Blocks of `block` elements, dealt out in turn.
    fn blocks(&self, block: i64, part: &Part, row: i128) -> Result<Part> {
        let first = i128::from(self.mine) * i128::from(block);
        let left = i128::from(self.gsize) - first;
        if left <= 0 {
            return Ok(Part::empty());
        }
        let round = i128::from(block) * i128::from(self.processes);
        let whole = if left >= i128::from(block) { (left - i128::from(block)) / round + 1 } else { 0 };
        let rest = (left - whole * round).clamp(0, block.into());
        let blocks = part.repeat(block, row)?.repeat(whole as i64, product(row, round)?)?;
        let tail = part.repeat(rest as i64, row)?.shift(product(row, product(round, whole)?)?)?;
        Ok(Part::concat(vec![blocks, tail])?.shift(product(row, first)?)?)
    }
}

/// Place of a process in the grid, whose last dimension varies fastest whatever the order of the array is.
fn coordinates(size: c_int, rank: c_int, psizes: &[c_int]) -> Result<Vec<i64>> {
    let mut processes = 1_i128;
    for (d, &psize) in psizes.iter().enumerate() {
        check(psize >= 1, MPI_ERR_ARG, || format!("array_of_psizes[{d}] is {psize}, expected 1 or more"))?;
        processes = product(processes, psize.into())?;
    }
    check(processes == size.into(), MPI_ERR_ARG, || {
        format!("size is {size}, expected {processes}, the product of array_of_psizes")
    })?;
    let mut left = rank;
    let mut coordinates = vec![0; psizes.len()];
    for (d, &psize) in psizes.iter().enumerate().rev() {
        coordinates[d] = i64::from(left % psize);
        left /= psize;
    }
    Ok(coordinates)
}

/// The dimensions, beginning with the one that varies fastest in memory.
fn fastest_first(ndims: usize, order: c_int) -> Result<Vec<usize>> {
    match order {
        MPI_ORDER_C => Ok((0..ndims).rev().collect()),
        MPI_ORDER_FORTRAN => Ok((0..ndims).collect()),
        other => Err(Error::new(
            MPI_ERR_ARG,
            format_args!("order is {other}, expected MPI_ORDER_C or MPI_ORDER_FORTRAN"),
        )),
    }
}

fn product(a: i128, b: i128) -> Result<i128> {
    a.checked_mul(b).ok_or_else(too_large)
}

fn sum(a: i128, b: i128) -> Result<i128> {
    a.checked_add(b).ok_or_else(too_large)
}

#[cold]
fn too_large() -> Error {
    Error::new(MPI_ERR_COUNT, "the array would be larger than can be described")
}

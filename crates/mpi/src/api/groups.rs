//! MPI 7.3: groups.

use core::ffi::c_int;
use std::rc::Rc;

use crate::abi::*;
use crate::comm::Group;
use crate::error::Result;
use crate::process::Guard;

fn keep(guard: &mut Guard, group: Group) -> Result<MPI_Group> {
    Ok(guard.comms.keep_group(Rc::new(group)))
}

pub(super) fn size(guard: &Guard, group: MPI_Group) -> Result<usize> {
    Ok(guard.comms.group(group)?.size())
}

/// Rank of this process, or MPI_UNDEFINED.
pub(super) fn rank(guard: &Guard, group: MPI_Group) -> Result<c_int> {
    let rank = guard.comms.group(group)?.rank_of(guard.world_rank());
    Ok(rank.map_or(MPI_UNDEFINED, |rank| rank as c_int))
}

/// The ranks of one group's members in another.
pub(super) fn translate(
    guard: &Guard,
    group: MPI_Group,
    ranks: &[c_int],
    other: MPI_Group,
) -> Result<Vec<c_int>> {
    guard.comms.group(group)?.translate(ranks, &*guard.comms.group(other)?)
}

/// How two groups are alike.
pub(super) fn compare(guard: &Guard, group: MPI_Group, other: MPI_Group) -> Result<c_int> {
    Ok(guard.comms.group(group)?.compare(&*guard.comms.group(other)?))
}

pub(super) fn union(guard: &mut Guard, group: MPI_Group, other: MPI_Group) -> Result<MPI_Group> {
    let made = guard.comms.group(group)?.union(&*guard.comms.group(other)?);
    keep(guard, made)
}

pub(super) fn intersection(guard: &mut Guard, group: MPI_Group, other: MPI_Group) -> Result<MPI_Group> {
    let made = guard.comms.group(group)?.intersection(&*guard.comms.group(other)?);
    keep(guard, made)
}

pub(super) fn difference(guard: &mut Guard, group: MPI_Group, other: MPI_Group) -> Result<MPI_Group> {
    let made = guard.comms.group(group)?.difference(&*guard.comms.group(other)?);
    keep(guard, made)
}

/// The members of these ranks, in this order.
pub(super) fn include(guard: &mut Guard, group: MPI_Group, ranks: &[c_int]) -> Result<MPI_Group> {
    let made = guard.comms.group(group)?.include(ranks)?;
    keep(guard, made)
}

/// The members but those of these ranks.
pub(super) fn exclude(guard: &mut Guard, group: MPI_Group, ranks: &[c_int]) -> Result<MPI_Group> {
    let made = guard.comms.group(group)?.exclude(ranks)?;
    keep(guard, made)
}

/// The members in these ranges of ranks, in this order.
pub(super) fn include_ranges(
    guard: &mut Guard,
    group: MPI_Group,
    ranges: &[[c_int; 3]],
) -> Result<MPI_Group> {
    let ranks = guard.comms.group(group)?.expand(ranges)?;
    include(guard, group, &ranks)
}

/// The members outside these ranges of ranks.
pub(super) fn exclude_ranges(
    guard: &mut Guard,
    group: MPI_Group,
    ranges: &[[c_int; 3]],
) -> Result<MPI_Group> {
    let ranks = guard.comms.group(group)?.expand(ranges)?;
    exclude(guard, group, &ranks)
}

/// Lets go of a group; gives the handle that the user has then. That of the empty group may be given back
/// too, and stays.
pub(super) fn free(guard: &mut Guard, group: MPI_Group) -> Result<MPI_Group> {
    guard.comms.group(group)?;
    if guard.comms.free_group(group) {
        guard.forget_left_ranks();
    }
    Ok(MPI_GROUP_NULL)
}

//! MPI 7.3: groups.

use core::ffi::c_int;
use std::rc::Rc;

use crate::abi::*;
use crate::comm::Comms;
use crate::comm::Group;
use crate::engine::Engine;
use crate::error::Result;

fn keep(comms: &mut Comms, group: Group) -> Result<MPI_Group> {
    Ok(comms.keep_group(Rc::new(group)))
}

pub(super) fn size(comms: &Comms, group: MPI_Group) -> Result<usize> {
    Ok(comms.group(group)?.size())
}

/// Rank of this process, or MPI_UNDEFINED.
pub(super) fn rank(comms: &Comms, engine: &Engine, group: MPI_Group) -> Result<c_int> {
    let rank = comms.group(group)?.rank_of(engine.world_rank());
    Ok(rank.map_or(MPI_UNDEFINED, |rank| rank as c_int))
}

/// The ranks of one group's members in another.
pub(super) fn translate(
    comms: &Comms,
    group: MPI_Group,
    ranks: &[c_int],
    other: MPI_Group,
) -> Result<Vec<c_int>> {
    comms.group(group)?.translate(ranks, &*comms.group(other)?)
}

/// How two groups are alike.
pub(super) fn compare(comms: &Comms, group: MPI_Group, other: MPI_Group) -> Result<c_int> {
    Ok(comms.group(group)?.compare(&*comms.group(other)?))
}

pub(super) fn union(comms: &mut Comms, group: MPI_Group, other: MPI_Group) -> Result<MPI_Group> {
    let made = comms.group(group)?.union(&*comms.group(other)?);
    keep(comms, made)
}

pub(super) fn intersection(comms: &mut Comms, group: MPI_Group, other: MPI_Group) -> Result<MPI_Group> {
    let made = comms.group(group)?.intersection(&*comms.group(other)?);
    keep(comms, made)
}

pub(super) fn difference(comms: &mut Comms, group: MPI_Group, other: MPI_Group) -> Result<MPI_Group> {
    let made = comms.group(group)?.difference(&*comms.group(other)?);
    keep(comms, made)
}

/// The members of these ranks, in this order.
pub(super) fn include(comms: &mut Comms, group: MPI_Group, ranks: &[c_int]) -> Result<MPI_Group> {
    let made = comms.group(group)?.include(ranks)?;
    keep(comms, made)
}

/// The members but those of these ranks.
pub(super) fn exclude(comms: &mut Comms, group: MPI_Group, ranks: &[c_int]) -> Result<MPI_Group> {
    let made = comms.group(group)?.exclude(ranks)?;
    keep(comms, made)
}

/// The members in these ranges of ranks, in this order.
pub(super) fn include_ranges(
    comms: &mut Comms,
    group: MPI_Group,
    ranges: &[[c_int; 3]],
) -> Result<MPI_Group> {
    let ranks = comms.group(group)?.expand(ranges)?;
    include(comms, group, &ranks)
}

/// The members outside these ranges of ranks.
pub(super) fn exclude_ranges(
    comms: &mut Comms,
    group: MPI_Group,
    ranges: &[[c_int; 3]],
) -> Result<MPI_Group> {
    let ranks = comms.group(group)?.expand(ranges)?;
    exclude(comms, group, &ranks)
}

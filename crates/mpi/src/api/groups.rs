//! MPI 7.3: groups.

use core::ffi::{CStr, c_int};
use std::rc::Rc;

use crate::abi::*;
use crate::argument::{array, get, put};
use crate::comm::Group;
use crate::errhandler::call;
use crate::error::{Result, check};
use crate::process::Guard;

/// Runs a call on groups, which raises its errors on MPI_COMM_SELF.
#[inline(always)]
fn on_groups(name: &'static CStr, body: impl FnOnce(&mut Guard) -> Result<()>) -> c_int {
    call(name, MPI_COMM_SELF, body)
}

/// Runs a call that makes a group.
#[inline(always)]
unsafe fn make(
    name: &'static CStr,
    newgroup: *mut MPI_Group,
    body: impl FnOnce(&Guard) -> Result<Group>,
) -> c_int {
    on_groups(name, |guard| {
        check(!newgroup.is_null(), MPI_ERR_ARG, || "newgroup is a null pointer".into())?;
        let group = body(guard)?;
        let made = guard.keep_group(Rc::new(group));
        // SAFETY: the user gives a place for the group.
        unsafe { put(newgroup, "newgroup", made) }
    })
}

/// How many members (7.3.1).
#[inline]
pub unsafe fn MPI_Group_size(group: MPI_Group, size: *mut c_int) -> c_int {
    on_groups(c"MPI_Group_size", |guard| {
        let members = guard.group(group)?.size();
        // SAFETY: the user gives a place for the size.
        unsafe { put(size, "size", members as c_int) }
    })
}

/// Rank of this process, or MPI_UNDEFINED (7.3.1).
#[inline]
pub unsafe fn MPI_Group_rank(group: MPI_Group, rank: *mut c_int) -> c_int {
    on_groups(c"MPI_Group_rank", |guard| {
        let mine = guard.group(group)?.rank_of(guard.world_rank());
        // SAFETY: the user gives a place for the rank.
        unsafe { put(rank, "rank", mine.map_or(MPI_UNDEFINED, |rank| rank as c_int)) }
    })
}

/// The ranks of one group's members in another (7.3.1).
#[inline]
pub unsafe fn MPI_Group_translate_ranks(
    group1: MPI_Group,
    n: c_int,
    ranks1: *const c_int,
    group2: MPI_Group,
    ranks2: *mut c_int,
) -> c_int {
    on_groups(c"MPI_Group_translate_ranks", |guard| {
        // SAFETY: the user gives an array of n ranks.
        let ranks = unsafe { array(ranks1, n, "ranks1") }?;
        let translated = guard.group(group1)?.translate(ranks, &*guard.group(group2)?)?;
        check(!ranks2.is_null() || n == 0, MPI_ERR_ARG, || "ranks2 is a null pointer".into())?;
        for (i, rank) in translated.into_iter().enumerate() {
            // SAFETY: the user gives room for n ranks.
            unsafe { ranks2.add(i).write(rank) };
        }
        Ok(())
    })
}

/// How two groups are alike (7.3.1).
#[inline]
pub unsafe fn MPI_Group_compare(group1: MPI_Group, group2: MPI_Group, result: *mut c_int) -> c_int {
    on_groups(c"MPI_Group_compare", |guard| {
        let likeness = guard.group(group1)?.compare(&*guard.group(group2)?);
        // SAFETY: the user gives a place for the result.
        unsafe { put(result, "result", likeness) }
    })
}

/// The members of both groups (7.3.2).
#[inline]
pub unsafe fn MPI_Group_union(group1: MPI_Group, group2: MPI_Group, newgroup: *mut MPI_Group) -> c_int {
    // SAFETY: as the user's.
    unsafe {
        make(c"MPI_Group_union", newgroup, |guard| Ok(guard.group(group1)?.union(&*guard.group(group2)?)))
    }
}

/// The members that both groups have (7.3.2).
#[inline]
pub unsafe fn MPI_Group_intersection(
    group1: MPI_Group,
    group2: MPI_Group,
    newgroup: *mut MPI_Group,
) -> c_int {
    let body = |guard: &Guard| Ok(guard.group(group1)?.intersection(&*guard.group(group2)?));
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Group_intersection", newgroup, body) }
}

/// The members of the first group that the second has not (7.3.2).
#[inline]
pub unsafe fn MPI_Group_difference(group1: MPI_Group, group2: MPI_Group, newgroup: *mut MPI_Group) -> c_int {
    let body = |guard: &Guard| Ok(guard.group(group1)?.difference(&*guard.group(group2)?));
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Group_difference", newgroup, body) }
}

/// The members of these ranks, in this order (7.3.2).
#[inline]
pub unsafe fn MPI_Group_incl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut MPI_Group,
) -> c_int {
    // SAFETY: the user gives an array of n ranks and a place for the group.
    unsafe {
        make(c"MPI_Group_incl", newgroup, |guard| guard.group(group)?.include(array(ranks, n, "ranks")?))
    }
}

/// The members but those of these ranks (7.3.2).
#[inline]
pub unsafe fn MPI_Group_excl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut MPI_Group,
) -> c_int {
    // SAFETY: the user gives an array of n ranks and a place for the group.
    unsafe {
        make(c"MPI_Group_excl", newgroup, |guard| guard.group(group)?.exclude(array(ranks, n, "ranks")?))
    }
}

/// The members in these ranges of ranks, in this order (7.3.2).
#[inline]
pub unsafe fn MPI_Group_range_incl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut MPI_Group,
) -> c_int {
    let body = |guard: &Guard| {
        let group = guard.group(group)?;
        // SAFETY: the user gives an array of n ranges.
        group.include(&group.expand(unsafe { array(ranges, n, "ranges") }?)?)
    };
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Group_range_incl", newgroup, body) }
}

/// The members outside these ranges of ranks (7.3.2).
#[inline]
pub unsafe fn MPI_Group_range_excl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut MPI_Group,
) -> c_int {
    let body = |guard: &Guard| {
        let group = guard.group(group)?;
        // SAFETY: the user gives an array of n ranges.
        group.exclude(&group.expand(unsafe { array(ranges, n, "ranges") }?)?)
    };
    // SAFETY: as the user's.
    unsafe { make(c"MPI_Group_range_excl", newgroup, body) }
}

/// The user lets go of a group (7.3.3).
#[inline]
pub unsafe fn MPI_Group_free(group: *mut MPI_Group) -> c_int {
    on_groups(c"MPI_Group_free", |guard| {
        // SAFETY: the user gives a place that holds a handle.
        let handle = unsafe { get(group, "group") }?;
        guard.group(handle)?;
        if let Some(index) = guard.groups.index(handle.0) {
            guard.groups.remove(index);
        }
        // SAFETY: as above. The handle of the empty group may be given back too, and stays.
        unsafe { put(group, "group", MPI_GROUP_NULL) }
    })
}

//! Teams of PEs.

use core::ffi::{c_int, c_long};

use crate::memory;
use crate::team::shmem_team_t;
use crate::team::{self, Team};

/// Configuration that is asked for when a team is made.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct shmem_team_config_t {
    /// Contexts that the team will have at once.
    pub num_contexts: c_int,
}

/// The bit of `num_contexts` in a mask.
const NUM_CONTEXTS: c_long = 1;

/// # Safety
/// The configuration is there if the mask asks for it.
unsafe fn contexts(config: *const shmem_team_config_t, mask: c_long) -> c_int {
    // SAFETY: our contract.
    if mask & NUM_CONTEXTS != 0 && !config.is_null() { unsafe { (*config).num_contexts } } else { 0 }
}

/// The number of this PE in a team; -1 if the handle is `SHMEM_TEAM_INVALID`.
pub unsafe fn team_my_pe(team: shmem_team_t) -> c_int {
    memory::pes("team_my_pe");
    if team == team::INVALID { -1 } else { team::get("team_my_pe", team).me as c_int }
}

/// How many PEs a team has; -1 if the handle is `SHMEM_TEAM_INVALID`.
pub unsafe fn team_n_pes(team: shmem_team_t) -> c_int {
    memory::pes("team_n_pes");
    if team == team::INVALID { -1 } else { team::get("team_n_pes", team).size() as c_int }
}

/// What was asked for when the team was made.
pub unsafe fn team_get_config(
    team: shmem_team_t,
    config_mask: c_long,
    config: *mut shmem_team_config_t,
) -> c_int {
    memory::pes("team_get_config");
    if team == team::INVALID {
        return -1;
    }
    let team = team::get("team_get_config", team);
    if config_mask & NUM_CONTEXTS != 0 && !config.is_null() {
        // SAFETY: the user gives a place for the configuration.
        unsafe { config.write(shmem_team_config_t { num_contexts: team.contexts }) };
    }
    0
}

/// The number in one team of a PE that has a number in another; -1 if it is in only one of them.
pub unsafe fn team_translate_pe(src_team: shmem_team_t, src_pe: c_int, dest_team: shmem_team_t) -> c_int {
    memory::pes("team_translate_pe");
    if src_team == team::INVALID || dest_team == team::INVALID {
        return -1;
    }
    let source = team::get("team_translate_pe", src_team);
    let Some(world) = source.members.get(src_pe as u32 as usize) else { return -1 };
    let dest = team::get("team_translate_pe", dest_team);
    if let Some(same) = dest.members.get(*world as usize).filter(|same| *same == world) {
        return *same as c_int;
    }
    dest.members.iter().position(|member| member == world).map_or(-1, |at| at as c_int)
}

/// A part of a team: PEs `start`, `start` + `stride` and so on. Called by all PEs of the parent team; those
/// that are not chosen get `SHMEM_TEAM_INVALID`.
pub unsafe fn team_split_strided(
    parent_team: shmem_team_t,
    start: c_int,
    stride: c_int,
    size: c_int,
    config: *const shmem_team_config_t,
    config_mask: c_long,
    new_team: *mut shmem_team_t,
) -> c_int {
    memory::pes("team_split_strided");
    // SAFETY: the user gives a place for the handle.
    unsafe { new_team.write(team::INVALID) };
    if parent_team == team::INVALID {
        return -1;
    }
    let parent = team::get("team_split_strided", parent_team);
    // SAFETY: as the user's.
    let contexts = unsafe { contexts(config, config_mask) };
    let Some(chosen) = strided(&parent, start, stride, size) else { return -1 };
    if contexts < 0 {
        return -1;
    }
    if let Some(team) = parent.split(&chosen, contexts) {
        // SAFETY: as above.
        unsafe { new_team.write(team::keep(team)) };
    }
    0
}

/// Members of a part; none if they are not all in the team, each once.
fn strided(parent: &Team, start: c_int, stride: c_int, size: c_int) -> Option<Vec<u32>> {
    if size < 1 || start < 0 || stride == 0 && size > 1 {
        return None;
    }
    (0..i64::from(size))
        .map(|member| {
            let place = i64::from(start) + member * i64::from(stride);
            parent.members.get(usize::try_from(place).ok()?).copied()
        })
        .collect()
}

/// Two teams from one: the PEs of a row, and those of a column, of a grid with `xrange` columns.
pub unsafe fn team_split_2d(
    parent_team: shmem_team_t,
    xrange: c_int,
    xaxis_config: *const shmem_team_config_t,
    xaxis_mask: c_long,
    xaxis_team: *mut shmem_team_t,
    yaxis_config: *const shmem_team_config_t,
    yaxis_mask: c_long,
    yaxis_team: *mut shmem_team_t,
) -> c_int {
    memory::pes("team_split_2d");
    // SAFETY: the user gives places for the handles.
    unsafe {
        xaxis_team.write(team::INVALID);
        yaxis_team.write(team::INVALID);
    }
    if parent_team == team::INVALID || xrange < 1 {
        return -1;
    }
    let parent = team::get("team_split_2d", parent_team);
    let columns = (xrange as usize).min(parent.size());
    let (row, column) = (parent.me / columns, parent.me % columns);
    let member = |at: usize| parent.members[at];
    let along: Vec<u32> = (row * columns..((row + 1) * columns).min(parent.size())).map(member).collect();
    let down: Vec<u32> = (column..parent.size()).step_by(columns).map(member).collect();
    // SAFETY: as the user's. Rows, then columns: each PE is in one of each, so all are split at once.
    unsafe {
        let x = parent.split_by(row, &along, contexts(xaxis_config, xaxis_mask));
        xaxis_team.write(team::keep(x));
        let y = parent.split_by(column, &down, contexts(yaxis_config, yaxis_mask));
        yaxis_team.write(team::keep(y));
    }
    0
}

/// Destroys a team. Called by all its PEs.
pub unsafe fn team_destroy(team: shmem_team_t) {
    memory::pes("team_destroy");
    team::destroy("team_destroy", team);
}

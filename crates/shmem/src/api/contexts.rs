//! Communication contexts.

use core::ffi::{c_int, c_long};

use crate::context;
use crate::context::shmem_ctx_t;
use crate::team;
use crate::team::shmem_team_t;

/// Makes a context. Its operations are completed apart from those of others.
pub unsafe fn ctx_create(options: c_long, ctx: *mut shmem_ctx_t) -> c_int {
    // SAFETY: as the user's.
    unsafe { create("ctx_create", team::WORLD, options, ctx) }
}

/// Makes a context in which PEs are numbered as in a team.
pub unsafe fn team_create_ctx(team: shmem_team_t, options: c_long, ctx: *mut shmem_ctx_t) -> c_int {
    // SAFETY: as the user's.
    unsafe { create("team_create_ctx", team, options, ctx) }
}

unsafe fn create(function: &str, team: shmem_team_t, options: c_long, ctx: *mut shmem_ctx_t) -> c_int {
    let made = if team == team::INVALID { None } else { context::create(function, team, options) };
    // SAFETY: the user gives a place for the handle.
    unsafe { ctx.write(made.unwrap_or(context::INVALID)) };
    if made.is_some() { 0 } else { -1 }
}

/// Destroys a context, when its operations are done.
pub unsafe fn ctx_destroy(ctx: shmem_ctx_t) {
    context::destroy("ctx_destroy", ctx);
    crate::memory::quiet("ctx_destroy");
}

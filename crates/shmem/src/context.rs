//! Contexts: inside a node every operation is done when its call returns, so a context has nothing to keep
//! but the team that numbers its PEs.

use core::ffi::{c_int, c_long};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::fault;
use crate::memory;
use crate::team::{self, Team, shmem_team_t};

/// A handle: a number that never comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
#[allow(non_camel_case_types)]
pub struct shmem_ctx_t(pub usize);

/// No context.
pub const INVALID: shmem_ctx_t = shmem_ctx_t(0);
/// The context of functions that name none.
pub const DEFAULT: shmem_ctx_t = shmem_ctx_t(1);

#[derive(Clone, Debug)]
struct Context {
    handle: shmem_team_t,
    team: Arc<Team>,
}

/// Contexts by handle, and the last handle.
static CONTEXTS: RwLock<Option<(HashMap<usize, Context>, usize)>> = RwLock::new(None);

/// The options of the standard: serialized, private, no stores.
const OPTIONS: c_long = 7;

/// A context for a team; none when the options are not the standard's.
pub fn create(function: &str, handle: shmem_team_t, options: c_long) -> Option<shmem_ctx_t> {
    let team = team::get(function, handle);
    if options & !OPTIONS != 0 {
        return None;
    }
    let mut contexts = CONTEXTS.write().unwrap_or_else(PoisonError::into_inner);
    let (contexts, last) = contexts.get_or_insert_with(|| (HashMap::new(), DEFAULT.0));
    *last += 1;
    contexts.insert(*last, Context { handle, team });
    Some(shmem_ctx_t(*last))
}

/// Destroys a context.
pub fn destroy(function: &str, ctx: shmem_ctx_t) {
    memory::pes(function);
    match ctx {
        INVALID => {}
        DEFAULT => fault::end(function, format_args!("SHMEM_CTX_DEFAULT cannot be destroyed")),
        _ => {
            let mut contexts = CONTEXTS.write().unwrap_or_else(PoisonError::into_inner);
            if contexts.as_mut().and_then(|(contexts, _)| contexts.remove(&ctx.0)).is_none() {
                drop(contexts);
                end_stale(function, ctx);
            }
        }
    }
}

/// The team of a context; none of [`INVALID`].
pub fn team_of(function: &str, ctx: shmem_ctx_t) -> Option<shmem_team_t> {
    match ctx {
        INVALID => None,
        DEFAULT => Some(team::WORLD),
        _ => Some(with(function, ctx, |context| context.handle)),
    }
}

/// The number in the world of a PE that a call with this context names.
#[inline(always)]
pub fn world_pe(function: &str, ctx: shmem_ctx_t, pe: c_int) -> c_int {
    if ctx == DEFAULT { pe } else { translate(function, ctx, pe) }
}

/// A call that names no PE uses this context; none ([`INVALID`]) is allowed.
#[inline(always)]
pub fn check(function: &str, ctx: shmem_ctx_t) {
    if ctx != DEFAULT && ctx != INVALID {
        with(function, ctx, |_| ());
    }
}

#[inline(never)]
fn translate(function: &str, ctx: shmem_ctx_t, pe: c_int) -> c_int {
    let found = with(function, ctx, |context| {
        let members = &context.team.members;
        members.get(pe as u32 as usize).copied().ok_or(members.len() - 1)
    });
    match found {
        Ok(world) => world as c_int,
        Err(last) => fault::end(
            function,
            format_args!("there is no PE {pe}, PEs of the context's team are 0 to {last}"),
        ),
    }
}

fn with<T>(function: &str, ctx: shmem_ctx_t, action: impl FnOnce(&Context) -> T) -> T {
    memory::pes(function);
    let contexts = CONTEXTS.read().unwrap_or_else(PoisonError::into_inner);
    match contexts.as_ref().and_then(|(contexts, _)| contexts.get(&ctx.0)) {
        Some(context) => action(context),
        None => {
            drop(contexts);
            end_stale(function, ctx)
        }
    }
}

#[cold]
fn end_stale(function: &str, ctx: shmem_ctx_t) -> ! {
    let what = if ctx == INVALID { "is SHMEM_CTX_INVALID" } else { "was destroyed or was never one" };
    fault::end(function, format_args!("the context {:#x} {what}", ctx.0))
}

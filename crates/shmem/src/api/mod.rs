//! The bodies of the OpenSHMEM functions: one for each family of `bindings/shmem/functions.txt`, generic over
//! the type of its elements. `bindings/libtutti` exports them under all their names.
//!
//! The comment above a body is the text of its manual page.

#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]
// Work arrays and names are those of the standard.
#![allow(non_snake_case)]

mod active_sets;
mod atomics;
mod collectives;
mod contexts;
mod locks;
mod memory;
mod ordering;
mod rma;
mod setup;
mod signals;
mod synchronization;
mod teams;

pub use active_sets::*;
pub use atomics::*;
pub use collectives::*;
pub use contexts::*;
pub use locks::*;
pub use memory::*;
pub use ordering::*;
pub use rma::*;
pub use setup::*;
pub use signals::*;
pub use synchronization::*;
pub use teams::*;

pub use crate::context::{DEFAULT as SHMEM_CTX_DEFAULT, shmem_ctx_t};
pub use crate::element::LongDouble;
pub use crate::team::shmem_team_t;

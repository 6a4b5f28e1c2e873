//! The bodies of the OpenSHMEM functions, generic over the type of their elements. `bindings/libtutti`
//! exports them under all their names: a family of `bindings/shmem/functions.txt` names its body, or has an
//! expression of what stands here.
//!
//! The comment above a body is the text of its manual page, if the table has none.

#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]
// Work arrays and names are those of the standard.
#![allow(non_snake_case)]

mod atomics;
mod collectives;
mod contexts;
mod memory;
mod ordering;
mod rma;
mod setup;
mod signals;
mod synchronization;
mod teams;

pub use atomics::*;
pub use collectives::*;
pub use contexts::*;
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

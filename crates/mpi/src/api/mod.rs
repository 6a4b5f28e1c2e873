//! The bodies of the MPI functions, by chapter and subject.
//!
//! A body is a line that begins with `pub unsafe fn MPI_`, preceded by `#[inline]`, with the argument types
//! of the table. Most are generated: those of [`collectives`] and of [`calls`], which let functions beside
//! them do the work; the others stand in the module of their subject. `bindings/libtutti` finds a body and
//! exports it under both names. No body calls another through an exported name, because a profiling tool
//! would see that call.

#![allow(non_snake_case)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]

mod abi_handles;
mod addresses;
mod attributes;
mod buffered;
mod calls;
mod collectives;
mod communicators;
mod elements;
mod environment;
mod errors;
mod exchanges;
mod files;
pub mod fortran;
mod generalized;
mod groups;
mod info;
mod matched_probe;
mod names;
mod one_sided;
mod operations;
mod packing;
mod partitioned;
mod persistent;
mod platform;
mod ports;
mod probes;
mod receives;
mod requests;
mod sends;
mod sessions;
mod spawn;
mod start;
mod statuses;
mod tool_categories;
mod tool_events;
mod tool_variables;
mod topologies;
mod type_constructors;
mod type_contents;
mod type_queries;
mod windows;

pub use abi_handles::*;
pub use addresses::*;
pub use calls::*;
pub use collectives::*;
pub use communicators::*;
pub use environment::*;
pub use errors::*;
pub use files::*;
pub use info::*;
pub use platform::*;
pub use ports::*;
pub use requests::*;
pub use sessions::*;
pub use spawn::*;
pub use start::*;
pub use tool_categories::*;
pub use tool_events::*;
pub use tool_variables::*;
pub use type_contents::*;
pub use type_queries::*;

//! The bodies of the MPI functions, by chapter and subject.
//!
//! A body is a line that begins with `pub unsafe fn MPI_`, preceded by `#[inline]`, with the argument types
//! of the table. `bindings/libtutti` finds it there and exports it under both names; this folder, with the
//! bodies generated for [`collectives`], is the list of what is written. No body calls another through an
//! exported name, because a profiling tool would see that call.

#![allow(non_snake_case)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]

mod abi_handles;
mod addresses;
mod attributes;
mod buffered;
mod collectives;
mod communicators;
mod elements;
mod environment;
mod errors;
mod exchanges;
mod generalized;
mod groups;
mod info;
mod matched_probe;
mod names;
mod operations;
mod packing;
mod partitioned;
mod persistent;
mod platform;
mod probes;
mod receives;
mod requests;
mod sends;
mod sessions;
mod start;
mod statuses;
mod tool_categories;
mod tool_variables;
mod topologies;
mod type_constructors;
mod type_constructors_large;
mod type_contents;
mod type_queries;

pub use abi_handles::*;
pub use addresses::*;
pub use attributes::*;
pub use buffered::*;
pub use collectives::*;
pub use communicators::*;
pub use elements::*;
pub use environment::*;
pub use errors::*;
pub use exchanges::*;
pub use generalized::*;
pub use groups::*;
pub use info::*;
pub use matched_probe::*;
pub use names::*;
pub use operations::*;
pub use packing::*;
pub use partitioned::*;
pub use persistent::*;
pub use platform::*;
pub use probes::*;
pub use receives::*;
pub use requests::*;
pub use sends::*;
pub use sessions::*;
pub use start::*;
pub use statuses::*;
pub use tool_categories::*;
pub use tool_variables::*;
pub use topologies::*;
pub use type_constructors::*;
pub use type_constructors_large::*;
pub use type_contents::*;
pub use type_queries::*;

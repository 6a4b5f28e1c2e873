//! The MPI face: what stands behind the symbols of `libmpi_abi.so.1`.
//!
//! A call enters in [`api`], checks and translates its arguments, and works on the one [`process::Process`]:
//! point-to-point in [`engine`], collectives in [`collective`]. Handles are numbers ([`handle`]); errors
//! carry a class and a text ([`error`]) and reach the user through [`errhandler`].

pub mod abi;
pub mod above;
pub mod api;
pub mod argument;
mod argument_names;
pub mod attached;
mod attribute_calls;
pub mod attributes;
pub mod buffered;
pub mod callback_state;
pub mod check;
pub mod check_mode;
pub mod collective;
pub mod comm;
pub mod compound;
pub mod datatype;
pub mod end_job;
pub mod engine;
pub mod errhandler;
pub mod error;
pub mod error_codes;
pub mod events;
pub mod file;
pub mod handle;
pub mod info;
mod initial_errhandler;
pub mod invariant;
mod lifecycle;
pub mod moving;
mod null_argument;
pub mod partitioned;
pub mod phase;
pub mod point_to_point;
pub mod process;
pub mod progress;
pub mod request;
pub mod sections;
mod session;
pub mod stats;
pub mod tally;
pub mod tool;
pub mod tool_users;
mod type_arguments;
mod unsupported;
pub mod variables;
mod wait_goal;
pub mod win;

pub use null_argument::{null_argument, null_argument_of_file, null_argument_of_session};
pub use unsupported::unsupported;

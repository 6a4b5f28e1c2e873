//! MPI chapter 6 and 8.6 to 8.8: collective operations, blocking, nonblocking and persistent, of all ranks or
//! of neighbours.
//!
//! The bodies are generated from the rules in `bindings/mpi/collectives.txt`
//! (`tutti_table::bodies::collectives`).

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::collective::work::{Arguments, Integers, ReductionArguments, Scattered, Work};
use crate::datatype::Data;
use crate::process::entry::call;

include!(concat!(env!("OUT_DIR"), "/collectives.rs"));

//! The calls that turn their arguments into values, let a function beside this module do the work, and write
//! its results to the places that the user gives.
//!
//! The bodies are generated from the rules in `bindings/mpi/calls.txt` (`tutti_table::bodies::calls`).

// A block around a function that takes addresses as they are may do nothing unsafe itself.
#![allow(unused_unsafe)]
// A rule names the owners that its function gets, and the function says whether it changes them.
#![allow(clippy::unnecessary_mut_passed)]

use core::ffi::{CStr, c_char, c_int, c_void};

use super::buffered::ProcessBuffer;
use super::packing::Packed;
use super::persistent::How;
use super::tool_variables::tool_call;
use crate::abi::*;
use crate::argument::{self, put_text};
use crate::attributes;
use crate::datatype::Data;
use crate::datatype::constructors::{Form, Unit};
use crate::engine::message::Mode;
use crate::errhandler;
use crate::process::entry::{call, call_anytime, call_file, call_window, on_session};
use crate::tool::Change;
use crate::type_arguments::{Number, dimensions, numbers, slice};
use crate::win::operations::Target;

include!(concat!(env!("OUT_DIR"), "/calls.rs"));

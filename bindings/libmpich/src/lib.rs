//! `libmpi.so.12` and `libmpich.so.12`: the binary interface of MPICH, Intel MPI and MVAPICH, for programs
//! that were compiled for one of them.
//!
//! Every function turns its arguments into ours and calls ours by its address in a table of `libtutti.so.1`,
//! which has functions of the same names. All state is there. The functions are generated (see
//! `tutti_table::mpich`); those that differ by more than numbers stand in [`by_hand`], those that the
//! standard has not, or no more, in [`removed`], [`fortran`] and [`extensions`].
//!
//! | what | there | here |
//! |---|---|---|
//! | handle | `int` | our number, which is none of the predefined ones of its type; those by tables |
//! | status | 20 bytes | ours, on the stack; written back if ours has written it |
//! | function of the user | takes `int` handles | ours calls one of [`callbacks`], whose state is the user's |

#![allow(non_snake_case, non_camel_case_types)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments, clippy::unnecessary_cast)]
#![allow(missing_docs, unreachable_pub, reason = "symbols of the library, which C calls")]

#[path = "../../shared/abi.rs"]
mod abi;
mod arrays;
mod buffers;
mod by_hand;
mod callbacks;
mod extensions;
mod fortran;
mod handle;
#[path = "../../shared/lengths.rs"]
mod lengths;
mod removed;
mod roles;
mod sections;
mod status;
mod throwing;
mod variables;

use abi::*;
use arrays::{Handles, Integers};
use core::ffi::{c_char, c_int, c_void};
use handle::MpichFile;
use lengths::{neighbours, receives, sends};
use status::{Status, Statuses};

include!(concat!(env!("OUT_DIR"), "/functions.rs"));

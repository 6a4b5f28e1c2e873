//! Memory-based communication (MBCF): operations on the memory of other ranks, which need not take part.
//!
//! | operation | inside a node |
//! |---|---|
//! | remote write ([`Memory::write_to`], [`write()`]) | `process_vm_writev`: from our memory to an address that the other rank has sent |
//! | remote read ([`Memory::read_from`], [`read()`]) | `process_vm_readv` |
//! | atomic changes of elements ([`accumulate::Target`]) | the processor's atomics, or loops with the gate closed |
//! | typed data of a window ([`part::Part`]) | copies of mapped memory, or through the kernel; [`attached`]: where there is memory |
//! | copy of a message by its two ranks ([`copy::Copy`]) | pieces, written by the one and read by the other, whoever is there |
//!
//! Two cores that copy one message in halves move it up to 1.8 times as fast as one does, because a core
//! alone does not use the memory's whole bandwidth. Where the kernel forbids such copies the caller uses the
//! bulk ring.
#![deny(unsafe_code)]

pub mod accumulate;
pub mod attached;
pub mod claims;
pub mod control;
pub mod copy;
pub mod device;
pub mod done;
pub mod engine;
pub mod operation;
mod os;
pub mod own;
pub mod part;
pub mod region;
pub mod stand_in;
pub mod wire;

pub use os::{CALL_BYTES_MAX, Memory, Process, Remote, await_job_end_if_dead, read, write};

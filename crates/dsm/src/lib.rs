//! Distributed shared memory (SSS-CORE, ADSM): one address space for the ranks of a job on many nodes.
//!
//! | module | what it is |
//! |---|---|
//! | [`core`] | the protocol: pages, intervals, vector times, locks, barriers; without I/O, clock and `unsafe` |

#[deny(unsafe_code)]
pub mod core;

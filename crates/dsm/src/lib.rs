//! Distributed shared memory (SSS-CORE, ADSM): one address space for the ranks of a job on many nodes, and
//! what PARMACS macros need of it.
//!
//! | module | what it is |
//! |---|---|
//! | [`core`] | the protocol: pages, intervals, vector times, locks, barriers; without I/O, clock and `unsafe` |
//! | [`arena`] | the memory: one address on all ranks, twins |
//! | [`globals`] | variables of C as shared memory, in a program that is linked so |
//! | `foreign` | shared variables that hold addresses of shared libraries |
//! | [`permissions`] | what the program may do with pages, by userfaultfd or by mprotect |
//! | [`fault`] | the handler of faults, SIGBUS or SIGSEGV |
//! | [`note`] | stores that compiled code has noted |
//! | [`executor`] | the member of this rank on the network; calls that wait |
//! | `mates` | records between ranks of a node |
//! | [`node`] | locks, barriers and flags of a job on one node, which has no protocol |
//! | [`start`] | the place in the job, and its end |
//! | [`process`] | the state of a rank |
//! | [`condition`] | condition variables |
//! | [`object`] | locks, barriers, flags and memory as the program names them |
//! | `nap` | short sleeps while the network is congested |
//! | [`pages`] | pages in bulk: many runs in a call |
//! | [`create`] | processes: all ranks run `main` up to CREATE |
//! | [`replay`] | what `main` gets from outside before CREATE: once for all ranks |
//! | [`site`] | a line of the program |
//! | [`checked`] | loads and stores that compiled code checks before they happen |
//! | `states` | the state of each page as that code sees it |
//! | `maps` | addresses that mean something to this process alone, in a job that is checked |
//! | `spin` | loops that wait for an ordinary variable, in a job that is checked |
//! | [`keep`] | what a program must not take away: mappings, descriptors |
//! | `freed` | pages that were given back |
//! | [`present`] | shared memory in calls of the system |
//! | [`sites`] | instructions of the program that cause traffic |
//! | `variables` | variables of C that a process changes, in a job that is checked |
//! | `views` | mappings by which the program sees all that |
//! | `statistics` | what each rank has counted, at the end |
//! | [`failure`] | what cannot go on: one line, and the end of the job |
//!
//! `unsafe` is allowed in `os`, `fault`, `note`, `executor` and `replay`, and where MPI and the program's
//! functions are called.

pub mod arena;
pub mod checked;
pub mod condition;
#[deny(unsafe_code)]
pub mod core;
pub mod create;
pub mod executor;
pub mod failure;
pub mod fault;
mod foreign;
mod freed;
pub mod globals;
pub mod heap;
pub mod keep;
mod maps;
mod mates;
mod nap;
pub mod node;
pub mod note;
pub mod object;
mod os;
pub mod pages;
pub mod permissions;
pub mod present;
pub mod process;
pub mod replay;
pub mod site;
pub mod sites;
pub mod size;
mod spin;
pub mod start;
mod states;
mod statistics;
mod variables;
mod views;

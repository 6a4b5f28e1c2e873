//! Starting, watching and ending jobs, on one node and on several: the promises of `mpiexec` and the starter.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod console;
mod deaths;
mod endings;
mod every_option;
mod far;
mod filters;
mod harness;
mod inherited;
mod last_words;
mod lost_output;
mod manual;
mod namespaces;
mod nodes;
mod options;
mod refusals;
mod signals;
mod simulate;
mod slices;
mod stdio;
mod terminal;
mod tickets;

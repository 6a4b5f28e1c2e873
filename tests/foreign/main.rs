//! Programs that are not ours: MPICH's run unmodified, on our library or, by PMI, on their own; Open MPI's by
//! PMIx; any command is a job.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod commands;
#[path = "../launch/harness.rs"]
#[allow(dead_code)]
mod harness;
mod hostile;
mod mpich;
mod mpich_packages;
mod open_mpi;
mod open_mpi_dynamic;
mod packages;
mod stand_in;
mod unserved;

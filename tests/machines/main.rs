//! Properties that must hold between nodes, on machines that share nothing but a cable
//! (`tutti_testkit::lab`): the conformance programs of MPI, OpenSHMEM, DSE and the native interface, new
//! processes, published regions, services, and a cluster that loses and regains machines. Everything runs
//! from `target/dist`. The larger set, on cables that lose frames and on several numbers of ranks, is `make
//! test-lab`.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod cluster;
mod ends;
mod hostile;
mod logins;
mod memory;
mod messages;
mod origin;
mod pods;
mod processes;
mod regions;
mod services;
mod shared;

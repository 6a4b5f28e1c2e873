//! Files of the origin: ranks on nodes without the files of the node where their job was started open them
//! all the same.
//!
//! ```text
//! front end --fork, exec--> server (the user's) <==TCP== ranks: tutti_origin_...,
//! MPI_File_open("origin:...")     \--key, in the job's environment                <==TCP== client of a node,
//! child of its starter: FUSE
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`frames`] | what both sides send: requests, answers; the only parser of what comes by the network |
//! | [`origin`] | where the server is and how it knows its clients: the value of `TUTTI_ORIGIN` |
//! | [`server`] | opens what lies below the exported folders, and nothing else |
//! | [`client`] | a connection, and a call for each operation |
//! | [`process`] | files of the origin for a rank |
//! | [`fuse`] | the kernel's requests of a mounted folder, answered by such calls |
//!
//! The server is a process of the user, so the kernel refuses there what the user may not do. It resolves
//! each path below an exported folder with `openat2` (RESOLVE_BENEATH, no magic links): a link out of it is
//! refused. Who shows the key of the job is served, and nobody else. Nothing is encrypted, as messages
//! between ranks are not.
#![deny(unsafe_code)]

pub mod client;
pub mod frames;
pub mod fuse;
pub mod origin;
pub mod process;
pub mod server;
mod sys;

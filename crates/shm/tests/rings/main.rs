//! The rings and the doorbell between two threads and between two processes: in order, exactly once, whole,
//! whatever instruction the other side is killed, frozen or delayed at.
//!
//! A process is frozen by ptrace: it stands at an instruction, and the test looks at the shared memory
//! through a mapping of its own, or lets the other end work on a copy of that memory.
#![cfg(not(loom))]

mod frozen_receiver;
mod frozen_sender;
mod frozen_sleeper;
mod frozen_team;
mod killed_writer;
mod memory;
mod script;
mod storms;
mod two_threads;

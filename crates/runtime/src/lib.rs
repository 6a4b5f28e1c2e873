//! What a process of a job links: it redeems its ticket ([`attach`]), knows its peers ([`job`]) and waits ([`wait`]).
//!
//! Order of use: [`attach::attach`] once, then [`job::Job`] for everything that lies in the segment, [`wait::Waiter`] around
//! every loop that waits for others.

pub mod attach;
pub mod clock;
pub mod forger;
pub mod job;
pub mod log;
pub mod net;
pub mod wait;
pub mod yama;

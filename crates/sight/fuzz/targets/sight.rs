//! Readers of sight for what others say; their promises are in `readers.rs`.
#![no_main]
#![allow(dead_code)]

#[path = "../../src/access.rs"]
mod access;
#[path = "../../src/live.rs"]
mod live;
#[path = "../../src/log.rs"]
mod log;
#[path = "../../src/metrics.rs"]
mod metrics;
#[path = "../../src/output.rs"]
mod output;
mod readers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| readers::read(input));

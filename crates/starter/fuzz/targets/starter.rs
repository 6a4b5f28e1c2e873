//! Everything in a job's start that reads bytes of others; its promises are in `readers.rs`.
#![no_main]

mod readers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| readers::read(input));

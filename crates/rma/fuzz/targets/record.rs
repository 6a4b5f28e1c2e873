//! Records of remote memory; what holds is in `records.rs`.
#![no_main]

#[allow(dead_code, reason = "the samples are for the seeds")]
mod records;

libfuzzer_sys::fuzz_target!(|input: &[u8]| records::take(input));

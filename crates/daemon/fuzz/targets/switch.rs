//! The datagrams of the switch threads; what must hold stands in `datagrams.rs`.
#![no_main]

mod datagrams;
#[allow(dead_code)]
#[path = "../../src/gang/lanes/lane.rs"]
mod lane;
#[allow(dead_code)]
#[path = "../../src/gang/lanes/seal.rs"]
mod seal;
#[path = "../../src/gang/lanes/words.rs"]
mod words;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    datagrams::read(input);
});

//! Readers of `tutti top` for what others say; their promises are in `readers.rs`.
#![no_main]
#![allow(dead_code)]

#[path = "../../src/model.rs"]
mod model;
#[path = "../../src/once.rs"]
mod once;
mod readers;
#[path = "../../src/screen.rs"]
mod screen;

libfuzzer_sys::fuzz_target!(|input: &[u8]| readers::read(input));

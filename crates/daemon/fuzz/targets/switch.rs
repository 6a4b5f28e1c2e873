//! The datagrams of the switch threads; what must hold stands in `datagrams.rs`.
#![no_main]

mod datagrams;
#[allow(dead_code)]
#[path = "../../src/gang/switch_links/switch_link.rs"]
mod switch_link;
#[allow(dead_code)]
#[path = "../../src/gang/switch_links/seal.rs"]
mod seal;
#[path = "../../src/gang/switch_links/message.rs"]
mod message;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    datagrams::read(input);
});

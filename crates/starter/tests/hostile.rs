//! Whatever bytes come over the wire of a starter, on the socket of its ranks or in the table of peers:
//! nothing panics, and what is read is what would be written. `make fuzz` looks for more with the same
//! readers, guided by coverage.

#[path = "../fuzz/targets/readers.rs"]
mod readers;
#[path = "../fuzz/targets/samples.rs"]
mod samples;

use proptest::prelude::*;

#[test]
fn starter_messages_round_trip() {
    for sample in samples::samples() {
        readers::read(&sample);
        (1..sample.len()).for_each(|length| readers::read(&sample[..length]));
    }
}

#[test]
fn starter_messages_that_are_nearly_right_do_not_panic() {
    let samples = samples::samples();
    for which in 0..readers::READERS {
        let of_one: Vec<_> =
            samples.iter().filter(|bytes| bytes[0] == which).map(|bytes| bytes[1..].to_vec()).collect();
        tutti_testkit::nearly::read_frames(&of_one, |bytes| readers::read(&[&[which], bytes].concat()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn starter_messages_of_any_bytes_do_not_panic(which in 0..readers::READERS, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        readers::read(&[&[which], &bytes[..]].concat());
    }

    #[test]
    fn starter_messages_mutated_do_not_panic(
        number in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..8),
    ) {
        let samples = samples::samples();
        let mut bytes = number.get(&samples).clone();
        for (at, byte, kind) in changes {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        readers::read(&bytes);
    }
}

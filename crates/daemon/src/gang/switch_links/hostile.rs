//! Whatever bytes come where the switch threads hear: nothing panics, and what [`super::datagrams`] asserts
//! holds. `make fuzz` looks for more with the same reader, guided by coverage.

use proptest::prelude::*;

use super::SwitchMessage;
use super::datagrams::read;

#[path = "../../../fuzz/targets/samples.rs"]
mod samples;

#[test]
fn switch_link_recorded_sessions_replay() {
    for sample in samples::samples() {
        for length in 0..=sample.len() {
            read(&sample[..length]);
        }
    }
}

#[test]
fn switch_link_recorded_messages_parse() {
    let messages = samples::messages();
    assert!(messages.iter().all(|message| read(message) == 1), "{messages:?}");
    assert!(samples::samples().iter().any(|life| read(life) == messages.len()));
}

#[test]
fn switch_link_datagrams_that_are_nearly_right_do_not_panic() {
    let all = [samples::samples(), samples::messages()].concat();
    tutti_testkit::nearly::read_frames(&all, |bytes| {
        read(bytes);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn switch_link_any_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        read(&bytes);
    }

    #[test]
    fn switch_link_mutated_sessions_do_not_panic(
        number in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let samples = samples::samples();
        let mut bytes = number.get(&samples).repeat(3);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read(&bytes);
    }
}

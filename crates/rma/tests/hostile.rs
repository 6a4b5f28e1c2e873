//! Whatever records come from another rank: nothing beside the open memory changes, nothing panics, and every
//! refusal is counted by its reason. `make fuzz` looks for more with the same memory, guided by coverage.

#[path = "../fuzz/targets/records.rs"]
mod records;

use proptest::prelude::*;

#[test]
fn records_of_all_kinds_are_taken_whole_and_cut() {
    for sample in records::samples() {
        records::take(&sample);
        (1..sample.len()).for_each(|length| records::take(&sample[..length]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn records_of_any_bytes_do_no_harm(
        kinds in proptest::collection::vec((0x20_u8..0x30, 0_u8..6, proptest::collection::vec(any::<u8>(), 0..120)), 1..8),
    ) {
        let mut input = Vec::new();
        for (kind, region, mut record) in kinds {
            if let Some(place) = record.get_mut(0) {
                *place = kind;
            }
            // The region, mostly one that is open, and few ranges.
            for (at, byte) in [(7, 0), (8, region), (9, 0), (10, 0), (11, 0), (12, 0), (13, 0), (14, 0), (15, 0)] {
                if let Some(place) = record.get_mut(at) {
                    *place = byte;
                }
            }
            input.extend((record.len() as u16).to_le_bytes());
            input.extend(record);
        }
        records::take(&input);
    }

    #[test]
    fn records_that_were_changed_do_no_harm(
        number in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let samples = records::samples();
        let mut input = number.get(&samples).clone();
        for (at, byte) in changes {
            let at = at.index(input.len());
            input[at] = byte;
        }
        records::take(&input);
    }
}

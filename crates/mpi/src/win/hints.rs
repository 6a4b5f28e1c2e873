//! Info keys of windows (MPI 12.2): what the user asserts, and what holds.

use crate::info::Info;

/// Keys with their values where the user says nothing.
const DEFAULTS: [(&[u8], &[u8]); 6] = [
    (b"no_locks", b"false"),
    (b"accumulate_ordering", b"rar,raw,war,waw"),
    (b"accumulate_ops", b"same_op_no_op"),
    (b"mpi_accumulate_granularity", b"0"),
    (b"same_size", b"false"),
    (b"same_disp_unit", b"false"),
];
/// Asks for memory of each rank at an address that suits it, not behind that of the rank before.
pub const NONCONTIGUOUS: &[u8] = b"alloc_shared_noncontig";

/// Hints of a new window, with what the user says.
pub fn of_new(given: &Info, is_shared: bool) -> Info {
    let mut hints = Info::default();
    for (key, value) in DEFAULTS {
        hints.set(key, value);
    }
    if is_shared {
        hints.set(NONCONTIGUOUS, b"false");
    }
    take(&mut hints, given);
    hints
}

/// Takes what the user says under the keys that are known, if it is one of their values.
pub fn take(hints: &mut Info, given: &Info) {
    for (key, value) in given.iter() {
        if hints.get(key).is_some() && is_value(key, value) {
            hints.set(key, value);
        }
    }
}

fn is_value(key: &[u8], value: &[u8]) -> bool {
    match key {
        b"accumulate_ordering" => {
            value == b"none"
                || value
                    .split(|byte| *byte == b',')
                    .all(|order| matches!(order, b"rar" | b"raw" | b"war" | b"waw"))
        }
        b"accumulate_ops" => matches!(value, b"same_op" | b"same_op_no_op"),
        b"mpi_accumulate_granularity" => !value.is_empty() && value.iter().all(u8::is_ascii_digit),
        _ => matches!(value, b"true" | b"false"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_hints_take_known_keys_with_possible_values() {
        let mut given = Info::default();
        given.set(b"no_locks", b"true");
        given.set(b"accumulate_ordering", b"raw,waw");
        given.set(b"accumulate_ops", b"any");
        given.set(b"color", b"blue");
        given.set(b"same_size", b"maybe");
        given.set(NONCONTIGUOUS, b"true");
        let hints = of_new(&given, false);
        assert_eq!(hints.get(b"no_locks"), Some(&b"true"[..]));
        assert_eq!(hints.get(b"accumulate_ordering"), Some(&b"raw,waw"[..]));
        assert_eq!(hints.get(b"accumulate_ops"), Some(&b"same_op_no_op"[..]));
        assert_eq!(hints.get(b"same_size"), Some(&b"false"[..]));
        assert_eq!((hints.get(b"color"), hints.get(NONCONTIGUOUS)), (None, None));
        assert_eq!(of_new(&given, true).get(NONCONTIGUOUS), Some(&b"true"[..]));
    }
}

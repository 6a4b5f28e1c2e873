//! The number from which a controller numbers its switches, plans and lists of nodes: larger than all that
//! any controller before it has used, also where the clock was set back in between. A file beside its folder
//! of waiting jobs, `NAME.first`.
//!
//! Writer: the controller, when it starts, before anybody hears a number of it. It is not brought to the
//! disk: a power cut ends the controller's machine, and then the clock has to do. A file that is no such file
//! counts as none.

use std::io;
use std::path::Path;

use super::kept::{self, Until};

/// A longer file is none.
const BYTES_MAX: u64 = 64;
/// As many numbers as a controller may use beyond its first one, in us: with a slice of 5 ms half a year of
/// switches.
const USED_MAX: u64 = 1 << 32;

/// The first number of this controller, whose clock says this, in us since 1970.
pub(super) fn take(folder: &Path, now_us: u64) -> u64 {
    let path = folder.with_extension("first");
    let before = kept::read::<u64>(&path, BYTES_MAX).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!("{} is not read, the clock has to do: {error}", path.display());
        }
        0
    });
    let behind = before.checked_add(USED_MAX).filter(|_| before > 0).unwrap_or(0);
    let first = now_us.max(behind);
    if let Err(error) = kept::replace(&path, &first, Until::Renamed) {
        let path = path.display();
        tracing::warn!("cannot write {path}, a new controller needs a clock that was not set back: {error}");
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_number_of_a_controller_is_behind_all_of_those_before_it() {
        let scratch = tutti_testkit::Scratch::in_memory("first");
        let folder = scratch.path().join("node0.queue");
        let file = folder.with_extension("first");
        assert_eq!(take(&folder, 1 << 50), 1 << 50);
        // The clock is set back by years.
        let second = take(&folder, 1 << 40);
        assert_eq!(second, (1 << 50) + USED_MAX);
        assert_eq!(take(&folder, 1 << 40), second + USED_MAX);
        assert_eq!(take(&folder, 1 << 51), 1 << 51);
        for rubbish in ["", "-1", "{", "[1]", "18446744073709551615", "0"] {
            std::fs::write(&file, rubbish).unwrap();
            assert_eq!(take(&folder, 1 << 40), 1 << 40, "{rubbish}");
        }
    }
}

//! Variables that dynamic linker and C library read: root's daemon gives them to the starter under other
//! names.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Beginning of the name of a variable that is the ranks', not the starter's.
const WITHHELD: &[u8] = b"_RANKS_";

/// The name under which root's daemon gives a user's variable to the starter: what the dynamic linker and the
/// C library do for it they do for the ranks, not for the starter, which has descriptors of the job's cgroup.
pub fn withhold(name: &[u8]) -> Vec<u8> {
    let is_of_libc = name.starts_with(b"LD_")
        || name.starts_with(b"MALLOC_")
        || [&b"GLIBC_TUNABLES"[..], b"GCONV_PATH", b"LOCPATH", b"NLSPATH"].contains(&name);
    if is_of_libc { [WITHHELD, name].concat() } else { name.to_vec() }
}

/// The name that a variable had before.
pub fn restore(name: OsString) -> OsString {
    let bytes = name.as_bytes();
    let before = bytes.strip_prefix(WITHHELD).filter(|before| withhold(before) == bytes);
    before.map(|before| OsStr::from_bytes(before).to_owned()).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_of_the_linker_is_withheld_from_the_starter_and_given_to_the_ranks() {
        for name in ["LD_PRELOAD", "LD_LIBRARY_PATH", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX"] {
            let other = withhold(name.as_bytes());
            assert_ne!(other, name.as_bytes());
            assert_eq!(restore(OsStr::from_bytes(&other).to_owned()), *name);
        }
        for name in ["PATH", "TUTTI_STATS", "_RANKS_PATH", "_RANKS_"] {
            assert_eq!(withhold(name.as_bytes()), name.as_bytes());
            assert_eq!(restore(name.into()), *name);
        }
    }
}

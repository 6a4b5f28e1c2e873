//! Addresses that mean something to this process alone, for jobs that are checked (`TUTTI_DSM_CHECK=1`).
//!
//! ```text
//! the program's file   low: the same on all ranks
//! memory of malloc     low at first, behind the file: a number of the program may look like an address there. So
//!                      malloc is made to take mappings instead
//! the arena            0x2000_0000_0000: the same on all ranks
//! mappings, the stack  above: elsewhere on each rank
//! the library's        among them, by far the largest: other views of the arena, twins, notes. No program has
//!                      an address there, so what looks like one is a number
//! ```
//!
//! Two whole numbers of 32 bits, side by side, may look like an address above: the second one is then its
//! upper half. So malloc's mappings are made to lie where the lower half is a negative number; and what else
//! lies where it is a small one is not looked at.

use crate::core::violation::Private;
use crate::os;

/// The lowest address of mappings that the kernel places, and of files that may lie anywhere.
const PLACED_FROM: u64 = 0x5000_0000_0000;
/// Behind the last address of a program.
const PLACED_END: u64 = 1 << 48;
/// Sizes of blocks that malloc may still have low memory for.
const BLOCK_BYTES: [usize; 7] = [65536, 4096, 1024, 256, 128, 64, 24];
/// Blocks of a size that are taken at most.
const BLOCKS_MAX: usize = 8192;

/// Lower halves of addresses that are whole numbers of a program rather.
const SMALL_END: u32 = 1 << 24;
/// Lower halves of addresses that are negative numbers of 32 bits.
const NEGATIVE_FROM: u64 = 1 << 31;

/// Memory of this process that an address leads to, and that other ranks have elsewhere.
pub(crate) fn private_place(address: u64) -> Option<Private> {
    // The list of mappings is long, and most numbers lead nowhere.
    let is_far = (PLACED_FROM..PLACED_END).contains(&address) && address as u32 >= SMALL_END;
    if !is_far || !os::is_mapped(address as usize) || os::is_own(address as usize) {
        return None;
    }
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    place_in(&maps, address)
}

/// The same by a list of the kernel.
fn place_in(maps: &str, address: u64) -> Option<Private> {
    let holds = |line: &&str| {
        let (range, rest) = line.split_once(' ')?;
        let (begin, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        // What is reserved without any right, as malloc does for threads by 64 MiB, no pointer leads to.
        Some((number(begin)?..number(end)?).contains(&address) && !rest.starts_with("---"))
    };
    let line = maps.lines().find(|line| holds(line) == Some(true))?;
    Some(if line.ends_with("[stack]") { Private::Stack } else { Private::Other })
}

/// From now on malloc takes memory that is told from numbers. What it cannot give back stays in use.
pub(crate) fn keep_malloc_apart() {
    os::close_break();
    // The kernel places mappings from above to below: what is reserved leaves them the upper half of 4 GiB.
    os::reserve_down_to(NEGATIVE_FROM << 1);
    for bytes in BLOCK_BYTES {
        let mut blocks = 0..BLOCKS_MAX;
        while blocks.next().is_some() && (os::allocate(bytes) as u64) < PLACED_FROM {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_tell_the_stack_from_other_private_memory() {
        let maps = "00400000-00401000 r--p 00000000 08:01 7 /bin/x\n\
                    7f0000001000-7f0000003000 rw-p 00000000 00:00 0 \n\
                    7f0000003000-7f0004000000 ---p 00000000 00:00 0 \n\
                    7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\n";
        let of = |address| place_in(maps, address);
        assert_eq!([of(0x7f0000001000), of(0x7ffc00000008)], [Some(Private::Other), Some(Private::Stack)]);
        assert_eq!([of(0x7f0000003000), of(0x7f0000000fff)], [None; 2]);
        let variable = 0_u64;
        let place = (&raw const variable).expose_provenance() as u64;
        assert_eq!(private_place(place).is_some(), place as u32 >= SMALL_END);
        assert_eq!([private_place(0x400008), private_place(7)], [None; 2]);
    }

    #[test]
    fn maps_take_what_leads_to_memory_of_the_library_for_a_number() {
        let bytes = 2 * SMALL_END as usize;
        let made = os::map_anywhere(bytes).expect("address space");
        // A half of it, at least, has addresses that are looked at.
        let looked = |at: usize| move |part: usize| (at + part * bytes / 8) as u64;
        let found: Vec<u64> =
            (0..8).map(looked(made)).filter(|address| private_place(*address).is_some()).collect();
        assert!(found.is_empty(), "{found:x?}");
        let block = vec![1_u8; bytes];
        let at = (&raw const block[0]).expose_provenance();
        let is_found = |address| private_place(address) == Some(Private::Other);
        assert!((0..8).map(looked(at)).any(is_found), "memory of malloc at {at:#x}");
    }
}

//! Where the memory of a window lies in the range that its ranks on a node share: each of them makes the same
//! plan of the records that all have sent ([`Record`]), so the places need not be agreed on.

use core::ffi::c_int;
use std::ptr::NonNull;

use tutti_rma::attached::{TABLE_BYTES, Table};
use tutti_rma::control::{Control, Layout};
use tutti_shm::arena::{LARGE_BYTES, Mapping};

use crate::abi::*;

/// The least alignment of a range, in bytes.
pub const PAGE_BYTES: u64 = 4096;

/// Memory and wishes of a rank for a new window, as the others get them.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Whether its arguments are right.
    pub is_right: bool,
    /// Whether it asks for memory that does not follow that of the rank before.
    pub is_noncontiguous: bool,
    /// The alignment in bytes that it asks for, a power of two up to 1 GiB.
    pub alignment: u64,
    /// Address of its memory, if the user gives it.
    pub base: u64,
    /// Bytes of its memory.
    pub bytes: u64,
    /// Bytes of a step of displacements.
    pub disp_unit: u64,
}

const RECORD_WORDS: usize = 7;

impl Record {
    /// The words in which it goes to the other ranks.
    pub fn encode(self) -> [u32; RECORD_WORDS] {
        let ([b0, b1], [n0, n1], [u0, u1]) = (halves(self.base), halves(self.bytes), halves(self.disp_unit));
        let flags = u32::from(self.is_right) | u32::from(self.is_noncontiguous) << 1;
        [flags | self.alignment.trailing_zeros() << 2, b0, b1, n0, n1, u0, u1]
    }

    /// The record that a rank has sent.
    pub fn decode(words: [u32; RECORD_WORDS]) -> Self {
        Record {
            is_right: words[0] & 1 != 0,
            is_noncontiguous: words[0] & 2 != 0,
            alignment: 1 << (words[0] >> 2 & 0x3F),
            base: number(&words[1..3]),
            bytes: number(&words[3..5]),
            disp_unit: number(&words[5..7]),
        }
    }
}

/// A number as agreements carry it, the lower half first.
pub fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// The number of two halves.
pub fn number(halves: &[u32]) -> u64 {
    u64::from(halves[0]) | u64::from(halves[1]) << 32
}

/// Where things lie in the range that the ranks of a window share.
#[derive(Debug)]
pub struct Plan {
    layout: Layout,
    table_begin: u64,
    /// Where the memory of each rank begins.
    pub memory: Vec<u64>,
    /// Bytes of the whole.
    pub bytes: u64,
    /// The alignment in bytes that each process maps it at, a power of two, at least a page.
    pub alignment: u64,
}

impl Plan {
    /// For those of the window's ranks that are on this node. None when it is larger than any range.
    pub fn new(flavor: c_int, ranks: usize, records: &[Record]) -> Option<Self> {
        let mates = records.len() as u64;
        let layout = Layout::new(mates as u32, ranks as u32);
        let table_begin = mates * layout.bytes() as u64;
        let tables = if flavor == MPI_WIN_FLAVOR_DYNAMIC { mates * TABLE_BYTES as u64 } else { 0 };
        let mut end = table_begin + tables;
        let (mut memory, mut alignment) = (Vec::new(), PAGE_BYTES);
        if matches!(flavor, MPI_WIN_FLAVOR_ALLOCATE | MPI_WIN_FLAVOR_SHARED) {
            let is_contiguous =
                flavor == MPI_WIN_FLAVOR_SHARED && !records.iter().any(|record| record.is_noncontiguous);
            alignment = records.iter().map(|record| record.alignment).fold(PAGE_BYTES, u64::max);
            let is_large = records.iter().any(|record| record.bytes >= LARGE_BYTES);
            end = end.next_multiple_of(if is_large { LARGE_BYTES.max(alignment) } else { alignment });
            for record in records {
                let align = match is_contiguous {
                    true => 1,
                    false if record.bytes >= LARGE_BYTES => record.alignment.max(LARGE_BYTES),
                    false => record.alignment.max(PAGE_BYTES),
                };
                end = end.checked_next_multiple_of(align)?;
                memory.push(end);
                end = end.checked_add(record.bytes)?;
            }
        }
        Some(Plan { layout, table_begin, memory, bytes: end, alignment })
    }
}

impl Plan {
    /// The words of a mate, and its table of attached memory.
    pub fn words(&self, flavor: c_int, mapping: &Mapping, mate: usize) -> (Control, Option<Table>) {
        // SAFETY: the words were zero when the range was taken, and lie in a mapping that lives as long as
        // the window; all ranks of the node have the same plan.
        unsafe {
            let control =
                Control::new(self.at(mapping, mate as u64 * self.layout.bytes() as u64), self.layout);
            let table_at = self.table_begin + mate as u64 * TABLE_BYTES as u64;
            let has_table = flavor == MPI_WIN_FLAVOR_DYNAMIC;
            (control, has_table.then(|| Table::new(self.at(mapping, table_at))))
        }
    }

    /// The address of a byte of the range.
    pub fn at(&self, mapping: &Mapping, offset: u64) -> NonNull<u8> {
        assert!(offset <= self.bytes, "byte {offset} of a range of {}", self.bytes);
        // SAFETY: every part of the plan lies inside the range that was taken for it.
        unsafe { mapping.base().add(offset as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(alignment: u64, bytes: u64, is_noncontiguous: bool) -> Record {
        Record { is_right: true, is_noncontiguous, alignment, base: 0, bytes, disp_unit: 1 }
    }

    #[test]
    fn window_record_keeps_its_alignment() {
        for bits in [0, 6, 12, 30] {
            let decoded = Record::decode(record(1 << bits, 5, true).encode());
            assert_eq!((decoded.alignment, decoded.bytes, decoded.is_noncontiguous), (1 << bits, 5, true));
        }
    }

    #[test]
    fn window_plan_gives_each_rank_its_alignment_and_a_contiguous_one_the_first() {
        let asked = [64, 1 << 16, 1 << 23];
        for (flavor, is_noncontiguous) in
            [(MPI_WIN_FLAVOR_ALLOCATE, false), (MPI_WIN_FLAVOR_SHARED, true), (MPI_WIN_FLAVOR_SHARED, false)]
        {
            let records = asked.map(|alignment| record(alignment, 100, is_noncontiguous));
            let plan = Plan::new(flavor, 3, &records).expect("it is small");
            assert_eq!(plan.alignment, 1 << 23);
            if flavor == MPI_WIN_FLAVOR_SHARED && !is_noncontiguous {
                assert_eq!(plan.memory[0] % (1 << 23), 0);
                assert_eq!((plan.memory[1] - plan.memory[0], plan.memory[2] - plan.memory[0]), (100, 200));
                continue;
            }
            for (place, alignment) in plan.memory.iter().zip(asked) {
                assert_eq!(place % alignment, 0);
            }
        }
        let plan = Plan::new(MPI_WIN_FLAVOR_CREATE, 1, &[record(1 << 23, 100, false)]).expect("it is small");
        assert_eq!(plan.alignment, PAGE_BYTES);
    }
}

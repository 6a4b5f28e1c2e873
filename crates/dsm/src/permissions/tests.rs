//! Promises of a back end, for each of them alike. The kernel says what is allowed: it copies a byte from a
//! page, or to it, and fails with EFAULT where an access of the program would fault.

use super::*;
use tutti_testkit::{Need, Random, seed, skip_part};

const UNITS: u32 = 48;
/// Units from here on are another file's, as frames are that ranks of a node share.
const SECOND: u32 = 20;
/// Units of which the files have no memory until they are stored to.
const HOLES: std::ops::Range<u32> = 30..40;

/// Memory that is seen twice, as the arena is, and its rights.
struct Memory {
    base: usize,
    files: [i32; 2],
    pipe: [i32; 2],
    permissions: Box<dyn Permissions>,
}

fn map_file(address: *mut libc::c_void, units: u32, flags: i32, file: i32) -> usize {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | flags;
    // SAFETY: a new mapping, or one over memory of the test.
    let found = unsafe { libc::mmap(address, units as usize * UNIT_BYTES, protection, flags, file, 0) };
    assert_ne!(found, libc::MAP_FAILED, "{}", io::Error::last_os_error());
    found.expose_provenance()
}

impl Memory {
    fn new(backend: Backend) -> Option<Self> {
        let mut is_refused = false;
        let memory = Memory::of(|base| {
            let (permissions, refusal) = choose(Some(backend), base, UNITS).expect("memory");
            is_refused = refusal.is_some();
            if let Some(error) = refusal {
                skip_part(Need::Kernel, format_args!("userfaultfd is refused: {error}"));
            }
            permissions
        });
        assert!(is_refused || memory.permissions.backend() == backend);
        (!is_refused).then_some(memory)
    }

    fn of(permissions: impl FnOnce(usize) -> Box<dyn Permissions>) -> Self {
        let file = || {
            // SAFETY: a name; the file is the test's.
            let file = unsafe { libc::memfd_create(c"permissions".as_ptr(), libc::MFD_CLOEXEC) };
            // SAFETY: numbers alone.
            assert_eq!(unsafe { libc::ftruncate(file, i64::from(UNITS) * UNIT_BYTES as i64) }, 0);
            file
        };
        let files = [file(), file()];
        let base = map_file(std::ptr::null_mut(), UNITS, 0, files[0]);
        let second = std::ptr::with_exposed_provenance_mut(base + SECOND as usize * UNIT_BYTES);
        map_file(second, UNITS - SECOND, libc::MAP_FIXED, files[1]);
        let mut pipe = [0; 2];
        // SAFETY: room for two numbers.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        let permissions = permissions(base);
        let mut memory = Memory { base, files, pipe, permissions };
        (0..UNITS)
            .filter(|unit| !HOLES.contains(unit))
            .for_each(|unit| memory.store_behind(unit, 1 + unit as u8));
        memory.permissions.close().expect("rights are taken away");
        memory
    }

    fn address(&self, unit: u32) -> usize {
        self.base + unit as usize * UNIT_BYTES
    }

    /// Stores a byte by the other way to the memory, as the library does.
    fn store_behind(&mut self, unit: u32, byte: u8) {
        let (file, unit) = if unit < SECOND { (self.files[0], unit) } else { (self.files[1], unit - SECOND) };
        let offset = i64::from(unit) * UNIT_BYTES as i64;
        // SAFETY: a byte.
        assert_eq!(unsafe { libc::pwrite(file, (&raw const byte).cast(), 1, offset) }, 1);
    }

    /// The byte that the program would load; none: it would fault.
    fn load(&self, unit: u32) -> Option<u8> {
        let mut byte = 0_u8;
        // SAFETY: the kernel looks whether it may read the page, and the byte has room.
        unsafe {
            if libc::write(self.pipe[1], std::ptr::with_exposed_provenance(self.address(unit)), 1) != 1 {
                assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
                return None;
            }
            assert_eq!(libc::read(self.pipe[0], (&raw mut byte).cast(), 1), 1);
        }
        Some(byte)
    }

    /// Stores a byte as the program would; whether it would not fault.
    fn store(&self, unit: u32, byte: u8) -> bool {
        let place = std::ptr::with_exposed_provenance_mut(self.address(unit));
        let mut rest = 0_u8;
        // SAFETY: as above.
        unsafe {
            assert_eq!(libc::write(self.pipe[1], (&raw const byte).cast(), 1), 1);
            if libc::read(self.pipe[0], place, 1) == 1 {
                return true;
            }
            assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
            assert_eq!(libc::read(self.pipe[0], (&raw mut rest).cast(), 1), 1);
        }
        false
    }

    /// Right of the program on a unit. A store leaves the byte as it is.
    fn found(&self, unit: u32) -> Access {
        match self.load(unit) {
            None => Access::None,
            Some(byte) if self.store(unit, byte) => Access::Write,
            Some(_) => Access::Read,
        }
    }

    fn touch(&mut self, unit: u32, access: Access) {
        self.permissions.set(Run::of(unit), Some(unit), access).expect("a right");
    }

    /// The kernel drops the entry of a page, as it may at any time.
    fn drop_entry(&self, unit: u32) {
        let address = std::ptr::with_exposed_provenance_mut::<u8>(self.address(unit));
        // SAFETY: memory of the test, which its file keeps.
        assert_eq!(unsafe { libc::madvise(address.cast(), UNIT_BYTES, libc::MADV_DONTNEED) }, 0);
    }

    /// Units for which the files have memory.
    fn filled(&self) -> u64 {
        let blocks = self.files.map(|file| {
            // SAFETY: zeroed is a value of this plain structure, which the call fills.
            unsafe {
                let mut found: libc::stat = std::mem::zeroed();
                assert_eq!(libc::fstat(file, &mut found), 0);
                found.st_blocks as u64 * 512
            }
        });
        blocks.iter().sum::<u64>() / UNIT_BYTES as u64
    }
}

/// A test of each back end.
fn each(test: impl Fn(Memory)) {
    for backend in [Backend::Mprotect, Backend::Userfaultfd] {
        Memory::new(backend).into_iter().for_each(&test);
    }
}

fn rank(access: Access) -> u8 {
    match access {
        Access::None => 0,
        Access::Read => 1,
        Access::Write => 2,
    }
}

const ALL: [Access; 3] = [Access::None, Access::Read, Access::Write];

#[test]
fn permissions_of_a_touched_page_are_what_was_set_whatever_they_were() {
    each(|mut memory| {
        for unit in [3, SECOND, HOLES.start] {
            for (before, after) in ALL.iter().flat_map(|before| ALL.map(|after| (*before, after))) {
                memory.touch(unit, before);
                assert_eq!(memory.found(unit), before, "{:?}", memory.permissions);
                memory.touch(unit, after);
                assert_eq!(memory.found(unit), after, "from {before:?}: {:?}", memory.permissions);
            }
        }
        assert!((4..SECOND).all(|unit| memory.found(unit) == Access::None), "no other one was touched");
    });
}

#[test]
fn permissions_are_closed_again_after_use() {
    each(|mut memory| {
        memory.touch(3, Access::Write);
        memory.touch(SECOND, Access::Read);
        memory.permissions.close().expect("rights are taken away");
        assert!((0..UNITS).all(|unit| memory.found(unit) == Access::None), "{:?}", memory.permissions);
        memory.touch(3, Access::Read);
        assert_eq!(memory.found(3), Access::Read, "{:?}", memory.permissions);
    });
}

#[test]
fn permissions_of_a_page_that_is_mapped_anew_are_closed() {
    each(|mut memory| {
        memory.touch(3, Access::Write);
        // The first page of the other file takes its place.
        let place = std::ptr::with_exposed_provenance_mut(memory.address(3));
        map_file(place, 1, libc::MAP_FIXED, memory.files[1]);
        memory.permissions.close_mapped(Run::of(3)).expect("rights are taken away");
        assert_eq!(memory.found(3), Access::None, "{:?}", memory.permissions);
        memory.touch(3, Access::Read);
        assert_eq!(memory.load(3), Some(1 + SECOND as u8));
        assert_eq!(memory.found(3), Access::Read, "{:?}", memory.permissions);
        memory.touch(3, Access::Write);
        assert_eq!(memory.found(3), Access::Write, "{:?}", memory.permissions);
    });
}

#[test]
fn permissions_show_what_the_library_has_stored_behind_the_program() {
    each(|mut memory| {
        for unit in [3, SECOND + 1] {
            memory.touch(unit, Access::Read);
            assert_eq!(memory.load(unit), Some(1 + unit as u8));
            memory.store_behind(unit, 99);
            assert_eq!(memory.load(unit), Some(99));
            memory.touch(unit, Access::None);
            memory.store_behind(unit, 98);
            memory.touch(unit, Access::Write);
            assert!(memory.store(unit, 97), "{:?}", memory.permissions);
            memory.touch(unit, Access::None);
            memory.touch(unit, Access::Read);
            assert_eq!(memory.load(unit), Some(97));
        }
        memory.touch(HOLES.start, Access::Read);
        assert_eq!(memory.load(HOLES.start), Some(0));
    });
}

#[test]
fn permissions_of_a_run_take_no_memory_for_pages_that_have_none() {
    each(|mut memory| {
        let run = Run { first: HOLES.start - 3, count: 8 };
        let before = memory.filled();
        memory.permissions.set(run, Some(HOLES.start + 1), Access::Read).expect("a right");
        assert!(memory.filled() <= before + 1, "{} after {before}", memory.filled());
        assert_eq!(memory.found(HOLES.start + 1), Access::Read, "{:?}", memory.permissions);
    });
}

#[test]
fn permissions_of_a_run_with_memory_come_with_the_touched_page() {
    each(|mut memory| {
        let run = Run { first: SECOND - 8, count: 16 };
        let before = memory.permissions.calls();
        memory.permissions.set(run, Some(run.first), Access::Read).expect("a right");
        assert!(memory.permissions.calls() - before < 4, "{:?}", memory.permissions);
        let count = run.units().filter(|unit| memory.found(*unit) == Access::Read).count();
        assert!(count >= 8, "up to the end of its mapping, found {count}: {:?}", memory.permissions);
    });
}

#[test]
fn permissions_of_pages_that_were_stored_to_shrink_in_runs_over_mappings() {
    each(|mut memory| {
        let run = Run { first: SECOND - 6, count: 12 };
        run.units().filter(|unit| unit % 5 != 0).for_each(|unit| memory.touch(unit, Access::Write));
        memory.permissions.set(run, None, Access::Read).expect("a right");
        for unit in run.units() {
            assert_ne!(memory.found(unit), Access::Write, "unit {unit}: {:?}", memory.permissions);
        }
        memory.permissions.set(run, None, Access::None).expect("a right");
        assert!(run.units().all(|unit| memory.found(unit) == Access::None), "{:?}", memory.permissions);
    });
}

#[test]
fn permissions_stay_bounds_when_the_kernel_drops_entries() {
    each(|mut memory| {
        for unit in [3, SECOND + 1, HOLES.start] {
            for access in [Access::Read, Access::Write, Access::Read] {
                memory.touch(unit, access);
                memory.drop_entry(unit);
                assert!(rank(memory.found(unit)) <= rank(access), "{:?}", memory.permissions);
                memory.touch(unit, access);
                assert_eq!(memory.found(unit), access, "{:?}", memory.permissions);
            }
        }
    });
}

#[test]
fn permissions_are_taken_from_pages_that_are_locked_in_memory() {
    each(|mut memory| {
        memory.touch(3, Access::Write);
        let address = std::ptr::with_exposed_provenance_mut::<libc::c_void>(memory.base);
        let flags = libc::MLOCK_ONFAULT as i32;
        // SAFETY: memory of the test.
        if unsafe { libc::mlock2(address, 8 * UNIT_BYTES, flags as _) } != 0 {
            return skip_part(Need::Memory, "no memory may be locked here");
        }
        memory.touch(3, Access::None);
        assert_eq!(memory.found(3), Access::None, "{:?}", memory.permissions);
        memory.touch(3, Access::Read);
        assert_eq!(memory.found(3), Access::Read, "{:?}", memory.permissions);
    });
}

#[test]
fn permissions_hold_in_random_orders_with_entries_dropped_between() {
    let first = seed();
    each(|mut memory| {
        let mut random = Random::new(first);
        let mut set = [Access::None; UNITS as usize];
        let mut dropped = std::collections::BTreeSet::new();
        for step in 0..2000 {
            let unit = random.below(u64::from(UNITS)) as u32;
            if random.chance(200) {
                memory.drop_entry(unit);
                dropped.insert(unit);
                continue;
            }
            let count = if random.chance(500) { 1 } else { 1 + random.below(u64::from(UNITS - unit)) as u32 };
            let run = Run { first: unit, count };
            let access = random.pick(&ALL).expect("one");
            let touched = random.chance(600).then(|| run.first + random.below(u64::from(count)) as u32);
            memory.permissions.set(run, touched, access).expect("a right");
            run.units().for_each(|unit| set[unit as usize] = access);
            let at = || format!("seed {first}, step {step}: {run:?} {touched:?} {access:?}");
            if let Some(touched) = touched {
                if dropped.remove(&touched) && memory.found(touched) != access {
                    memory.touch(touched, access);
                }
                assert_eq!(memory.found(touched), access, "{}", at());
            }
            for (unit, set) in set.iter().enumerate() {
                let found = memory.found(unit as u32);
                assert!(rank(found) <= rank(*set), "{}: unit {unit} {found:?} > {set:?}", at());
            }
        }
    });
}

#[test]
fn permissions_by_userfaultfd_outlive_a_program_that_closes_their_descriptor() {
    if Memory::new(Backend::Userfaultfd).is_none() {
        return;
    }
    let mut number = -1;
    let mut memory = Memory::of(|base| {
        let userfaultfd = Userfaultfd::open(base, UNITS).expect("it was there before");
        number = userfaultfd.descriptor();
        Box::new(userfaultfd)
    });
    memory.touch(3, Access::Read);
    // SAFETY: the number is used once more, to be refused.
    assert_eq!(unsafe { libc::close(number) }, 0);
    memory.store_behind(4, 99);
    assert_eq!(memory.load(4), None, "a stale byte");
    assert!(!memory.store(3, 5), "a store of which nobody hears");
    let error = memory.permissions.set(Run::of(4), Some(4), Access::Read).expect_err("no descriptor");
    assert!(error.to_string().contains("was closed by the program"), "{error}");
    std::mem::forget(memory);
}

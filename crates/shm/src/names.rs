//! Published names (`MPI_Publish_name`): services with the names of their ports, in the segment of the node
//! of rank 0. Ranks of that node work on the table themselves; rank 0 does so for ranks of other nodes.
//!
//! ```text
//! | lock, entries ever used | entry | entry | ...      an entry: 1 + rank of its publisher or 0, lengths, texts
//! ```
//!
//! Whoever holds the lock reads or changes entries, makes no system call and waits for nothing. A holder that
//! is frozen has its whole job frozen with it; one that is killed ends the job. One that a debugger stops
//! makes the others wait.
//!
//! | question of another node | tag | length | data |
//! |---|---|---|---|
//! | [`Question`] | what is asked | bytes of the service's name | service, then port |
//! | answer | 0, or the code of a [`Refusal`] | bytes of the port's name | port |

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};
use std::time::Duration;

use crate::LINE_BYTES;

/// Names that a job may have published at once.
pub const NAMES_MAX: usize = 1024;
/// Bytes of a service's name, at most.
pub const SERVICE_BYTES_MAX: usize = 256;
/// Bytes of a port's name, at most.
pub const PORT_BYTES_MAX: usize = 512;

/// Looks at a lock that is held before the thread sleeps between two of them.
const SPINS: u32 = 100;
const NAP: Duration = Duration::from_micros(50);

#[repr(C, align(64))]
struct Table {
    /// 1: somebody reads or changes entries.
    lock: AtomicU32,
    /// Entries behind this one have never been used.
    used: AtomicU32,
    _rest: [u32; 14],
    entries: [Entry; NAMES_MAX],
}

/// Writer: whoever holds the lock.
#[repr(C, align(64))]
struct Entry {
    /// 1 + world rank of the publisher; 0: the entry is free.
    owner: AtomicU32,
    service_bytes: AtomicU32,
    port_bytes: AtomicU32,
    _rest: [u32; 13],
    service: [AtomicU8; SERVICE_BYTES_MAX],
    port: [AtomicU8; PORT_BYTES_MAX],
}

const _: () = assert!(size_of::<Entry>() == LINE_BYTES + SERVICE_BYTES_MAX + PORT_BYTES_MAX);

/// Bytes of the table, whose pages come when they are written.
pub const NAMES_BYTES: usize = size_of::<Table>();

/// The table, as this process sees it.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    table: NonNull<Table>,
}

// SAFETY: everything in the table is atomic, and it outlives the value (the constructor's contract).
unsafe impl Send for Names {}

/// Question of a rank to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question<'a> {
    /// The service gets a port.
    Publish {
        /// Name of the service.
        service: &'a [u8],
        /// The port's.
        port: &'a [u8],
    },
    /// The name is no longer published.
    Unpublish {
        /// Name of the service.
        service: &'a [u8],
        /// The port's.
        port: &'a [u8],
    },
    /// Which port the service has.
    Lookup {
        /// Name of the service.
        service: &'a [u8],
    },
}

/// Why it does not get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Refusal {
    /// The name is published already.
    Taken = 1,
    /// No such name is published.
    Unknown = 2,
    /// Another rank has published it.
    OtherOwner = 3,
    /// Name that is published with another port.
    OtherPort = 4,
    /// [`NAMES_MAX`] names are published.
    Full = 5,
}

impl Refusal {
    /// A refusal by its number.
    pub fn from_code(code: i32) -> Option<Self> {
        use Refusal::*;
        [Taken, Unknown, OtherOwner, OtherPort, Full].into_iter().find(|refusal| *refusal as i32 == code)
    }
}

impl<'a> Question<'a> {
    /// As a record: the number of what is asked, bytes of the service's name, and both names.
    pub fn encode(&self) -> (i32, usize, Vec<u8>) {
        let (kind, service, port) = match *self {
            Question::Publish { service, port } => (1, service, port),
            Question::Unpublish { service, port } => (2, service, port),
            Question::Lookup { service } => (3, service, &[][..]),
        };
        (kind, service.len(), [service, port].concat())
    }

    /// From a record; none when it makes no sense.
    pub fn decode(kind: i32, service_bytes: u64, data: &'a [u8]) -> Option<Self> {
        let (service, port) = data.split_at_checked(usize::try_from(service_bytes).ok()?)?;
        let fits = service.len() <= SERVICE_BYTES_MAX && port.len() <= PORT_BYTES_MAX;
        match kind {
            1 if fits => Some(Question::Publish { service, port }),
            2 if fits => Some(Question::Unpublish { service, port }),
            3 if fits && port.is_empty() => Some(Question::Lookup { service }),
            _ => None,
        }
    }
}

struct Locked<'a>(&'a Table);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.lock.store(0, Release);
    }
}

impl Names {
    /// The table at `at`.
    ///
    /// # Safety
    /// There are [`NAMES_BYTES`] bytes, zeroed before the first use, aligned to a line and valid for the life
    /// of the value, which nobody uses but by values of this type.
    pub unsafe fn new(at: NonNull<u8>) -> Self {
        Names { table: at.cast() }
    }

    /// Does what world rank `from` asks for; gives the name of the port that was looked up.
    ///
    /// # Errors
    /// When the table does not allow it. Nothing is changed then.
    ///
    /// # Panics
    /// When a name is longer than the table takes.
    pub fn answer(&self, from: u32, question: Question<'_>) -> Result<Vec<u8>, Refusal> {
        let table = self.lock();
        match question {
            Question::Publish { service, port } => table.publish(from, service, port).map(|()| Vec::new()),
            Question::Unpublish { service, port } => {
                table.unpublish(from, service, port).map(|()| Vec::new())
            }
            Question::Lookup { service } => table.find(service).map(Entry::port).ok_or(Refusal::Unknown),
        }
    }

    fn lock(&self) -> Locked<'_> {
        // SAFETY: valid by the constructor's contract; all of it is atomic.
        let table = unsafe { self.table.as_ref() };
        let mut looks = 0;
        while table.lock.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            looks += 1;
            if looks < SPINS { core::hint::spin_loop() } else { std::thread::sleep(NAP) }
        }
        Locked(table)
    }
}

impl Locked<'_> {
    fn used(&self) -> &[Entry] {
        &self.0.entries[..(self.0.used.load(Relaxed) as usize).min(NAMES_MAX)]
    }

    fn find(&self, service: &[u8]) -> Option<&Entry> {
        self.used().iter().find(|entry| entry.is_of(service))
    }

    fn publish(&self, from: u32, service: &[u8], port: &[u8]) -> Result<(), Refusal> {
        if self.find(service).is_some() {
            return Err(Refusal::Taken);
        }
        let used = self.used();
        let free = used.iter().position(|entry| entry.owner.load(Relaxed) == 0).unwrap_or(used.len());
        let entry = self.0.entries.get(free).ok_or(Refusal::Full)?;
        self.0.used.fetch_max(free as u32 + 1, Relaxed);
        entry.service_bytes.store(store(&entry.service, service), Relaxed);
        entry.port_bytes.store(store(&entry.port, port), Relaxed);
        entry.owner.store(from + 1, Relaxed);
        Ok(())
    }

    fn unpublish(&self, from: u32, service: &[u8], port: &[u8]) -> Result<(), Refusal> {
        let entry = self.find(service).ok_or(Refusal::Unknown)?;
        if entry.owner.load(Relaxed) != from + 1 {
            return Err(Refusal::OtherOwner);
        }
        if entry.port() != port {
            return Err(Refusal::OtherPort);
        }
        entry.owner.store(0, Relaxed);
        Ok(())
    }
}

impl Entry {
    fn is_of(&self, service: &[u8]) -> bool {
        self.owner.load(Relaxed) != 0
            && self.service_bytes.load(Relaxed) as usize == service.len()
            && self.service.iter().zip(service).all(|(have, want)| have.load(Relaxed) == *want)
    }

    fn port(&self) -> Vec<u8> {
        let bytes = (self.port_bytes.load(Relaxed) as usize).min(PORT_BYTES_MAX);
        self.port[..bytes].iter().map(|byte| byte.load(Relaxed)).collect()
    }
}

/// Stores a text; gives its length.
fn store(into: &[AtomicU8], text: &[u8]) -> u32 {
    for (to, byte) in into[..text.len()].iter().zip(text) {
        to.store(*byte, Relaxed);
    }
    text.len() as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn with_table(test: impl FnOnce(Names)) {
        let layout = std::alloc::Layout::new::<Table>();
        // SAFETY: zeroed memory of the table's size and alignment, freed when nobody uses it any more.
        unsafe {
            let at = NonNull::new(std::alloc::alloc_zeroed(layout)).unwrap();
            test(Names::new(at));
            std::alloc::dealloc(at.as_ptr(), layout);
        }
    }

    #[test]
    fn names_are_published_looked_up_and_unpublished_by_their_publisher_alone() {
        with_table(|names| {
            let publish =
                |from, service: &[u8], port: &[u8]| names.answer(from, Question::Publish { service, port });
            let unpublish =
                |from, service: &[u8], port: &[u8]| names.answer(from, Question::Unpublish { service, port });
            let lookup = |service: &[u8]| names.answer(9, Question::Lookup { service });
            assert_eq!(lookup(b"a"), Err(Refusal::Unknown));
            assert_eq!(publish(3, b"a", b"port"), Ok(vec![]));
            assert_eq!(publish(4, b"a", b"other"), Err(Refusal::Taken));
            assert_eq!(publish(4, b"ab", b""), Ok(vec![]));
            assert_eq!(lookup(b"a"), Ok(b"port".to_vec()));
            assert_eq!(lookup(b"ab"), Ok(vec![]));
            assert_eq!(unpublish(4, b"a", b"port"), Err(Refusal::OtherOwner));
            assert_eq!(unpublish(3, b"a", b"por"), Err(Refusal::OtherPort));
            assert_eq!(unpublish(3, b"a", b"port"), Ok(vec![]));
            assert_eq!(unpublish(3, b"a", b"port"), Err(Refusal::Unknown));
            assert_eq!(lookup(b"a"), Err(Refusal::Unknown));
        });
    }

    #[test]
    fn names_are_bounded_and_their_places_used_again() {
        with_table(|names| {
            let service = |i: usize| format!("{i:0>SERVICE_BYTES_MAX$}").into_bytes();
            let port = vec![b'p'; PORT_BYTES_MAX];
            let publish = |i| names.answer(0, Question::Publish { service: &service(i), port: &port });
            for i in 0..NAMES_MAX {
                assert_eq!(publish(i), Ok(vec![]));
            }
            assert_eq!(publish(NAMES_MAX), Err(Refusal::Full));
            let one = service(7);
            assert_eq!(names.answer(0, Question::Unpublish { service: &one, port: &port }), Ok(vec![]));
            assert_eq!(publish(NAMES_MAX), Ok(vec![]));
            assert_eq!(names.answer(0, Question::Lookup { service: &service(NAMES_MAX) }), Ok(port));
        });
    }

    #[test]
    fn names_of_many_threads_at_once_are_taken_once() {
        with_table(|names| {
            let publish = move |from| names.answer(from, Question::Publish { service: b"one", port: b"" });
            let taken = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|from| scope.spawn(move || publish(from))).collect();
                threads.into_iter().map(|t| t.join().unwrap()).filter(Result::is_ok).count()
            });
            assert_eq!(taken, 1);
        });
    }

    #[test]
    fn names_questions_round_trip_and_others_are_refused() {
        for question in [
            Question::Publish { service: b"s", port: b"p" },
            Question::Unpublish { service: b"", port: b"" },
            Question::Lookup { service: b"service" },
        ] {
            let (kind, service_bytes, data) = question.encode();
            assert_eq!(Question::decode(kind, service_bytes as u64, &data), Some(question));
            assert_eq!(Question::decode(kind, data.len() as u64 + 1, &data), None);
        }
        assert_eq!(Question::decode(0, 0, b""), None);
        assert_eq!(Question::decode(3, 0, b"port"), None);
        assert_eq!(Question::decode(1, 0, &[0; PORT_BYTES_MAX + 1]), None);
        for code in -1..8 {
            assert_eq!(
                Refusal::from_code(code).map(|refusal| refusal as i32),
                (1..6).contains(&code).then_some(code)
            );
        }
    }
}

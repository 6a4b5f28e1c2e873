//! By which number the kernel finds the process of another rank of this node, from here.
//!
//! Pids are names in a PID namespace, and ranks may stand in different ones (a container for each rank). So a
//! rank publishes two: the one by which it knows itself, and the one by which the starter knows it, which the
//! starter has from the kernel. Neither is believed: the one that is used first reads a secret word of that
//! process's memory, whose address and value the rank publishes beside them. Who has it there is the rank:
//! no stranger knows the word, and no fork has the page. The answer is kept. A rank that cannot be named is
//! never copied from or to: its data go other ways.

use std::io;
use std::sync::Arc;
use std::sync::OnceLock;

use tutti_rma::Process;
use tutti_shm::endpoint::{ABSENT, Endpoint};
use tutti_shm::sync::{AtomicU32, Ordering};

use crate::attach::random_number;

/// Where a process keeps its secret word, and the word. Both are 0 where the kernel gives none.
#[derive(Clone, Copy, Debug, Default)]
struct Proof {
    address: u64,
    word: u64,
}

/// Publishes by what this process is found; `outside` is its pid in the namespace of the starter where there
/// is none to write it.
pub(crate) fn publish(endpoint: &Endpoint, outside: Option<u32>) {
    static PROOF: OnceLock<Proof> = OnceLock::new();
    let proof = PROOF.get_or_init(|| make_proof().unwrap_or_default());
    if let Some(pid) = outside {
        endpoint.pid.store(pid, Ordering::Relaxed);
    }
    endpoint.own_pid.store(std::process::id(), Ordering::Relaxed);
    endpoint.proof.store(proof.word, Ordering::Relaxed);
    endpoint.proof_at.store(proof.address, Ordering::Relaxed);
}

/// A page of its own, which no forked child gets.
fn make_proof() -> io::Result<Proof> {
    let word = random_number()?;
    let bytes = size_of::<u64>();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping, which is never given back; it is written before anyone else knows of it.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
        if page == libc::MAP_FAILED || libc::madvise(page, bytes, libc::MADV_DONTFORK) != 0 {
            return Err(io::Error::last_os_error());
        }
        page.cast::<u64>().write_volatile(word);
        Ok(Proof { address: page.expose_provenance() as u64, word })
    }
}

/// Processes found of the ranks of this node.
#[derive(Clone, Debug)]
pub(crate) struct Found(Arc<[AtomicU32]>);

/// Value of a rank not looked for yet; else [`Process::bits`].
const UNKNOWN: u32 = 0;

impl Found {
    /// Table for so many ranks, of which nothing is known yet.
    pub(crate) fn new(ranks: usize) -> Self {
        Found((0..ranks).map(|_| AtomicU32::new(UNKNOWN)).collect())
    }

    /// The process of a rank; looked for once.
    pub(crate) fn of(&self, index: usize, endpoint: &Endpoint) -> Process {
        match self.0[index].load(Ordering::Relaxed) {
            UNKNOWN if endpoint.state.load(Ordering::Acquire) == ABSENT => Process::NAMELESS,
            UNKNOWN => {
                let process = find(endpoint);
                self.0[index].store(process.bits(), Ordering::Relaxed);
                process
            }
            bits => Process::from_bits(bits),
        }
    }

    /// The rank will have another process.
    pub(crate) fn forget(&self, index: usize) {
        self.0[index].store(UNKNOWN, Ordering::Relaxed);
    }
}

/// Tries both numbers.
fn find(endpoint: &Endpoint) -> Process {
    let (address, word) = (endpoint.proof_at.load(Ordering::Relaxed), endpoint.proof.load(Ordering::Relaxed));
    if address == 0 || word == 0 {
        return Process::NAMELESS;
    }
    let mut found = Process::NAMELESS;
    for pid in [&endpoint.own_pid, &endpoint.pid].map(|pid| pid.load(Ordering::Relaxed)) {
        match has_word(Process::of(pid), address, word) {
            Ok(true) => return Process::of(pid),
            Ok(false) => {}
            Err(error) => found = Process::refused(&error),
        }
    }
    found
}

/// Whether the process has the word there.
///
/// # Errors
/// When the kernel lets nobody look.
fn has_word(process: Process, address: u64, word: u64) -> io::Result<bool> {
    let mut read = 0_u64;
    // SAFETY: the word is ours.
    let copied = unsafe { tutti_rma::read(process, address, (&raw mut read).cast(), size_of::<u64>()) };
    match copied {
        Ok(bytes) => Ok(bytes == size_of::<u64>() && read == word),
        Err(error) => match error.raw_os_error() {
            // There is no such process, or it has nothing there: it is another one.
            Some(libc::ESRCH | libc::EFAULT) | None => Ok(false),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use tutti_shm::endpoint::ATTACHED;

    use super::*;

    fn published() -> Endpoint {
        let endpoint = Endpoint::default();
        publish(&endpoint, Some(std::process::id()));
        endpoint.state.store(ATTACHED, Ordering::Release);
        endpoint
    }

    #[test]
    fn process_name_is_the_number_that_has_the_secret_word() {
        let own = Process::of(std::process::id());
        let endpoint = published();
        assert_eq!(find(&endpoint), own);
        endpoint.own_pid.store(1, Ordering::Relaxed);
        assert_eq!(find(&endpoint), own, "the starter's number");
        endpoint.pid.store(0, Ordering::Relaxed);
        assert_ne!(find(&endpoint), own, "pid 1 is another process");
    }

    #[test]
    fn process_name_of_a_process_without_the_word_is_none() {
        let endpoint = published();
        endpoint.proof.fetch_xor(1, Ordering::Relaxed);
        assert_eq!(find(&endpoint), Process::NAMELESS);
    }

    #[test]
    fn process_name_is_not_that_of_a_fork() {
        let endpoint = published();
        // SAFETY: the child makes system calls alone.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: it waits for the signal below.
            unsafe {
                libc::pause();
                libc::_exit(0)
            }
        }
        endpoint.own_pid.store(child as u32, Ordering::Relaxed);
        endpoint.pid.store(child as u32, Ordering::Relaxed);
        let found = find(&endpoint);
        // SAFETY: our child.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert_ne!(found, Process::of(child as u32));
    }

    #[test]
    fn process_name_is_kept_until_it_is_forgotten() {
        let (found, endpoint) = (Found::new(1), published());
        let own = Process::of(std::process::id());
        assert_eq!(found.of(0, &endpoint), own);
        endpoint.proof.fetch_xor(1, Ordering::Relaxed);
        assert_eq!(found.of(0, &endpoint), own);
        found.forget(0);
        assert_eq!(found.of(0, &endpoint), Process::NAMELESS);
        assert_eq!(Found::new(1).of(0, &Endpoint::default()), Process::NAMELESS, "before it has come");
    }
}

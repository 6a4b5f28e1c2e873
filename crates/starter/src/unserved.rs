//! Programs of another MPI that the job's servers ([`crate::foreign`]) do not reach, so that each rank would
//! be a world of size 1 without a word: something between them and the starter has taken the variables out of
//! the environment (`sudo`, `su -`, `env -i`), or a script starts a program of Open MPI in a job without
//! PMIx. Found by /proc: which library a process has in its memory, and which variables it began with.
//!
//! A program that ends between two looks is not seen.

use rustix::process::{Pid, getpid};
use tutti_os::descendants;
use tutti_os::stderr::escape_control;

/// Descendants of the starter; where there are more nobody looks at them.
const PROCESSES_MAX: usize = 1 << 12;
/// Processes whose memory is looked at: the ranks run the same programs.
const SEEN_MAX: usize = 32;
/// Bytes of a file of /proc, at most.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// From the start of the ranks to the first look. Each wait is twice the one before.
const FIRST_WAIT_NS: u64 = 100_000_000;
/// Looks, the last of which is about two minutes after the start.
const LOOKS: u32 = 11;

/// Variables by which a program is one of a job: of this launcher, or of another that a rank has started.
const OF_PMI: [&str; 3] = ["PMI_FD", "PMI_PORT", "PMIX_NAMESPACE"];
const OF_PMIX: [&str; 1] = ["PMIX_NAMESPACE"];
/// With this a program may run alone.
const SINGLETON: &str = "TUTTI_SINGLETON";

/// Times of the looks.
#[derive(Debug)]
pub struct Looks {
    due_ns: u64,
    wait_ns: u64,
    left: u32,
}

impl Looks {
    /// Of a job whose ranks start now.
    pub fn from(now_ns: u64) -> Self {
        Looks { due_ns: now_ns + FIRST_WAIT_NS, wait_ns: FIRST_WAIT_NS, left: LOOKS }
    }

    /// When to look next; none: not any more.
    pub fn due_ns(&self) -> Option<u64> {
        (self.left > 0).then_some(self.due_ns)
    }

    /// Whether it is time to look.
    pub fn take(&mut self, now_ns: u64) -> bool {
        let is_due = self.due_ns().is_some_and(|due_ns| now_ns >= due_ns);
        if is_due {
            self.left -= 1;
            self.wait_ns *= 2;
            self.due_ns = now_ns + self.wait_ns;
        }
        is_due
    }

    /// No look is due any more.
    pub fn end(&mut self) {
        self.left = 0;
    }
}

/// Library of another MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Library {
    Mpich,
    OpenMpi,
}

/// The line for the user about the first descendant that nobody serves. `has_pmix`: the job has a server of
/// PMIx.
pub fn line(has_pmix: bool) -> Option<String> {
    let all = descendants::some_of(getpid(), PROCESSES_MAX)?;
    all.into_iter().take(SEEN_MAX).find_map(|pid| {
        let library = library(&read(pid, "maps")?)?;
        let is_unserved = is_unserved(library, &read(pid, "environ")?);
        is_unserved.then(|| text(pid, library, has_pmix))
    })
}

fn text(pid: Pid, library: Library, has_pmix: bool) -> String {
    let name = read(pid, "comm").unwrap_or_default();
    let name = escape_control(String::from_utf8_lossy(&name).trim_end());
    let pid = pid.as_raw_nonzero();
    let (whose, variable) = match library {
        Library::Mpich => ("MPICH", "PMI_FD"),
        Library::OpenMpi => ("Open MPI", "PMIX_NAMESPACE"),
    };
    let begin = format!("{name} (pid {pid}) runs on {whose}'s library as a world of size 1");
    match library {
        Library::OpenMpi if !has_pmix => format!(
            "{begin}, like each rank that does so: mpiexec did not see a program of Open MPI (a script starts it?), so the job \
             has no PMIx server; say it: TUTTI_LIBPMIX=libpmix.so.2 mpiexec ..., or set TUTTI_SINGLETON=1 if that is what you want"
        ),
        _ => format!(
            "{begin}, like each rank that does so: {variable} is not in its environment: sudo, su, env -i and the like take it \
             out: put them in front of mpiexec (sudo -u USER mpiexec ...), or set TUTTI_SINGLETON=1 if that is what you want"
        ),
    }
}

fn read(pid: Pid, file: &str) -> Option<Vec<u8>> {
    let file = std::fs::File::open(format!("/proc/{}/{file}", pid.as_raw_nonzero())).ok()?;
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, FILE_BYTES_MAX), &mut bytes).ok()?;
    Some(bytes)
}

/// The other MPI whose library is among the files in a memory; none where ours is.
fn library(maps: &[u8]) -> Option<Library> {
    let names = maps.split(|byte| *byte == b'\n').filter_map(|line| line.rsplit(|byte| *byte == b'/').next());
    let mut found = None;
    for name in names {
        if name.starts_with(b"libtutti.so") {
            return None;
        }
        let is = |known: &str| name.starts_with(known.as_bytes());
        if is("libmpi.so.12") || is("libmpich.so.12") {
            found = Some(Library::Mpich);
        } else if is("libmpi.so.40") {
            found = Some(Library::OpenMpi);
        }
    }
    found
}

/// Whether a program that began with this environment has nobody that tells it of the others.
fn is_unserved(library: Library, environment: &[u8]) -> bool {
    let wanted: &[&str] = match library {
        Library::Mpich => &OF_PMI,
        Library::OpenMpi => &OF_PMIX,
    };
    let names =
        environment.split(|byte| *byte == 0).filter_map(|text| text.split(|byte| *byte == b'=').next());
    let mut known =
        names.filter(|name| wanted.iter().chain([&SINGLETON]).any(|known| *name == known.as_bytes()));
    known.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "55e0-55e1 r--p 00000000 08:01 1 /home/a b/it\n7f00-7f01 r-xp 00000000 08:01 2 ";

    #[test]
    fn unserved_library_is_found_by_the_file_in_memory() {
        let of = |file: &str| library(format!("{MAPS}{file}\n7f02-7f03 rw-p 0 00:00 0 [heap]\n").as_bytes());
        assert_eq!(of("/usr/lib/libmpich.so.12.2.0"), Some(Library::Mpich));
        assert_eq!(of("/v/lib/libmpi.so.12"), Some(Library::Mpich));
        assert_eq!(of("/v/lib/libmpi.so.40.30.4 (deleted)"), Some(Library::OpenMpi));
        for file in
            ["/lib/libc.so.6", "/t/lib/tutti/mpich/libmpi.so.12\n1-2 r-xp 0 0:0 3 /t/lib/libtutti.so.1"]
        {
            assert_eq!(of(file), None, "{file}");
        }
    }

    #[test]
    fn unserved_is_what_has_no_variable_of_a_launcher() {
        for (environment, mpich, open_mpi) in [
            ("", true, true),
            ("PATH=/bin\0PMI_FDX=1\0", true, true),
            ("PATH=/bin\0PMI_FD=3\0", false, true),
            ("PMI_PORT=host:1\0", false, true),
            ("PMIX_NAMESPACE=job\0PMIX_RANK=0\0", false, false),
            ("TUTTI_SINGLETON=1\0", false, false),
        ] {
            let found =
                [Library::Mpich, Library::OpenMpi].map(|own| is_unserved(own, environment.as_bytes()));
            assert_eq!(found, [mpich, open_mpi], "{environment:?}");
        }
    }

    #[test]
    fn unserved_are_looked_for_ever_more_rarely_until_an_end() {
        let mut looks = Looks::from(0);
        assert!(!looks.take(FIRST_WAIT_NS - 1));
        let mut times = Vec::new();
        while let Some(due_ns) = looks.due_ns() {
            assert!(looks.take(due_ns));
            times.push(due_ns / FIRST_WAIT_NS);
        }
        assert_eq!((times[..4].to_vec(), times.len()), (vec![1, 3, 7, 15], LOOKS as usize));
        assert!(!looks.take(u64::MAX));
    }
}

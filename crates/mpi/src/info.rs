//! Info objects (MPI chapter 10): texts under keys, in the order in which they were set.
//!
//! They may be used before Init, after Finalize and by any thread (11.4.1), so they do not belong to the
//! process's state: they have their own table and lock.

use core::ops::RangeInclusive;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::abi::*;
use crate::error::{Error, Result, check};
use crate::handle::{Kind, Slab};
use tutti_shm::ticket::{SIZE_VARIABLE, TICKET_VARIABLE};

/// The keys and values of an info object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info(Vec<Entry>);

/// A key and its value.
type Entry = (Box<[u8]>, Box<[u8]>);

static TABLE: Mutex<Slab<Info>> = Mutex::new(Slab::new(Kind::Info));

/// Content of MPI_INFO_ENV; the same from the first look at it.
static ENVIRONMENT: LazyLock<Info> = LazyLock::new(|| Info::of_start(None));

/// How many ranks the job has.
static RANKS: OnceLock<usize> = OnceLock::new();

/// File of the process that shows how it was started.
const COMMAND_LINE: &str = "/proc/self/cmdline";

impl Info {
    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|(other, _)| **other == *key).map(|(_, value)| &**value)
    }

    /// Sets a value; a new key comes last.
    pub fn set(&mut self, key: &[u8], value: &[u8]) {
        match self.0.iter_mut().find(|(other, _)| **other == *key) {
            Some((_, old)) => *old = value.into(),
            None => self.0.push((key.into(), value.into())),
        }
    }

    /// Removes a key; tells whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let before = self.0.len();
        self.0.retain(|(other, _)| **other != *key);
        self.0.len() < before
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Key number `n`.
    pub fn nth_key(&self, n: usize) -> Option<&[u8]> {
        self.0.get(n).map(|(key, _)| &**key)
    }

    /// All keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// With the kinds of memory that may be used (11.4.3): the same for sessions, communicators, windows and
    /// files.
    pub fn with_memory_kinds(mut self) -> Self {
        self.set(b"mpi_memory_alloc_kinds", b"mpi,system");
        self
    }

    /// How this process was started (10.2): with the arguments given, or those that the kernel knows. It has
    /// `thread_level` only if that was requested before the start (11.5), which mpiexec has no option for.
    pub fn of_start(arguments: Option<Vec<Vec<u8>>>) -> Self {
        let arguments = arguments.filter(|given| !given.is_empty()).unwrap_or_else(|| {
            let line = std::fs::read(COMMAND_LINE).unwrap_or_default();
            line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
        });
        let mut info = Info::default();
        if let Some((command, rest)) = arguments.split_first() {
            info.set(b"command", clipped(command));
            if !rest.is_empty() {
                info.set(b"argv", clipped(&rest.join(&b' ')));
            }
        }
        info.set(b"mpi_initial_errhandler", crate::initial_errhandler::name().as_bytes());
        info.set(b"arch", std::env::consts::ARCH.as_bytes());
        if let Ok(folder) = std::env::current_dir() {
            info.set(b"wdir", clipped(folder.as_os_str().as_encoded_bytes()));
        }
        if let Some(host) = host_name() {
            info.set(b"host", &host);
        }
        let ranks = RANKS.get().copied().unwrap_or_else(ranks_by_environment).to_string();
        info.set(b"maxprocs", ranks.as_bytes());
        info.set(b"soft", ranks.as_bytes());
        info
    }
}

/// The name of this host, if it has one.
pub fn host_name() -> Option<Vec<u8>> {
    let mut host = [0_u8; 256];
    // SAFETY: the buffer is valid for its length; the last byte stays zero.
    let result = unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) };
    let length = host.iter().position(|&byte| byte == 0).unwrap_or(0);
    (result == 0 && length > 0).then(|| host[..length].to_vec())
}

/// How many ranks the job will have, before Init: what the launcher says, or this process alone.
fn ranks_by_environment() -> usize {
    let under_launcher = std::env::var_os(TICKET_VARIABLE).is_some();
    let ranks = std::env::var(SIZE_VARIABLE).ok().filter(|_| under_launcher);
    ranks.and_then(|ranks| ranks.parse().ok()).unwrap_or(1)
}

/// Init tells what MPI_INFO_ENV is to say.
pub fn remember_ranks(ranks: usize) {
    RANKS.get_or_init(|| ranks);
}

/// Makes an info object; gives its handle.
pub fn keep(info: Info) -> MPI_Info {
    let mut table = table();
    let index = table.insert(info);
    MPI_Info(table.handle(index))
}

/// A copy of what a handle names.
///
/// # Errors
/// MPI_ERR_INFO when it names none.
pub fn read<T>(handle: MPI_Info, look: impl FnOnce(&Info) -> Result<T>) -> Result<T> {
    if handle == MPI_INFO_ENV {
        return look(&ENVIRONMENT);
    }
    look(table().find(handle.0).ok_or_else(|| bad_info(handle))?)
}

/// The hints of an argument that may be MPI_INFO_NULL.
///
/// # Errors
/// MPI_ERR_INFO when it names none.
pub fn hints(handle: MPI_Info) -> Result<Info> {
    if handle == MPI_INFO_NULL { Ok(Info::default()) } else { read(handle, |info| Ok(info.clone())) }
}

/// Changes what a handle names.
///
/// # Errors
/// MPI_ERR_INFO when it names none, or MPI_INFO_ENV.
pub fn change<T>(handle: MPI_Info, action: impl FnOnce(&mut Info) -> Result<T>) -> Result<T> {
    action(table().find_mut(handle.0).ok_or_else(|| bad_info(handle))?)
}

/// Frees an info object.
///
/// # Errors
/// MPI_ERR_INFO when the handle names none, or MPI_INFO_ENV.
pub fn free(handle: MPI_Info) -> Result<()> {
    let mut table = table();
    let index = table.index(handle.0).ok_or_else(|| bad_info(handle))?;
    table.remove(index);
    Ok(())
}

/// Checks a key argument.
///
/// # Errors
/// MPI_ERR_INFO_KEY when it is empty or too long.
pub fn check_key(key: &[u8]) -> Result<()> {
    check(!key.is_empty(), MPI_ERR_INFO_KEY, || "key is an empty text".into())?;
    check(key.len() < MPI_MAX_INFO_KEY as usize, MPI_ERR_INFO_KEY, || {
        format!("key has {} bytes, expected at most {}", key.len(), MPI_MAX_INFO_KEY - 1)
    })
}

/// Checks a value argument.
///
/// # Errors
/// MPI_ERR_INFO_VALUE when it is too long.
pub fn check_value(value: &[u8]) -> Result<()> {
    check(value.len() < MPI_MAX_INFO_VAL as usize, MPI_ERR_INFO_VALUE, || {
        format!("value has {} bytes, expected at most {}", value.len(), MPI_MAX_INFO_VAL - 1)
    })
}

fn table() -> MutexGuard<'static, Slab<Info>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As much of a text as a value may have.
fn clipped(text: &[u8]) -> &[u8] {
    &text[..text.len().min(MPI_MAX_INFO_VAL as usize - 1)]
}

#[cold]
fn bad_info(handle: MPI_Info) -> Error {
    let what = match handle {
        MPI_INFO_NULL => "is MPI_INFO_NULL",
        MPI_INFO_ENV => "is MPI_INFO_ENV, which cannot be changed or freed",
        _ => "is freed or was never one",
    };
    Error::new(MPI_ERR_INFO, format_args!("info {:#x} {what}", handle.0))
}

/// The alignment of memory where the hints ask for none, and the largest that they may ask for.
const ALIGNMENTS: RangeInclusive<usize> = 64..=1 << 30;

/// Reads the alignment that the hints ask for; a value that is none asks for nothing.
pub fn memory_alignment(hints: &Info) -> usize {
    hints
        .get(b"mpi_minimum_memory_alignment")
        .and_then(|value| core::str::from_utf8(value).ok()?.parse().ok())
        .filter(|bytes: &usize| bytes.is_power_of_two() && ALIGNMENTS.contains(bytes))
        .unwrap_or(*ALIGNMENTS.start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_key_keeps_its_place() {
        let mut info = Info::default();
        info.set(b"b", b"1");
        info.set(b"a", b"2");
        info.set(b"b", b"3");
        assert_eq!((info.len(), info.nth_key(0), info.get(b"b")), (2, Some(&b"b"[..]), Some(&b"3"[..])));
        assert!(info.remove(b"b") && !info.remove(b"b"));
        assert_eq!(info.nth_key(0), Some(&b"a"[..]));
    }

    #[test]
    fn info_handles_work_outside_init_and_finalize() {
        let handle = keep(Info::default());
        change(handle, |info| {
            info.set(b"key", b"value");
            Ok(())
        })
        .unwrap();
        assert_eq!(read(handle, |info| Ok(info.len())).unwrap(), 1);
        free(handle).unwrap();
        assert_eq!(free(handle).unwrap_err().class, MPI_ERR_INFO);
        assert_eq!(change(MPI_INFO_ENV, |_| Ok(())).unwrap_err().class, MPI_ERR_INFO);
        assert!(read(MPI_INFO_ENV, |info| Ok(info.get(b"command").is_some())).unwrap());
    }

    #[test]
    fn info_texts_have_standard_lengths() {
        assert_eq!(check_key(b"").unwrap_err().class, MPI_ERR_INFO_KEY);
        assert_eq!(check_key(&[b'k'; 256]).unwrap_err().class, MPI_ERR_INFO_KEY);
        assert!(check_key(&[b'k'; 255]).is_ok());
        assert_eq!(check_value(&[b'v'; 1024]).unwrap_err().class, MPI_ERR_INFO_VALUE);
        assert!(check_value(&[b'v'; 1023]).is_ok());
    }
}

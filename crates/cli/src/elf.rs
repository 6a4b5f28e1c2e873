//! The libraries that a program names (DT_NEEDED), read from its ELF file as far as is needed to tell for
//! which MPI it was built. The file is hostile: every offset and length in it is checked, every loop is
//! bounded.

/// Program headers looked at, at most.
const HEADERS_MAX: usize = 1024;
/// Bytes of the dynamic section looked at, at most.
const DYNAMIC_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a library's name, at most.
const NAME_BYTES_MAX: usize = 4096;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// Source of the bytes at an offset; fewer at its end.
pub trait ReadAt {
    /// Fills `buffer` from `offset` on; gives how much there was.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize;
}

impl ReadAt for std::fs::File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let mut filled = 0;
        while filled < buffer.len() {
            match std::os::unix::fs::FileExt::read_at(
                self,
                &mut buffer[filled..],
                offset.saturating_add(filled as u64),
            ) {
                Ok(read) if read > 0 => filled += read,
                _ => break,
            }
        }
        filled
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or(&[]);
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    }
}

struct Load {
    address: u64,
    offset: u64,
    bytes: u64,
}

/// The dynamic section of a program, as far as it is about libraries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The names of the libraries that it needs.
    pub libraries: Vec<String>,
    /// Folders of its own in which it searches, as they are written there.
    pub own_path: Vec<String>,
    /// Whether these go before LD_LIBRARY_PATH (DT_RPATH without DT_RUNPATH).
    pub own_path_first: bool,
}

/// The names of the libraries that a 64-bit little-endian program needs; empty for anything else.
pub fn needed(file: &(impl ReadAt + ?Sized)) -> Vec<String> {
    needs(file).libraries
}

/// The needs of a 64-bit little-endian program; none for anything else.
pub fn needs(file: &(impl ReadAt + ?Sized)) -> Needs {
    read_needs(file).unwrap_or_default()
}

fn read_needs(file: &(impl ReadAt + ?Sized)) -> Option<Needs> {
    let head = take(file, 0, 64)?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, entry_bytes, count) = (long(&head, 32)?, short(&head, 54)?, short(&head, 56)?);
    if usize::from(entry_bytes) < 56 || usize::from(count) > HEADERS_MAX {
        return None;
    }
    let mut loads = Vec::new();
    let mut dynamic = None;
    for index in 0..u64::from(count) {
        let at = table.checked_add(index * u64::from(entry_bytes))?;
        let entry = take(file, at, 56)?;
        let (offset, address, bytes) = (long(&entry, 8)?, long(&entry, 16)?, long(&entry, 32)?);
        match word(&entry, 0)? {
            PT_LOAD => loads.push(Load { address, offset, bytes }),
            PT_DYNAMIC => dynamic = Some((offset, bytes.min(DYNAMIC_BYTES_MAX))),
            _ => {}
        }
    }
    let (offset, bytes) = dynamic?;
    let section = take_most(file, offset, bytes as usize);
    let pairs = section.chunks_exact(16).filter_map(|pair| Some((long(pair, 0)?, long(pair, 8)?)));
    let pairs: Vec<(u64, u64)> = pairs.take_while(|(tag, _)| *tag != DT_NULL).collect();
    let (_, strings) = *pairs.iter().find(|(tag, _)| *tag == DT_STRTAB)?;
    let load = loads.iter().find(|load| strings >= load.address && strings - load.address < load.bytes)?;
    let strings = load.offset.checked_add(strings - load.address)?;
    let texts = |wanted| {
        pairs.iter().filter(move |(tag, _)| *tag == wanted).filter_map(|(_, at)| {
            let bytes = take_most(file, strings.checked_add(*at)?, NAME_BYTES_MAX);
            let end = bytes.iter().position(|byte| *byte == 0)?;
            Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
        })
    };
    let paths = texts(DT_RUNPATH).next().or_else(|| texts(DT_RPATH).next()).unwrap_or_default();
    let has = |wanted| pairs.iter().any(|(tag, _)| *tag == wanted);
    Some(Needs {
        libraries: texts(DT_NEEDED).take(HEADERS_MAX).collect(),
        own_path: paths.split(':').filter(|folder| !folder.is_empty()).map(Into::into).collect(),
        own_path_first: has(DT_RPATH) && !has(DT_RUNPATH),
    })
}

/// An MPI that is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherMpi {
    /// MPICH and what has its library's name (Intel MPI, MVAPICH): its programs start by PMI-1, which our
    /// starter speaks.
    Mpich,
    /// Open MPI from version 3 on, whose libraries have this number: its programs start by PMIx.
    OpenMpi,
    /// An Open MPI whose way to start is not known here.
    OtherOpenMpi,
    /// None that is known here.
    Unknown,
}

/// The MPI that a library belongs to, if it is not ours.
pub fn other_mpi(library: &str) -> Option<OtherMpi> {
    match library {
        "libmpi.so.12" | "libmpifort.so.12" | "libmpicxx.so.12" => Some(OtherMpi::Mpich),
        "libmpi.so.40" => Some(OtherMpi::OpenMpi),
        "libmpi.so.0" | "libmpi.so.1" | "libmpi.so.20" | "libmpi.so.80" => Some(OtherMpi::OtherOpenMpi),
        name if name.starts_with("libmpich") => Some(OtherMpi::Mpich),
        name if ["libmpi_mpifh.so", "libmpi_usempi", "libmpi_cxx.so", "libopen-rte.so"]
            .iter()
            .any(|start| name.starts_with(start)) =>
        {
            Some(if name.ends_with(".so.40") { OtherMpi::OpenMpi } else { OtherMpi::OtherOpenMpi })
        }
        name if ["libmpi.so", "libmpifort.so", "libmpicxx.so"]
            .iter()
            .any(|start| name.starts_with(start)) =>
        {
            Some(OtherMpi::Unknown)
        }
        _ => None,
    }
}

/// The first two of these libraries that belong to different MPIs; the standard's `libmpi_abi.so` is one of
/// its own.
pub fn two_mpis(libraries: &[String]) -> Option<(&str, &str)> {
    let mut found: Option<(Option<OtherMpi>, &str)> = None;
    for library in libraries {
        let mpi = match other_mpi(library) {
            None if !library.starts_with("libmpi_abi.so") => continue,
            mpi => mpi,
        };
        match found {
            None => found = Some((mpi, library)),
            Some((first, name)) if first != mpi => return Some((name, library)),
            Some(_) => {}
        }
    }
    None
}

fn take(file: &(impl ReadAt + ?Sized), offset: u64, bytes: usize) -> Option<Vec<u8>> {
    Some(take_most(file, offset, bytes)).filter(|taken| taken.len() == bytes)
}

fn take_most(file: &(impl ReadAt + ?Sized), offset: u64, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    let read = file.read_at(&mut buffer, offset);
    buffer.truncate(read);
    buffer
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;

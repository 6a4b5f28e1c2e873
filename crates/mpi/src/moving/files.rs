//! Open files, as they travel to a successor.

use super::words::{put_bytes, put_longs, take, take_bytes, take_longs};
use crate::abi::{MPI_Comm, MPI_Errhandler, MPI_File};
use crate::file::moved::{HeldFile, HeldView, Identity, Opening};

/// Appends the words of a file to be opened.
pub(super) fn put_opening(words: &mut Vec<u32>, opening: &Opening) {
    let Identity { inode, born_ns } = opening.file;
    words.push(opening.amode as u32);
    words.extend([inode, born_ns].map(|word| [word as u32, (word >> 32) as u32]).concat());
    put_bytes(words, &opening.path);
}

/// Takes a file to be opened.
pub(super) fn take_opening(rest: &mut &[u32]) -> Option<Opening> {
    let [amode, i0, i1, b0, b1] = take(rest)?;
    let long = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let file = Identity { inode: long(i0, i1), born_ns: long(b0, b1) };
    Some(Opening { path: take_bytes(rest)?, amode: amode as i32, file })
}

/// Appends the words of an open file.
pub(super) fn put_file(words: &mut Vec<u32>, file: &HeldFile) {
    words.extend([file.handle.0 as u32, file.comm.0 as u32, file.errhandler.0 as u32]);
    words.extend(file.hints);
    words.extend([u32::from(file.is_atomic), file.accesses]);
    words.extend(file.view.types);
    put_bytes(words, &file.view.representation);
    put_longs(words, &[file.view.displacement, file.pointers[0], file.pointers[1]]);
}

/// Takes an open file.
pub(super) fn take_file(rest: &mut &[u32]) -> Option<HeldFile> {
    let [handle, comm, errhandler] = take(rest)?;
    let (hints, [is_atomic, accesses]) = (take(rest)?, take(rest)?);
    let (types, representation) = (take(rest)?, take_bytes(rest)?);
    let [displacement, own, shared] = take_longs(rest)?.try_into().ok()?;
    Some(HeldFile {
        handle: MPI_File(handle as usize),
        comm: MPI_Comm(comm as usize),
        errhandler: MPI_Errhandler(errhandler as usize),
        hints,
        view: HeldView { displacement, types, representation },
        pointers: [own, shared],
        is_atomic: is_atomic != 0,
        accesses,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::abi::MPI_ERRORS_RETURN;

    pub(in super::super) fn opening() -> Opening {
        Opening {
            path: b"/tmp/a b".to_vec(),
            amode: 9,
            file: Identity { inode: 5 << 40 | 7, born_ns: 6 << 50 | 8 },
        }
    }

    pub(in super::super) fn held() -> HeldFile {
        HeldFile {
            handle: MPI_File(5000),
            comm: MPI_Comm(6000),
            errhandler: MPI_ERRORS_RETURN,
            hints: [1, 2, 3, 4, 5, 6, 7, 8, 9],
            view: HeldView { displacement: 1 << 33, types: [3, 4], representation: b"external32".to_vec() },
            pointers: [-1, 1 << 40],
            is_atomic: true,
            accesses: 12,
        }
    }
}

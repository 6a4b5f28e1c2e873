//! Structures of the kernel's FUSE protocol, version 7.31, in this machine's byte order.

use crate::frames::{Attributes, NoFrame, Room};

/// For so long, in seconds, the kernel keeps names and attributes.
pub(super) const KEPT_S: u64 = 1;
pub(super) const ROOT: u64 = 1;
/// Bytes before the fields of a request.
pub(super) const HEAD_BYTES: usize = 40;

pub(super) mod operation {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const GETLK: u32 = 31;
    pub(crate) const SETLK: u32 = 32;
    pub(crate) const SETLKW: u32 = 33;
    pub(crate) const ACCESS: u32 = 34;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const RENAME2: u32 = 45;
}

/// Head of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub operation: u32,
    pub unique: u64,
    pub node: u64,
    pub uid: u32,
    pub gid: u32,
}

/// Reads the fields of a request.
#[derive(Debug)]
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The head, and what follows.
    pub(super) fn of(request: &'a [u8]) -> Result<(Head, Self), NoFrame> {
        let mut fields = Fields(request);
        let (length, operation) = (fields.u32()? as usize, fields.u32()?);
        let head = Head {
            operation,
            unique: fields.u64()?,
            node: fields.u64()?,
            uid: fields.u32()?,
            gid: fields.u32()?,
        };
        if length != request.len() || length < HEAD_BYTES {
            return Err(NoFrame);
        }
        Ok((head, Fields(&request[HEAD_BYTES..])))
    }

    pub(super) fn u32(&mut self) -> Result<u32, NoFrame> {
        let (head, rest) = self.0.split_first_chunk::<4>().ok_or(NoFrame)?;
        self.0 = rest;
        Ok(u32::from_ne_bytes(*head))
    }

    pub(super) fn u64(&mut self) -> Result<u64, NoFrame> {
        let (head, rest) = self.0.split_first_chunk::<8>().ok_or(NoFrame)?;
        self.0 = rest;
        Ok(u64::from_ne_bytes(*head))
    }

    /// A text that ends with a zero byte.
    pub(super) fn name(&mut self) -> Result<&'a [u8], NoFrame> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(NoFrame)?;
        let name = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Ok(name)
    }

    pub(super) fn skip(&mut self, bytes: usize) -> Result<(), NoFrame> {
        self.0 = self.0.get(bytes..).ok_or(NoFrame)?;
        Ok(())
    }
}

/// Writes an answer.
#[derive(Debug)]
pub(super) struct Answer(Vec<u8>);

impl Answer {
    pub(super) fn to(unique: u64) -> Self {
        let mut out = vec![0; 8];
        out.extend_from_slice(&unique.to_ne_bytes());
        Answer(out)
    }

    pub(super) fn error(unique: u64, errno: i32) -> Vec<u8> {
        let mut out = Answer::to(unique).0;
        out[4..8].copy_from_slice(&(-errno).to_ne_bytes());
        Answer(out).finish()
    }

    /// The kernel is to forget the attributes of a node.
    pub(super) fn invalidation(node: u64) -> Vec<u8> {
        const INVALIDATE_INODE: i32 = 2;
        let mut out = Answer::to(0).0;
        out[4..8].copy_from_slice(&INVALIDATE_INODE.to_ne_bytes());
        let mut out = Answer(out);
        out.u64(node).u64((-1_i64).cast_unsigned()).u64(0);
        out.finish()
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn attributes(&mut self, of: &Attributes, head: Head) -> &mut Self {
        self.u64(of.ino).u64(of.size).u64(of.blocks);
        for (seconds, _) in [of.times.accessed, of.times.modified, of.times.changed] {
            self.u64(seconds.cast_unsigned());
        }
        for (_, ns) in [of.times.accessed, of.times.modified, of.times.changed] {
            self.u32(ns);
        }
        // The origin has decided by its own owners; here everything is the job's.
        self.u32(of.mode).u32(of.links).u32(head.uid).u32(head.gid).u32(0).u32(of.block_bytes).u32(0)
    }

    pub(super) fn entry(&mut self, node: u64, of: &Attributes, head: Head) -> &mut Self {
        self.u64(node).u64(0).u64(KEPT_S).u64(KEPT_S).u32(0).u32(0).attributes(of, head)
    }

    pub(super) fn attr(&mut self, of: &Attributes, head: Head) -> &mut Self {
        self.u64(KEPT_S).u32(0).u32(0).attributes(of, head)
    }

    pub(super) fn opened(&mut self, handle: u64, keeps: bool) -> &mut Self {
        const KEEP_CACHE: u32 = 2;
        self.u64(handle).u32(if keeps { KEEP_CACHE } else { 0 }).u32(0)
    }

    pub(super) fn room(&mut self, of: &Room) -> &mut Self {
        of.blocks.iter().chain(&of.files).for_each(|value| {
            self.u64(*value);
        });
        of.bytes.iter().for_each(|value| {
            self.u32(*value);
        });
        self.bytes(&[0; 28])
    }

    /// An entry of a folder; false: it does not fit within `most` bytes.
    pub(super) fn directory_entry(
        &mut self,
        ino: u64,
        next: u64,
        kind: u8,
        name: &[u8],
        most: usize,
    ) -> bool {
        let padded = (24 + name.len()).next_multiple_of(8);
        if self.0.len() - 16 + padded > most {
            return false;
        }
        self.u64(ino).u64(next).u32(name.len() as u32).u32(kind.into()).bytes(name);
        let end = (self.0.len() - 16).next_multiple_of(8) + 16;
        self.0.resize(end, 0);
        true
    }

    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.0);
        let length = out.len() as u32;
        out[..4].copy_from_slice(&length.to_ne_bytes());
        out
    }
}

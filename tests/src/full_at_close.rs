//! A file system that takes every write and has no room when a file is closed, as NFS and a server's quota
//! have: a FUSE mount answered by a thread of the test.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use tutti_testkit::{Need, skip};

const ENOSPC: i32 = 28;
const ENOSYS: i32 = 38;
const ENOENT: i32 = 2;
/// Of a request: the longest write, and what is before it.
const REQUEST_BYTES: usize = (1 << 17) + 4096;
const HEADER_BYTES: usize = 40;

/// The mounted folder. Files in it hold nothing; they have names and lengths.
#[derive(Debug)]
pub struct FullAtClose(PathBuf);

impl FullAtClose {
    /// Mounts it over an empty folder; none, and the test is skipped, where that cannot be.
    pub fn mount(at: &Path) -> Option<Self> {
        std::fs::create_dir(at).expect("a folder");
        match tutti_os::mount_fuse(at) {
            Ok(device) => {
                std::thread::spawn(move || Server { device: File::from(device), files: Vec::new() }.serve());
                Some(FullAtClose(at.to_owned()))
            }
            Err(error) => {
                skip(Need::MountNamespace, format!("no FUSE can be mounted: {error}"));
                None
            }
        }
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for FullAtClose {
    fn drop(&mut self) {
        tutti_os::unmount(&self.0);
    }
}

struct Server {
    device: File,
    /// Names and lengths; their nodes are counted from 2, the folder is 1.
    files: Vec<(Vec<u8>, u64)>,
}

/// Bytes of an answer.
#[derive(Default)]
struct Answer(Vec<u8>);

impl Answer {
    fn u32s(mut self, words: &[u32]) -> Self {
        words.iter().for_each(|word| self.0.extend(word.to_ne_bytes()));
        self
    }

    fn u64s(mut self, words: &[u64]) -> Self {
        words.iter().for_each(|word| self.0.extend(word.to_ne_bytes()));
        self
    }
}

impl Server {
    /// Until the folder is unmounted.
    fn serve(mut self) {
        let mut request = vec![0; REQUEST_BYTES];
        while let Ok(bytes) = self.device.read(&mut request) {
            let request = &request[..bytes];
            let Some(answer) = self.answer(request) else { continue };
            let (error, body) = match answer {
                Ok(Answer(body)) => (0, body),
                Err(error) => (-error, Vec::new()),
            };
            let head = Answer::default().u32s(&[16 + body.len() as u32, error as u32]);
            let answer = [&head.0[..], &request[8..16], &body].concat();
            let _ = self.device.write_all(&answer);
        }
    }

    /// The answer to a request; none: nobody waits for one.
    fn answer(&mut self, request: &[u8]) -> Option<Result<Answer, i32>> {
        let u32_at = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().expect("eight bytes"));
        let (operation, node) = (u32_at(4), u64_at(16));
        let name_at = |at: usize| request[at..].split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        Some(match operation {
            // LOOKUP
            1 => match self.find(&name_at(HEADER_BYTES)) {
                Some(node) => Ok(self.entry(node)),
                None => Err(ENOENT),
            },
            // FORGET, INTERRUPT, BATCH_FORGET
            2 | 36 | 42 => return None,
            // GETATTR
            3 => Ok(self.attributes(node)),
            // SETATTR: what is set (8: the length), a handle, the length.
            4 => {
                if u32_at(HEADER_BYTES) & 8 != 0 {
                    self.files[node as usize - 2].1 = u64_at(HEADER_BYTES + 16);
                }
                Ok(self.attributes(node))
            }
            // OPEN, OPENDIR
            14 | 27 => Ok(Answer::default().u64s(&[node, 0])),
            // WRITE: handle, offset, length.
            16 => {
                let (offset, bytes) = (u64_at(HEADER_BYTES + 8), u32_at(HEADER_BYTES + 16));
                let length = &mut self.files[node as usize - 2].1;
                *length = (*length).max(offset + u64::from(bytes));
                Ok(Answer::default().u32s(&[bytes, 0]))
            }
            // STATFS
            17 => Ok(Answer(vec![0; 80])),
            // RELEASE, RELEASEDIR, ACCESS
            18 | 29 | 34 => Ok(Answer::default()),
            // FLUSH: a descriptor is closed.
            25 => {
                let is_written = self.files.get(node as usize - 2).is_some_and(|(_, length)| *length > 0);
                if is_written { Err(ENOSPC) } else { Ok(Answer::default()) }
            }
            // INIT: version 7.31, and nothing that need not be.
            26 => {
                let mut answer = Answer::default().u32s(&[7, 31, 0, 0, 0, 1 << 17, 1]);
                answer.0.resize(64, 0);
                Ok(answer)
            }
            // CREATE: its name is behind four words.
            35 => {
                self.files.push((name_at(HEADER_BYTES + 16), 0));
                let node = self.files.len() as u64 + 1;
                let mut answer = self.entry(node);
                answer.0.extend(Answer::default().u64s(&[node, 0]).0);
                Ok(answer)
            }
            _ => Err(ENOSYS),
        })
    }

    fn find(&self, name: &[u8]) -> Option<u64> {
        Some(self.files.iter().position(|(of, _)| of == name)? as u64 + 2)
    }

    fn attribute_words(&self, node: u64) -> Answer {
        let is_folder = node == 1;
        let bytes = if is_folder { 0 } else { self.files[node as usize - 2].1 };
        let mode = if is_folder { 0o040_777 } else { 0o100_666 };
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Answer::default()
            .u64s(&[node, bytes, bytes.div_ceil(512), 0, 0, 0])
            .u32s(&[0, 0, 0, mode, 1, uid, gid, 0, 4096, 0])
    }

    fn attributes(&self, node: u64) -> Answer {
        let mut answer = Answer::default().u64s(&[0, 0]);
        answer.0.extend(self.attribute_words(node).0);
        answer
    }

    fn entry(&self, node: u64) -> Answer {
        let mut answer = Answer::default().u64s(&[node, 0, 0, 0, 0]);
        answer.0.extend(self.attribute_words(node).0);
        answer
    }
}

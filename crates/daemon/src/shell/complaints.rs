//! Lines that starters write on standard error, for the daemon's log: the process is the user's, who may
//! write there what and as much as he likes. So it is a pipe, of which so much is read and no more, and each
//! line says whose it is.
//!
//! | bound | value | beyond it |
//! |---|---|---|
//! | bytes of a line | 512 | the rest of it is cut off |
//! | bytes in the log, of all that a user causes | 64 KiB at once, then 256 a second | lines are left out, and counted |
//! | bytes that are read of a starter | 1 MiB | the pipe is closed |

use std::os::fd::OwnedFd;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tutti_os::stderr::escape_control;

use super::quota::ConnectionQuota;
use crate::message::JobId;

const LINE_BYTES_MAX: usize = 512;
const READ_BYTES_MAX: usize = 1 << 20;

/// Log of what starters write, as far as it has room for their users.
#[derive(Clone, Debug)]
pub(super) struct Complaints {
    quota: ConnectionQuota,
}

impl Complaints {
    pub(super) fn new(quota: ConnectionQuota) -> Self {
        Complaints { quota }
    }

    /// A line that a user causes.
    pub(super) fn warn(&self, uid: u32, text: &str) {
        self.put(uid, text, |line| tracing::warn!("{line}"));
    }

    /// The same where nothing is wrong.
    pub(super) fn inform(&self, uid: u32, text: &str) {
        self.put(uid, text, |line| tracing::info!("{line}"));
    }

    /// A line that a user causes who does what nobody need do, of a kind of which a few say all.
    pub(super) fn warn_seldom(&self, uid: u32, kind: &'static str, text: &str) {
        self.quota.log_seldom(uid, kind, text, |left_out| {
            put_with(uid, left_out, text, |line| tracing::warn!("{line}"));
        });
    }

    fn put(&self, uid: u32, text: &str, put: impl FnMut(&str)) {
        self.quota.log(uid, text, |left_out| put_with(uid, left_out, text, put));
    }

    /// Reads what the starter of a job of `uid` says until it has closed its end. It is `account`'s to answer
    /// for.
    pub(super) fn read_frames(&self, job: JobId, uid: u32, account: u32, errors: OwnedFd) {
        let Ok(errors) = Receiver::from_owned_fd(errors) else { return };
        let all = self.clone();
        tokio::spawn(async move {
            all.read(job, (uid, account), errors, |line| tracing::warn!("{line}")).await;
        });
    }

    async fn read(
        &self,
        job: JobId,
        (uid, account): (u32, u32),
        mut errors: Receiver,
        mut put: impl FnMut(&str),
    ) {
        let mut bytes = vec![0; 4096];
        let (mut line, mut total) = (Line::default(), 0);
        let mut complain = |text: &str| {
            self.put(account, &format!("the starter of job {job} of user {uid}: {text}"), &mut put);
        };
        while let Ok(read) = errors.read(&mut bytes).await
            && read > 0
        {
            line.take(&bytes[..read], &mut complain);
            total += read;
            if total >= READ_BYTES_MAX {
                drop(errors);
                line.end(&mut complain);
                // Said whatever room there is: it is one line for each job.
                let most = READ_BYTES_MAX >> 20;
                let text = format!("it has written {most} MiB on standard error, no more of it is read");
                return put(&format!("the starter of job {job} of user {uid}: {text}"));
            }
        }
        line.end(&mut complain);
    }
}

/// Puts a line, behind one about those that were left out before.
fn put_with(uid: u32, left_out: u64, text: &str, mut put: impl FnMut(&str)) {
    if left_out > 0 {
        put(&format!("{left_out} lines about user {uid} are left out"));
    }
    put(text);
}

/// The beginning of a line of which the end has not come.
#[derive(Debug, Default)]
struct Line(Vec<u8>);

impl Line {
    fn take(&mut self, bytes: &[u8], complain: &mut impl FnMut(&str)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            // One byte more says that it is cut off.
            let room = (LINE_BYTES_MAX + 1).saturating_sub(self.0.len());
            self.0.extend(&text[..text.len().min(room)]);
            if text.len() < part.len() {
                self.end(complain);
            }
        }
    }

    fn end(&mut self, complain: &mut impl FnMut(&str)) {
        if !self.0.is_empty() {
            let is_cut = self.0.len() > LINE_BYTES_MAX;
            self.0.truncate(LINE_BYTES_MAX);
            let text = escape_control(&String::from_utf8_lossy(&self.0));
            complain(&if is_cut { format!("{text} ...") } else { text });
        }
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The lines of the log of what this user's starter writes.
    fn logged(complaints: &Complaints, uid: u32, parts: Vec<Vec<u8>>) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (errors, mut end) = std::io::pipe().unwrap();
            rustix::io::ioctl_fionbio(&errors, true).unwrap();
            let errors = Receiver::from_owned_fd(errors.into()).unwrap();
            let writer = std::thread::spawn(move || {
                for part in parts {
                    if end.write_all(&part).is_err() {
                        return true;
                    }
                }
                false
            });
            let mut lines = Vec::new();
            complaints.read(JobId(7), (uid, uid), errors, |line| lines.push(line.to_owned())).await;
            lines.push(format!("closed: {}", writer.join().unwrap()));
            lines
        })
    }

    #[test]
    fn starter_lines_are_named_cut_and_spelt_out() {
        let complaints = Complaints::new(ConnectionQuota::new(0, 1000));
        let long = [&[b'x'; 600][..], b"\n"].concat();
        let found =
            logged(&complaints, 5, vec![b"a\x1b[2J".to_vec(), b"b\n\n".to_vec(), long, b"end".to_vec()]);
        let controller = "the starter of job 7 of user 5: ";
        let cut = format!("{controller}{} ...", "x".repeat(512));
        assert_eq!(
            found,
            [format!("{controller}a\\u{{1b}}[2Jb"), cut, format!("{controller}end"), "closed: false".into()]
        );
    }

    #[test]
    fn starter_that_floods_its_stderr_gets_64_kib_of_the_log_and_costs_1_mib_of_reading() {
        let complaints = Complaints::new(ConnectionQuota::new(0, 1000));
        let line = |letter: u8| [&[letter; 99][..], b"\n"].concat();
        let flood = vec![line(b'x').repeat(10_000); 105];
        let found = logged(&complaints, 5, flood);
        assert_eq!(found.last().unwrap(), "closed: true");
        let bytes: usize = found.iter().map(String::len).sum();
        assert!((30_000..64 << 10).contains(&bytes), "{bytes} bytes of the log, without the time");
        assert!(
            found[found.len() - 2].ends_with("it has written 1 MiB on standard error, no more of it is read")
        );
        // Whose room it is: his other jobs' too, nobody else's.
        assert_eq!(logged(&complaints, 5, vec![line(b'y').repeat(100)]).len(), 1);
        assert_eq!(logged(&complaints, 6, vec![line(b'z')]).len(), 2);
    }
}

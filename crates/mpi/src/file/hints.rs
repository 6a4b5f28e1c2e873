//! Hints for files, under the names that scripts already use (MPI 14.2.8; ROMIO's).

use crate::info::Info;

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Choice {
    /// As the library thinks best.
    Automatic,
    /// Always.
    Enable,
    /// Never.
    Disable,
}

/// Hints that hold for a file; the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// `cb_nodes`: ranks that access the file for all others in collective calls; 0: as the library thinks.
    pub aggregators: u32,
    /// `cb_buffer_size`: bytes that each of them has at once.
    pub window_bytes: u32,
    /// `romio_cb_write`: collective writes go through aggregators.
    pub collect_writes: Choice,
    /// `romio_cb_read`: the same of reads.
    pub collect_reads: Choice,
    /// `romio_ds_read`: short pieces are read with what lies between them.
    pub sieve_reads: Choice,
    /// `ind_rd_buffer_size`: bytes that are read at once for that.
    pub sieve_bytes: u32,
    /// `striping_unit`: the borders between aggregators are multiples of it.
    pub alignment: u32,
    /// `nfs`: the file is treated as one on NFS, wherever it lies.
    pub is_nfs: bool,
    /// `file_perm`: mode of a new file before the user's mask.
    pub mode: u32,
}

impl Default for Hints {
    fn default() -> Self {
        Hints {
            aggregators: 0,
            window_bytes: 4 << 20,
            collect_writes: Choice::Automatic,
            collect_reads: Choice::Automatic,
            sieve_reads: Choice::Automatic,
            sieve_bytes: 4 << 20,
            alignment: 4096,
            is_nfs: false,
            mode: 0o666,
        }
    }
}

/// Numbers that carry all hints from rank 0 to the others.
pub const WORDS: usize = 9;

fn number(value: &[u8], radix: u32) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(value).ok()?.trim(), radix).ok()
}

fn choice(value: &[u8]) -> Option<Choice> {
    match value {
        b"enable" | b"true" => Some(Choice::Enable),
        b"disable" | b"false" => Some(Choice::Disable),
        b"automatic" => Some(Choice::Automatic),
        _ => None,
    }
}

fn choice_text(choice: Choice) -> &'static str {
    match choice {
        Choice::Automatic => "automatic",
        Choice::Enable => "enable",
        Choice::Disable => "disable",
    }
}

/// Sizes that a user may ask for.
const SIZES: std::ops::RangeInclusive<u32> = 4096..=1 << 30;

impl Hints {
    /// Takes what the user says; gives the keys that are known and have a value that is none.
    pub fn take(&mut self, given: &Info) -> Vec<String> {
        let mut wrong = Vec::new();
        for (key, value) in given.iter() {
            if !self.take_one(key, value) {
                let [key, value] = [key, value].map(String::from_utf8_lossy);
                wrong.push(format!("{key} is \"{value}\""));
            }
        }
        wrong
    }

    /// Whether the key is unknown or its value was taken.
    fn take_one(&mut self, key: &[u8], value: &[u8]) -> bool {
        let size = || number(value, 10).filter(|size| SIZES.contains(size));
        fn put<T>(place: &mut T, value: Option<T>) -> bool {
            let is_taken = value.is_some();
            if let Some(value) = value {
                *place = value;
            }
            is_taken
        }
        match key {
            b"cb_nodes" => put(&mut self.aggregators, number(value, 10).filter(|count| *count > 0)),
            b"cb_buffer_size" => put(&mut self.window_bytes, size()),
            b"romio_cb_write" => put(&mut self.collect_writes, choice(value)),
            b"romio_cb_read" => put(&mut self.collect_reads, choice(value)),
            b"romio_ds_read" => put(&mut self.sieve_reads, choice(value)),
            b"ind_rd_buffer_size" => put(&mut self.sieve_bytes, size()),
            b"striping_unit" => put(&mut self.alignment, number(value, 10).filter(|unit| *unit > 0)),
            b"nfs" => put(&mut self.is_nfs, choice(value).map(|choice| choice == Choice::Enable)),
            b"file_perm" => put(&mut self.mode, number(value, 8).filter(|mode| *mode <= 0o777)),
            _ => true,
        }
    }

    /// Hints that hold, as the user sees them.
    pub fn info(&self, aggregators: usize) -> Info {
        let mut info = Info::default();
        let numbers = [
            ("cb_buffer_size", self.window_bytes),
            ("cb_nodes", aggregators as u32),
            ("ind_rd_buffer_size", self.sieve_bytes),
            ("striping_unit", self.alignment),
        ];
        for (key, value) in numbers {
            info.set(key.as_bytes(), value.to_string().as_bytes());
        }
        let choices = [
            ("romio_cb_read", self.collect_reads),
            ("romio_cb_write", self.collect_writes),
            ("romio_ds_read", self.sieve_reads),
        ];
        for (key, choice) in choices {
            info.set(key.as_bytes(), choice_text(choice).as_bytes());
        }
        info.set(b"nfs", if self.is_nfs { b"true" } else { b"false" });
        info.set(b"file_perm", format!("{:o}", self.mode).as_bytes());
        info
    }

    /// As numbers.
    pub fn encode(&self) -> [u32; WORDS] {
        [
            self.aggregators,
            self.window_bytes,
            self.collect_writes as u32,
            self.collect_reads as u32,
            self.sieve_reads as u32,
            self.sieve_bytes,
            self.alignment,
            u32::from(self.is_nfs),
            self.mode,
        ]
    }

    /// From numbers of [`Hints::encode`].
    pub fn decode(words: &[u32]) -> Hints {
        let choice = |word: u32| match word {
            1 => Choice::Enable,
            2 => Choice::Disable,
            _ => Choice::Automatic,
        };
        Hints {
            aggregators: words[0],
            window_bytes: words[1],
            collect_writes: choice(words[2]),
            collect_reads: choice(words[3]),
            sieve_reads: choice(words[4]),
            sieve_bytes: words[5],
            alignment: words[6],
            is_nfs: words[7] != 0,
            mode: words[8],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_hints_take_known_keys_with_possible_values() {
        let mut given = Info::default();
        for (key, value) in [
            ("cb_nodes", "2"),
            ("cb_buffer_size", "many"),
            ("romio_cb_write", "enable"),
            ("romio_cb_read", "perhaps"),
            ("file_perm", "640"),
            ("access_style", "write_once"),
        ] {
            given.set(key.as_bytes(), value.as_bytes());
        }
        let mut hints = Hints::default();
        let wrong = hints.take(&given);
        assert_eq!(wrong, ["cb_buffer_size is \"many\"", "romio_cb_read is \"perhaps\""]);
        let expected =
            Hints { aggregators: 2, collect_writes: Choice::Enable, mode: 0o640, ..Hints::default() };
        assert_eq!(hints, expected);
        assert_eq!(Hints::decode(&hints.encode()), hints);
        let info = hints.info(2);
        assert_eq!(info.get(b"romio_cb_write"), Some(&b"enable"[..]));
        assert_eq!((info.get(b"file_perm"), info.get(b"access_style")), (Some(&b"640"[..]), None));
    }
}

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

/// Values of a hint, and how they become a word.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// A number above 0.
    Count,
    /// Bytes from 4 KiB to 1 GiB.
    Size,
    /// A [`Choice`].
    Choice,
    /// `true` or `false`.
    Flag,
    /// Mode of a file, in octal.
    Mode,
}

impl Form {
    fn parse(self, value: &[u8]) -> Option<u32> {
        let number = |radix| u32::from_str_radix(std::str::from_utf8(value).ok()?.trim(), radix).ok();
        let choice = match value {
            b"enable" | b"true" => Some(Choice::Enable),
            b"disable" | b"false" => Some(Choice::Disable),
            b"automatic" => Some(Choice::Automatic),
            _ => None,
        };
        match self {
            Form::Count => number(10).filter(|count| *count > 0),
            Form::Size => number(10).filter(|bytes| (4096..=1 << 30).contains(bytes)),
            Form::Choice => choice.map(|choice| choice as u32),
            Form::Flag => choice.map(|choice| u32::from(choice == Choice::Enable)),
            Form::Mode => number(8).filter(|mode| *mode <= 0o777),
        }
    }

    fn text(self, word: u32) -> String {
        match self {
            Form::Count | Form::Size => word.to_string(),
            Form::Choice => ["automatic", "enable", "disable"][word as usize % 3].to_owned(),
            Form::Flag => (word != 0).to_string(),
            Form::Mode => format!("{word:o}"),
        }
    }
}

/// A hint: its key, its values, and the word that holds where the user says nothing.
#[derive(Debug)]
struct Hint(&'static str, Form, u32);

/// The hints that act on a file. A new one is a row here, and [`Key::of`] where it acts.
const HINTS: &[Hint] = &[
    // Ranks that access the file for all others in collective calls; 0: as the library thinks.
    Hint("cb_nodes", Form::Count, 0),
    // Bytes that each of them has at once.
    Hint("cb_buffer_size", Form::Size, 4 << 20),
    // Collective writes, and reads, go through these ranks.
    Hint("romio_cb_write", Form::Choice, Choice::Automatic as u32),
    Hint("romio_cb_read", Form::Choice, Choice::Automatic as u32),
    // Short pieces are read with what lies between them, so many bytes at once.
    Hint("romio_ds_read", Form::Choice, Choice::Automatic as u32),
    Hint("ind_rd_buffer_size", Form::Size, 4 << 20),
    // The borders between the ranks of a collective call are multiples of it.
    Hint("striping_unit", Form::Count, 4096),
    // The file is treated as one on NFS, wherever it lies.
    Hint("nfs", Form::Flag, 0),
    // Mode of a new file before the user's mask.
    Hint("file_perm", Form::Mode, 0o666),
];

/// Numbers that carry all hints from rank 0 to the others.
pub const WORDS: usize = HINTS.len();

/// Key of a hint, as the place of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(usize);

impl Key {
    /// Finds the row of a key. In a constant, one that has no row is an error of the compiler.
    pub const fn of(key: &str) -> Key {
        let mut row = 0;
        while !is_same(HINTS[row].0.as_bytes(), key.as_bytes()) {
            row += 1;
        }
        Key(row)
    }
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Ranks that access the file for all others.
pub const NODES: Key = Key::of("cb_nodes");
const NFS: Key = Key::of("nfs");

/// Hints that hold for a file; the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints([u32; WORDS]);

impl Default for Hints {
    fn default() -> Self {
        Hints(std::array::from_fn(|row| HINTS[row].2))
    }
}

impl Hints {
    /// Takes what the user says; gives the keys that are known and have a value that is none. A key without
    /// a row is another library's, and no error (MPI 10).
    pub fn take(&mut self, given: &Info) -> Vec<String> {
        let mut wrong = Vec::new();
        for (key, value) in given.iter() {
            let Some(row) = HINTS.iter().position(|hint| hint.0.as_bytes() == key) else { continue };
            match HINTS[row].1.parse(value) {
                Some(word) => self.0[row] = word,
                None => wrong.push(format!("{} is \"{}\"", HINTS[row].0, String::from_utf8_lossy(value))),
            }
        }
        wrong
    }

    /// Value of a hint that is a number.
    pub fn number(&self, key: Key) -> u32 {
        self.0[key.0]
    }

    /// Value of a hint that is a choice.
    pub fn choice(&self, key: Key) -> Choice {
        let choices = [Choice::Automatic, Choice::Enable, Choice::Disable];
        choices.into_iter().find(|choice| *choice as u32 == self.number(key)).unwrap_or(Choice::Automatic)
    }

    /// Whether the file is treated as one on NFS.
    pub fn is_nfs(&self) -> bool {
        self.number(NFS) != 0
    }

    /// The same for a file that is on NFS, whatever the user says.
    #[must_use]
    pub fn for_file(mut self, is_on_nfs: bool) -> Hints {
        self.0[NFS.0] |= u32::from(is_on_nfs);
        self
    }

    /// Hints that hold, as the user sees them, with so many ranks that access the file for all.
    pub fn info(&self, aggregators: usize) -> Info {
        let mut shown = self.0;
        shown[NODES.0] = aggregators as u32;
        let mut info = Info::default();
        for (Hint(key, form, _), word) in HINTS.iter().zip(shown) {
            info.set(key.as_bytes(), form.text(word).as_bytes());
        }
        info
    }

    /// As numbers.
    pub fn encode(&self) -> [u32; WORDS] {
        self.0
    }

    /// From numbers of [`Hints::encode`].
    pub fn decode(words: &[u32]) -> Hints {
        Hints(std::array::from_fn(|row| words[row]))
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
        let mut expected = Hints::default();
        for (key, word) in [("cb_nodes", 2), ("romio_cb_write", Choice::Enable as u32), ("file_perm", 0o640)]
        {
            expected.0[Key::of(key).0] = word;
        }
        assert_eq!(hints, expected);
        assert_eq!(Hints::decode(&hints.encode()), hints);
        let info = hints.info(2);
        assert_eq!(info.get(b"romio_cb_write"), Some(&b"enable"[..]));
        assert_eq!((info.get(b"file_perm"), info.get(b"access_style")), (Some(&b"640"[..]), None));
    }

    #[test]
    fn file_hints_are_read_back_as_they_are_shown() {
        let mut other = Hints::default();
        for (row, hint) in HINTS.iter().enumerate() {
            other.0[row] = match hint.1 {
                Form::Count => 3,
                Form::Size => 8192,
                Form::Choice => Choice::Disable as u32,
                Form::Flag => 1,
                Form::Mode => 0o600,
            };
        }
        for hints in [Hints::default().for_file(true), other] {
            let mut again = Hints::default();
            let aggregators = hints.number(NODES).max(1);
            assert_eq!(again.take(&hints.info(aggregators as usize)), Vec::<String>::new());
            let mut expected = hints;
            expected.0[NODES.0] = aggregators;
            assert_eq!(again, expected);
        }
    }
}

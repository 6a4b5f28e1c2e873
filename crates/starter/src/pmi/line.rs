//! Lines of PMI-1 and their requests. The bytes are a rank's: they may be anything.
//!
//! ```text
//! cmd=put kvsname=kvs_1 key=card value=tcp\ 10.0.0.1\n         words name=value; a backslash keeps the byte behind it in its value
//! mcmd=spawn\n nprocs=2\n ... endcmd\n                           several lines, one name=value each
//! ```
//!
//! Values are kept as they came, backslashes and all, and so they are given back.

use super::NoPmi;

/// Bytes of a line, at most.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// The request of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// The first of all; the version that the program speaks.
    Init {
        /// 1, or it is not understood.
        version: u32,
    },
    /// How long names, keys and values may be.
    Maxes,
    /// Which of the job's programs this is.
    AppNumber,
    /// How many processes there may be.
    UniverseSize,
    /// Name of the job's key-value space.
    SpaceName,
    /// Store a value.
    Put {
        /// Where; the job's own if none.
        space: Option<&'a [u8]>,
        /// Name of the key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Give a value.
    Get {
        /// Where.
        space: Option<&'a [u8]>,
        /// Name of the key.
        key: &'a [u8],
    },
    /// Give the key and value at this place.
    GetByIndex(usize),
    /// Wait until all ranks are here.
    Barrier,
    /// The program is done.
    Finalize,
    /// The job is to end with this code.
    Abort(u32),
    /// The first line of a request to start more processes.
    Spawn,
    /// A name for a port.
    Publish {
        /// The name.
        service: &'a [u8],
        /// The port.
        port: &'a [u8],
    },
    /// The port of a name.
    Lookup(&'a [u8]),
    /// The name is none any more.
    Unpublish(&'a [u8]),
    /// Request that is not done here; its name.
    Other(&'a [u8]),
}

impl<'a> Request<'a> {
    /// Reads a line, without its end.
    ///
    /// # Errors
    /// When it is not one of PMI.
    pub fn parse(line: &'a [u8]) -> Result<Self, NoPmi> {
        if line.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace()) {
            return Err(NoPmi);
        }
        let (kind, command) = KeyValues(line).next().ok_or(NoPmi)?;
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'-';
        if command.is_empty() || !command.iter().all(is_name) {
            return Err(NoPmi);
        }
        let value =
            |name: &str| KeyValues(line).find(|(key, _)| *key == name.as_bytes()).map(|(_, value)| value);
        let number = |name| value(name).and_then(number::<u32>);
        Ok(match (kind, command) {
            (b"cmd", b"init") => Request::Init { version: number("pmi_version").unwrap_or(0) },
            (b"cmd", b"get_maxes") => Request::Maxes,
            (b"cmd", b"get_appnum") => Request::AppNumber,
            (b"cmd", b"get_universe_size") => Request::UniverseSize,
            (b"cmd", b"get_my_kvsname") => Request::SpaceName,
            (b"cmd", b"put") => Request::Put {
                space: value("kvsname"),
                key: value("key").filter(|key| !key.is_empty()).ok_or(NoPmi)?,
                value: value("value").unwrap_or_default(),
            },
            (b"cmd", b"get") => Request::Get { space: value("kvsname"), key: value("key").ok_or(NoPmi)? },
            (b"cmd", b"getbyidx") => Request::GetByIndex(value("idx").and_then(self::number).ok_or(NoPmi)?),
            (b"cmd", b"barrier_in") => Request::Barrier,
            (b"cmd", b"finalize") => Request::Finalize,
            (b"cmd", b"abort") => {
                // Programs give any int; an exit status has its lowest byte.
                let code = value("exitcode").and_then(self::number::<i64>).unwrap_or(1);
                Request::Abort(code as u32)
            }
            (b"mcmd", b"spawn") => Request::Spawn,
            (b"cmd", b"publish_name") => Request::Publish {
                service: value("service").ok_or(NoPmi)?,
                port: value("port").unwrap_or_default(),
            },
            (b"cmd", b"lookup_name") => Request::Lookup(value("service").ok_or(NoPmi)?),
            (b"cmd", b"unpublish_name") => Request::Unpublish(value("service").ok_or(NoPmi)?),
            (b"cmd", other) => Request::Other(other),
            _ => return Err(NoPmi),
        })
    }
}

impl Request<'_> {
    /// The key-value space that it names.
    pub fn space(&self) -> Option<&[u8]> {
        match self {
            Request::Put { space, .. } | Request::Get { space, .. } => *space,
            _ => None,
        }
    }

    /// Verb in the answer to a put or a get.
    pub fn verb(&self) -> &'static str {
        if matches!(self, Request::Put { .. }) { "put" } else { "get" }
    }
}

/// A whole number in decimal.
pub fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The words `name=value` of a line; one without `=` has an empty value.
struct KeyValues<'a>(&'a [u8]);

impl<'a> Iterator for KeyValues<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.0.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let rest = &self.0[start..];
        let mut end = 0;
        while end < rest.len() && !rest[end].is_ascii_whitespace() {
            end += if rest[end] == b'\\' { 2 } else { 1 };
        }
        let (word, after) = rest.split_at(end.min(rest.len()));
        self.0 = after;
        let equals = word.iter().position(|byte| *byte == b'=');
        Some(equals.map_or((word, &[]), |at| (&word[..at], &word[at + 1..])))
    }
}

/// Bytes on their way to become lines.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    taken: usize,
    /// Place up to which no end of line was found in what was not taken.
    searched: usize,
}

impl Lines {
    /// Adds what was read.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line, without its end.
    ///
    /// # Errors
    /// When it is longer than [`LINE_BYTES_MAX`]; its end need not have come.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, NoPmi> {
        let end = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
        let end = end.map(|at| self.searched + at);
        self.searched = end.map_or(self.bytes.len(), |end| end + 1);
        if self.searched - self.taken > LINE_BYTES_MAX {
            return Err(NoPmi);
        }
        let start = self.taken;
        Ok(end.map(|end| {
            self.taken = end + 1;
            &self.bytes[start..end]
        }))
    }

    /// Bytes that have not been taken.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Drops all bytes: nothing more is taken.
    pub fn clear(&mut self) {
        *self = Lines::default();
    }
}

#[cfg(test)]
mod tests;

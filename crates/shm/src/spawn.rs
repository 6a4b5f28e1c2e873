//! How a rank has its starter start more ranks (MPI_Comm_spawn): messages over the connection of its ticket
//! ([`crate::ticket`]), and what a rank that was started so finds in its environment.
//!
//! | message | from | meaning |
//! |---|---|---|
//! | [`Request`] | rank | start these programs as the next ranks of the job, all or none |
//! | [`Answer`] | starter | the first of them, or why there are none |
//!
//! Both have a number of the rank's choice, so several threads may ask at once. A new rank's place is a text
//! of numbers: [`Spawned`].

use std::fmt;
use std::str::FromStr;

use crate::ticket::PROTOCOL;

/// Environment variable of a rank that was started by others: its [`Spawned`].
pub const SPAWNED_VARIABLE: &str = "TUTTI_SPAWNED";

/// Bytes of a request, at most.
pub const REQUEST_BYTES_MAX: usize = 128 << 10;
/// Bytes of an answer, at most.
pub const ANSWER_BYTES_MAX: usize = 16 << 10;
/// More numbers of ranks that have failed are told by a bit for each rank up to the last.
const LIST_MAX: usize = 256;
/// In place of the number of ranks in a list.
const BITS: u32 = u32::MAX;
/// Ranks whose failures an answer can tell.
const FAILED_MAX: u32 = 1 << 16;
/// Bytes of an answer's text, at most; the rest is cut off.
const TEXT_BYTES_MAX: usize = 1000;

/// Ranks of an MPI_COMM_WORLD that others have started, at most.
const RANKS_MAX: u32 = 1 << 20;

const REQUEST: u32 = 16;
const ANSWER: u32 = 17;

/// A program that is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// How many ranks run it.
    pub ranks: u32,
    /// The file to execute.
    pub file: Vec<u8>,
    /// Arguments of the program; the first is its name.
    pub arguments: Vec<Vec<u8>>,
    /// Working directory of the program.
    pub directory: Vec<u8>,
    /// The node that the user wishes, by its name; empty: any.
    pub host: Vec<u8>,
}

/// A rank wants more ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the request.
    pub number: u32,
    /// Context of the new ranks' MPI_COMM_WORLD.
    pub context: u32,
    /// The programs, in order of ranks.
    pub programs: Vec<Program>,
}

/// The starter's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number of the request.
    pub number: u32,
    /// World rank of the first new rank; none: nothing was started.
    pub first: Option<u32>,
    /// Then those that could not be, counted from the first one that was wanted; empty when it is no matter
    /// of single ones.
    pub failed: Vec<u32>,
    /// And why, for the user.
    pub text: String,
}

/// The place of a rank that was started by others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spawned {
    /// The world ranks of its MPI_COMM_WORLD, in order.
    pub ranks: Vec<u32>,
    /// Context of its MPI_COMM_WORLD.
    pub context: u32,
    /// World rank of the process that asked for it.
    pub parent: u32,
    /// Number of its request.
    pub number: u32,
}

/// `0-1,7:context:parent:number`.
impl fmt::Display for Spawned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.ranks.chunk_by(|one, next| one.checked_add(1) == Some(*next));
        for (place, run) in runs.enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match run {
                [one] => write!(f, "{comma}{one}")?,
                _ => write!(f, "{comma}{}-{}", run[0], run[run.len() - 1])?,
            }
        }
        let Spawned { context, parent, number, .. } = self;
        write!(f, ":{context}:{parent}:{number}")
    }
}

impl FromStr for Spawned {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |text: &str| text.parse::<u32>().map_err(drop);
        let [runs, context, parent, request] = text.split(':').collect::<Vec<_>>()[..] else {
            return Err(());
        };
        let mut ranks = Vec::new();
        for run in runs.split(',') {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let (first, last) = (number(first)?, number(last)?);
            if last < first || last - first >= RANKS_MAX - ranks.len() as u32 {
                return Err(());
            }
            ranks.extend(first..=last);
        }
        Ok(Spawned { ranks, context: number(context)?, parent: number(parent)?, number: number(request)? })
    }
}

impl Request {
    /// As it travels; none when it is too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        put_numbers(&mut out, &[PROTOCOL, REQUEST, self.number, self.context, self.programs.len() as u32]);
        for program in &self.programs {
            put_numbers(&mut out, &[program.ranks, program.arguments.len() as u32]);
            [&program.file, &program.directory, &program.host]
                .into_iter()
                .for_each(|text| put_text(&mut out, text));
            program.arguments.iter().for_each(|text| put_text(&mut out, text));
        }
        (out.len() <= REQUEST_BYTES_MAX).then_some(out)
    }

    /// Reads a message; `None` when it is no request.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let [PROTOCOL, REQUEST, number, context, count] = numbers(&mut rest)? else { return None };
        // Each of them takes bytes, so the message bounds their number.
        let program = |rest: &mut &[u8]| {
            let [ranks, arguments] = numbers(rest)?;
            let (file, directory, host) = (text(rest)?, text(rest)?, text(rest)?);
            let arguments = (0..arguments).map(|_| text(rest)).collect::<Option<_>>()?;
            Some(Program { ranks, file, arguments, directory, host })
        };
        let programs = (0..count).map(|_| program(&mut rest)).collect::<Option<_>>()?;
        rest.is_empty().then_some(Request { number, context, programs })
    }
}

impl Answer {
    /// As it travels.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let first = self.first.unwrap_or(u32::MAX);
        let is_list = self.failed.len() <= LIST_MAX;
        let count = if is_list { self.failed.len() as u32 } else { BITS };
        put_numbers(&mut out, &[PROTOCOL, ANSWER, self.number, first, count]);
        if is_list {
            put_numbers(&mut out, &self.failed);
        } else {
            put_text(&mut out, &bits(&self.failed));
        }
        put_text(&mut out, &self.text.as_bytes()[..self.text.len().min(TEXT_BYTES_MAX)]);
        assert!(out.len() <= ANSWER_BYTES_MAX, "an answer of {} bytes", out.len());
        out
    }

    /// Reads a message; `None` when it is no answer.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let [PROTOCOL, ANSWER, number, first, count] = numbers(&mut rest)? else { return None };
        let one = |rest: &mut &[u8]| numbers(rest).map(|[rank]| rank);
        let failed = match count {
            BITS => numbers_of(&text(&mut rest)?),
            count => (0..count).map(|_| one(&mut rest)).collect::<Option<_>>()?,
        };
        let text = String::from_utf8_lossy(&text(&mut rest)?).into_owned();
        rest.is_empty().then_some(Answer {
            number,
            first: (first != u32::MAX).then_some(first),
            failed,
            text,
        })
    }
}

fn bits(numbers: &[u32]) -> Vec<u8> {
    let known = || numbers.iter().filter(|number| **number < FAILED_MAX);
    let mut bits = vec![0; known().max().map_or(0, |last| *last as usize / 8 + 1)];
    known().for_each(|number| bits[*number as usize / 8] |= 1 << (number % 8));
    bits
}

fn numbers_of(bits: &[u8]) -> Vec<u32> {
    let is_set = |number: &u32| bits[*number as usize / 8] & 1 << (number % 8) != 0;
    (0..8 * bits.len() as u32).filter(is_set).collect()
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| out.extend(number.to_ne_bytes()));
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_numbers(out, &[text.len() as u32]);
    out.extend(text);
}

fn numbers<const N: usize>(rest: &mut &[u8]) -> Option<[u32; N]> {
    let (words, behind) = rest.split_at_checked(4 * N)?;
    *rest = behind;
    let word = |at: usize| u32::from_ne_bytes(words[4 * at..][..4].try_into().expect("four bytes"));
    Some(std::array::from_fn(word))
}

fn text(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let [bytes] = numbers(rest)?;
    let (text, behind) = rest.split_at_checked(bytes as usize)?;
    *rest = behind;
    Some(text.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        let program = Program {
            ranks: 2,
            file: b"/bin/worker".to_vec(),
            arguments: vec![b"worker".to_vec(), Vec::new(), b"-v".to_vec()],
            directory: b"/tmp".to_vec(),
            host: b"node3".to_vec(),
        };
        Request { number: 7, context: 600, programs: vec![program.clone(), Program { ranks: 1, ..program }] }
    }

    #[test]
    fn spawn_messages_round_trip_and_others_are_refused() {
        let bytes = request().encode().unwrap();
        assert_eq!(Request::decode(&bytes), Some(request()));
        for end in 0..bytes.len() {
            assert_eq!(Request::decode(&bytes[..end]), None, "{end} bytes");
        }
        assert_eq!(Request::decode(&[&bytes[..], b"x"].concat()), None);
        for first in [Some(4), None] {
            let answer = Answer { number: 7, first, failed: vec![0, 2], text: "no such program".into() };
            let bytes = answer.encode();
            assert_eq!(Answer::decode(&bytes), Some(answer));
            assert_eq!((Request::decode(&bytes), Answer::decode(&bytes[..9])), (None, None));
        }
    }

    #[test]
    fn spawn_answer_has_any_number_of_failures() {
        for failed in [(0..256).collect::<Vec<_>>(), (0..257).collect(), (1..FAILED_MAX).step_by(2).collect()]
        {
            let answer = Answer { number: 7, first: None, failed, text: "x".repeat(TEXT_BYTES_MAX) };
            let bytes = answer.encode();
            assert!(bytes.len() <= ANSWER_BYTES_MAX);
            assert_eq!(Answer::decode(&bytes), Some(answer));
            assert_eq!(Answer::decode(&bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn spawn_request_of_endless_counts_is_refused() {
        let mut bytes = request().encode().unwrap();
        bytes[16..20].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(Request::decode(&bytes), None);
        let long = Program { file: vec![b'x'; REQUEST_BYTES_MAX], ..request().programs.remove(0) };
        assert_eq!(Request { programs: vec![long], ..request() }.encode(), None);
    }

    #[test]
    fn spawn_place_round_trips_through_the_environment() {
        for (ranks, text) in
            [(vec![2, 3, 4], "2-4:60:1:9"), (vec![7], "7:60:1:9"), (vec![5, 7, 8, 4, 9], "5,7-8,4,9:60:1:9")]
        {
            let spawned = Spawned { ranks, context: 60, parent: 1, number: 9 };
            assert_eq!(spawned.to_string(), text);
            assert_eq!(text.parse(), Ok(spawned));
        }
        let endless = "0-4294967295:2:3:4";
        for wrong in ["", "1", "1:2:3", "1:2:3:4:5", "1:2:3:x", "1:2:3:-5", "2-1:2:3:4", ",1:2:3:4", endless]
        {
            assert_eq!(wrong.parse::<Spawned>(), Err(()), "{wrong}");
        }
    }
}

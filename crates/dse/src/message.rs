//! Messages between a DSE process and its kernel, where they are two processes ([`crate::link`],
//! [`crate::server`]): over a stream between them, one question after the other.
//!
//! ```text
//! question  | operation u32 | number i32 | a u64 | b u64 | c u64 | then bytes of a write or a program
//! answer    | code i32 | bytes u32 | three values i64 |           then a refusal's text, or what was read
//! ```
//!
//! A write is the one question without an answer. The two run on one machine, so numbers are as the processor
//! has them. Whatever comes is a question or is refused: nothing here panics or allocates.

use tutti_native::stamps::Stamp;

/// Bytes of a question and of the head of an answer.
pub(crate) const HEAD: usize = 32;
/// Bytes of a stamp.
pub(crate) const STAMP_BYTES: usize = 32;

/// Question of a process to its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Reads so many bytes of global memory.
    Read { element: i32, at: u64, bytes: u64 },
    /// Writes the bytes that follow. There is no answer.
    Write { element: i32, at: u64, bytes: u64 },
    /// All writes so far are done.
    Confirm,
    /// All elements have come here.
    Barrier,
    /// Takes a lock.
    Lock(i32),
    /// Gives it back.
    Unlock(i32),
    /// Gives a semaphore a value.
    SemaphoreSet(i32, u32),
    /// Takes one from it.
    SemaphoreWait(i32),
    /// Adds one to it.
    SemaphorePost(i32),
    /// Chooses a topology.
    Topology { kind: i32, columns: i32 },
    /// Hops of the last operation that was forwarded.
    Hops,
    /// Starts a function on another element.
    Start { element: i32, function: u32, argument: i64 },
    /// Starts the program whose words follow, each with a zero byte at its end.
    StartProgram { element: i32, bytes: u64 },
    /// Waits for the end of either.
    Wait(i32),
    /// Asks for the end of what was started on an element.
    End(i32),
    /// Lets an element end its serving.
    Dismiss(i32),
    /// From now on programs that others start run beside the process.
    ServeBeside,
    /// Whether the function that runs here is to end.
    IsEnded,
    /// The next function to run here.
    Next,
    /// End of the function that runs here: its value, or that there is none of its number.
    Ended { starter: u32, value: i64, is_known: bool },
    /// Ends the elements.
    Finish,
    /// Keeps so many stamps from now on, and if `inner` those of the library. The answer: a status of
    /// `tutti.h`.
    StampsStart { room: u64, inner: bool },
    /// Keeps none any more. The answer: a status of `tutti.h`, how many stamps follow, how many are lost.
    StampsStop,
}

impl Question {
    /// Encodes the question.
    pub(crate) fn encode(self) -> [u8; HEAD] {
        let (operation, number, [a, b, c]) = match self {
            Question::Read { element, at, bytes } => (1, element, [at, bytes, 0]),
            Question::Write { element, at, bytes } => (2, element, [at, bytes, 0]),
            Question::Confirm => (3, 0, [0; 3]),
            Question::Barrier => (4, 0, [0; 3]),
            Question::Lock(number) => (5, number, [0; 3]),
            Question::Unlock(number) => (6, number, [0; 3]),
            Question::SemaphoreSet(number, value) => (7, number, [u64::from(value), 0, 0]),
            Question::SemaphoreWait(number) => (8, number, [0; 3]),
            Question::SemaphorePost(number) => (9, number, [0; 3]),
            Question::Topology { kind, columns } => (10, kind, [u64::from(columns as u32), 0, 0]),
            Question::Hops => (11, 0, [0; 3]),
            Question::Start { element, function, argument } => {
                (12, element, [u64::from(function), argument as u64, 0])
            }
            Question::StartProgram { element, bytes } => (13, element, [bytes, 0, 0]),
            Question::Wait(element) => (14, element, [0; 3]),
            Question::Dismiss(element) => (15, element, [0; 3]),
            Question::Next => (16, 0, [0; 3]),
            Question::Ended { starter, value, is_known } => {
                (17, 0, [u64::from(starter), value as u64, u64::from(is_known)])
            }
            Question::Finish => (18, 0, [0; 3]),
            Question::StampsStart { room, inner } => (19, 0, [room, u64::from(inner), 0]),
            Question::StampsStop => (20, 0, [0; 3]),
            Question::End(element) => (21, element, [0; 3]),
            Question::ServeBeside => (22, 0, [0; 3]),
            Question::IsEnded => (23, 0, [0; 3]),
        };
        let (operation, number): (u32, i32) = (operation, number);
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&operation.to_ne_bytes());
        bytes[4..8].copy_from_slice(&number.to_ne_bytes());
        for (value, place) in [a, b, c].into_iter().zip(bytes[8..].chunks_exact_mut(8)) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    /// The question of these bytes, if they are one: what [`Question::encode`] gives and nothing else.
    pub(crate) fn decode(bytes: &[u8; HEAD]) -> Option<Question> {
        let half = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (operation, number) = (half(0), half(4) as i32);
        let [a, b, c] = values(bytes);
        let small = |value: u64| u32::try_from(value).ok();
        let question = match operation {
            1 => Question::Read { element: number, at: a, bytes: b },
            2 => Question::Write { element: number, at: a, bytes: b },
            3 => Question::Confirm,
            4 => Question::Barrier,
            5 => Question::Lock(number),
            6 => Question::Unlock(number),
            7 => Question::SemaphoreSet(number, small(a)?),
            8 => Question::SemaphoreWait(number),
            9 => Question::SemaphorePost(number),
            10 => Question::Topology { kind: number, columns: small(a)? as i32 },
            11 => Question::Hops,
            12 => Question::Start { element: number, function: small(a)?, argument: b as i64 },
            13 => Question::StartProgram { element: number, bytes: a },
            14 => Question::Wait(number),
            15 => Question::Dismiss(number),
            16 => Question::Next,
            17 => Question::Ended { starter: small(a)?, value: b as i64, is_known: c != 0 },
            18 => Question::Finish,
            19 => Question::StampsStart { room: a, inner: b != 0 },
            20 => Question::StampsStop,
            21 => Question::End(number),
            22 => Question::ServeBeside,
            23 => Question::IsEnded,
            _ => return None,
        };
        (question.encode() == *bytes).then_some(question)
    }
}

/// The head of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// 0, or the code of a refusal.
    pub(crate) code: i32,
    /// Bytes of text that follow; 0 unless something was refused.
    pub(crate) text: u32,
    /// Values that the question gives.
    pub(crate) values: [i64; 3],
}

impl Answer {
    /// Encodes the head of the answer.
    pub(crate) fn encode(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&self.code.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.text.to_ne_bytes());
        for (value, place) in self.values.into_iter().zip(bytes[8..].chunks_exact_mut(8)) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    /// The answer of these bytes.
    pub(crate) fn decode(bytes: &[u8; HEAD]) -> Answer {
        let half = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let values = values(bytes).map(|value| value as i64);
        Answer { code: half(0) as i32, text: half(4), values }
    }
}

/// A stamp as it goes from a kernel to its process.
pub(crate) fn encode_stamp(stamp: &Stamp) -> [u8; STAMP_BYTES] {
    let mut bytes = [0; STAMP_BYTES];
    let Stamp { begin_ns, end_ns, arrived_ns, mark, count } = *stamp;
    for (place, word) in bytes.chunks_exact_mut(8).zip([begin_ns, end_ns, arrived_ns]) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes[24..28].copy_from_slice(&mark.to_ne_bytes());
    bytes[28..].copy_from_slice(&count.to_ne_bytes());
    bytes
}

/// Decodes what [`encode_stamp`] has made.
pub(crate) fn decode_stamp(bytes: &[u8; STAMP_BYTES]) -> Stamp {
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
    let half = |at: usize| bytes[at..].first_chunk().map_or(0, |half| u32::from_ne_bytes(*half));
    Stamp { begin_ns: word(0), end_ns: word(8), arrived_ns: word(16), mark: half(24), count: half(28) }
}

fn values(bytes: &[u8; HEAD]) -> [u64; 3] {
    std::array::from_fn(|which| {
        let mut value = [0; 8];
        value.copy_from_slice(&bytes[8 + 8 * which..16 + 8 * which]);
        u64::from_ne_bytes(value)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kernel_questions_come_back_as_they_were() {
        for question in [
            Question::Read { element: -1, at: u64::MAX, bytes: 3 },
            Question::Write { element: 7, at: 8, bytes: u64::MAX },
            Question::Confirm,
            Question::Barrier,
            Question::Lock(63),
            Question::Unlock(-5),
            Question::SemaphoreSet(1, u32::MAX),
            Question::SemaphoreWait(2),
            Question::SemaphorePost(3),
            Question::Topology { kind: 22, columns: -1 },
            Question::Hops,
            Question::Start { element: 1, function: 5, argument: i64::MIN },
            Question::StartProgram { element: 1, bytes: 9 },
            Question::Wait(4),
            Question::Dismiss(5),
            Question::End(6),
            Question::ServeBeside,
            Question::IsEnded,
            Question::Next,
            Question::Ended { starter: 6, value: -1, is_known: true },
            Question::Finish,
            Question::StampsStart { room: u64::MAX, inner: true },
            Question::StampsStop,
        ] {
            assert_eq!(Question::decode(&question.encode()), Some(question));
        }
    }

    #[test]
    fn kernel_stamps_come_back_as_they_were() {
        let stamp =
            Stamp { begin_ns: u64::MAX, end_ns: 2, arrived_ns: 3 << 40, mark: 4, count: u32::MAX - 1 };
        assert_eq!(decode_stamp(&encode_stamp(&stamp)), stamp);
    }

    proptest! {
        /// Bytes of another process are a question, and then its only form, or are refused.
        #[test]
        fn kernel_takes_any_bytes_as_a_question_or_refuses_them(
            operation in 0_u32..27, number: i32, values: [u64; 3], flip in 0_usize..HEAD, by: u8,
        ) {
            let mut bytes = [0; HEAD];
            bytes[..4].copy_from_slice(&operation.to_ne_bytes());
            bytes[4..8].copy_from_slice(&number.to_ne_bytes());
            for (value, place) in values.into_iter().zip(bytes[8..].chunks_exact_mut(8)) {
                place.copy_from_slice(&(value >> (value % 64)).to_ne_bytes());
            }
            bytes[flip] ^= by;
            if let Some(question) = Question::decode(&bytes) {
                prop_assert_eq!(question.encode(), bytes);
            }
            let answer = Answer::decode(&bytes);
            prop_assert_eq!(answer.encode(), bytes);
        }
    }
}

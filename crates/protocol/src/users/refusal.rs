//! Refusals by whose reason a program decides. The line is for users alone.
//!
//! ```text
//! controller --Answer::Because(reason, line)--> parted: Answer::Refused(line), number of the reason
//! reader of this release <-- joined -------------'   an earlier one reads the line, and knows no reason
//! ```
//!
//! Between daemons the number stands behind the answer; in a frame it is the number of the header. It is 0 in
//! all other answers, and one that a later release has added is no reason here.

use serde::{Deserialize, Serialize};

use super::Answer;
use crate::wire::{self, FrameHeader, Kind};

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
pub enum Reason {
    /// The job is over, and the controller has forgotten it.
    Forgotten = 1,
    /// The job of an `mpiexec` runs already, and may take no turns.
    WithoutTurns = 2,
    /// The job is another user's.
    OtherUser = 3,
}

impl Reason {
    const ALL: [Reason; 3] = [Reason::Forgotten, Reason::WithoutTurns, Reason::OtherUser];

    /// Reason with this number; none: there is none, or it is of a later release.
    pub fn of_number(number: u32) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| *reason as u32 == number)
    }
}

impl Answer {
    /// The answer as releases without reasons read it, and the number of the reason that goes beside it.
    pub fn part(self) -> (Answer, u32) {
        match self {
            Answer::Because(reason, line) => (Answer::Refused(line), reason as u32),
            answer => (answer, 0),
        }
    }

    /// The answer that was parted.
    pub fn join(self, reason: u32) -> Answer {
        match (self, Reason::of_number(reason)) {
            (Answer::Refused(line), Some(reason)) => Answer::Because(reason, line),
            (answer, _) => answer,
        }
    }
}

/// Appends the frame of an answer to `out`.
///
/// # Panics
/// As [`wire::put`].
pub fn put_answer(out: &mut Vec<u8>, answer: &Answer) {
    // A list of thousands of jobs is not copied.
    match answer {
        Answer::Because(..) => {
            let (answer, reason) = answer.clone().part();
            wire::put_json_of(out, Kind::Answer, reason, &answer);
        }
        answer => wire::put_json(out, Kind::Answer, answer),
    }
}

/// Answer of a frame; none: it cannot be read, or the frame is of another kind.
pub fn read_answer(head: FrameHeader, payload: &[u8]) -> Option<Answer> {
    let answer: Answer = serde_json::from_slice(payload).ok().filter(|_| head.kind == Kind::Answer)?;
    Some(answer.join(head.rank))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Decoder;

    fn frame(answer: &Answer) -> Vec<u8> {
        let mut frame = Vec::new();
        put_answer(&mut frame, answer);
        frame
    }

    fn read(frame: &[u8]) -> (FrameHeader, Vec<u8>) {
        let mut decoder = Decoder::default();
        decoder.extend(frame);
        let (head, payload) = decoder.next_frame().expect("a frame of the wire").expect("a whole frame");
        (head, payload.to_vec())
    }

    #[test]
    fn refusal_keeps_its_reason_and_is_a_line_for_an_earlier_release() {
        for reason in Reason::ALL {
            let answer = Answer::Because(reason, "it is over".into());
            let (head, payload) = read(&frame(&answer));
            assert_eq!(read_answer(head, &payload), Some(answer.clone()));
            // An earlier release reads no number.
            assert_eq!(serde_json::from_slice(&payload).ok(), Some(Answer::Refused("it is over".into())));
            let (parted, beside) = answer.clone().part();
            assert_eq!((&parted, beside), (&Answer::Refused("it is over".into()), reason as u32));
            assert_eq!(parted.join(beside), answer);
        }
    }

    #[test]
    fn refusal_of_an_earlier_or_a_later_release_has_no_reason() {
        let refused = Answer::Refused("the job takes no turns".into());
        let (head, payload) = read(&frame(&refused));
        assert_eq!(read_answer(head, &payload), Some(refused.clone()));
        assert_eq!(read_answer(FrameHeader { rank: 77, ..head }, &payload), Some(refused));
        let (head, payload) = read(&frame(&Answer::Done));
        assert_eq!(read_answer(FrameHeader { rank: 1, ..head }, &payload), Some(Answer::Done));
        assert_eq!(read_answer(FrameHeader { kind: Kind::Report, ..head }, &payload), None);
    }
}

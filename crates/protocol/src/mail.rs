//! Mail about a job, which a command of the keeper sends (`--mail-type`, `--mail-user`).

use serde::{Deserialize, Serialize};

/// Bytes of an address, at most.
const ADDRESS_BYTES_MAX: usize = 254;

/// Events of a job of which its user gets mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MailEvent {
    /// Begin of its ranks.
    Begin,
    /// End of the job.
    End,
    /// End with another status than 0.
    Fail,
    /// End at its time limit.
    TimeLimit,
    /// Another job takes its place.
    Requeue,
}

/// Words for the events, as Slurm has them.
const WORDS: [(&str, &[MailEvent]); 7] = [
    ("BEGIN", &[MailEvent::Begin]),
    ("END", &[MailEvent::End]),
    ("FAIL", &[MailEvent::Fail]),
    ("TIME_LIMIT", &[MailEvent::TimeLimit]),
    ("REQUEUE", &[MailEvent::Requeue]),
    ("NONE", &[]),
    ("ALL", &[MailEvent::Begin, MailEvent::End, MailEvent::Fail, MailEvent::TimeLimit, MailEvent::Requeue]),
];

/// Forms that [`Mail::events_of`] reads.
pub const EXPECTED: &str = "BEGIN, END, FAIL, TIME_LIMIT, REQUEUE, ALL or NONE, with commas between them";

/// Mail that a user wants about a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// About what.
    pub events: Vec<MailEvent>,
    /// Where to; empty: to the user's name.
    pub to: String,
}

impl Mail {
    /// The events that words mean; none: one of them is no word for any.
    #[must_use]
    pub fn events_of(text: &str) -> Option<Vec<MailEvent>> {
        let mut events = Vec::new();
        for word in text.split(',') {
            let (_, of_word) = WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word.trim()))?;
            events
                .extend(of_word.iter().filter(|event| !events.contains(*event)).copied().collect::<Vec<_>>());
        }
        Some(events)
    }

    /// Whether a text may be an address: one word, which no mail program takes for an option, a file or a
    /// command.
    #[must_use]
    pub fn is_address(text: &str) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-@%=".contains(c);
        let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        begins_well && text.len() <= ADDRESS_BYTES_MAX && text.chars().all(is_plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_events_are_slurms() {
        use MailEvent::{Begin, End, Fail};
        assert_eq!(Mail::events_of("begin,END, fail"), Some(vec![Begin, End, Fail]));
        assert_eq!(Mail::events_of("END,END"), Some(vec![End]));
        assert_eq!(Mail::events_of("NONE"), Some(Vec::new()));
        assert_eq!(Mail::events_of("ALL").map(|events| events.len()), Some(5));
        assert_eq!(Mail::events_of("END,"), None);
        assert_eq!(Mail::events_of("NEVER"), None);
    }

    #[test]
    fn address_is_one_plain_word() {
        for right in ["alice", "a.b+c@example.org", "_x@y"] {
            assert!(Mail::is_address(right), "{right}");
        }
        for wrong in ["", "-S", "a b", "|sh", "a;b", "/etc/x", "a$(b)", "a\n", "a!b", "~a", &"x".repeat(255)]
        {
            assert!(!Mail::is_address(wrong), "{wrong}");
        }
    }
}

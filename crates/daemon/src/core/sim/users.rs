//! Front ends, and what they must see: output in order and once, one End, the status of the first cause.

use std::collections::BTreeMap;

use tutti_protocol::users::refusal::read_answer;
use tutti_protocol::users::watch::Changes;
use tutti_protocol::wire::{Decoder, Kind, Report};

use crate::ids::ClientId;
use crate::message::{Answer, JobId, JobRow, NodeRow};

/// A user's program at the local socket of a node.
#[derive(Debug)]
pub(super) struct Client {
    pub id: ClientId,
    pub node: usize,
    /// Whether it runs a job, and waits for its end.
    pub runs: bool,
    pub job: Option<JobId>,
    pub answered: bool,
    /// Rows of jobs that it has been told, or that there are none.
    pub rows: Option<Vec<JobRow>>,
    /// The nodes, as it has been told.
    pub nodes: Option<Vec<NodeRow>>,
    /// Changes.
    pub changes: Option<Changes>,
    /// Why it was refused what it wants.
    pub refusal: Option<String>,
    /// Whether it has heard that the controller does not answer.
    sent: bool,
    pub released: bool,
    pub gone: bool,
    /// Whether it takes what comes.
    pub reads: bool,
    /// Bytes that it has not taken.
    pub waiting: usize,
    pub end: Option<u8>,
    pub lines: Vec<Report>,
    pub started: u32,
    /// Stdin that the daemon has not yet taken.
    pub input_open: bool,
    next: BTreeMap<u32, u64>,
    decoder: Decoder,
}

impl Client {
    pub(super) fn new(id: ClientId, node: usize, runs: bool) -> Self {
        Client {
            id,
            node,
            runs,
            job: None,
            answered: false,
            rows: None,
            nodes: None,
            changes: None,
            refusal: None,
            sent: false,
            released: false,
            gone: false,
            reads: true,
            waiting: 0,
            end: None,
            lines: Vec::new(),
            started: 0,
            input_open: false,
            next: BTreeMap::new(),
            decoder: Decoder::default(),
        }
    }

    pub(super) fn answer(&mut self, answer: &Answer) {
        assert!(!self.answered && !self.released, "answered twice: {answer:?}");
        self.answered = true;
        match answer {
            Answer::Job(job) => self.job = Some(*job),
            Answer::Jobs(rows) => self.rows = Some(rows.clone()),
            Answer::Nodes(rows) => self.nodes = Some(rows.clone()),
            Answer::Changes(changes) => self.changes = Some(Changes::clone(changes)),
            Answer::Refused(text) | Answer::Because(_, text) => self.refusal = Some(text.clone()),
            _ => {}
        }
    }

    /// Frames have come.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        assert!(!self.released, "frames behind the last");
        self.waiting += bytes.len();
        self.decoder.extend(bytes);
        while let Some((header, payload)) = self.decoder.next_frame().expect("frames of the wire") {
            let payload = &payload.to_vec();
            assert_eq!(self.end, None, "something behind the end");
            // From another node the answer comes as a frame among the others.
            if header.kind == Kind::Answer {
                self.answer(&read_answer(header, payload).expect("an answer"));
                continue;
            }
            if !self.answered {
                let waits = serde_json::from_slice(payload).is_ok_and(
                    |report| matches!(report, Report::Warning(text) if text.contains(" waits for the controller")),
                );
                assert!(waits && !std::mem::replace(&mut self.sent, true), "frames without an answer");
                continue;
            }
            match header.kind {
                Kind::Output => {
                    let text = String::from_utf8_lossy(payload);
                    let number: u64 = text.split(' ').next().unwrap().parse().expect("a whole frame");
                    // Who comes later has what is still kept.
                    let first = if self.runs { 0 } else { number };
                    let next = self.next.entry(header.rank).or_insert(first);
                    assert_eq!(number, *next, "output of rank {} of job {:?}", header.rank, self.job);
                    *next += 1;
                }
                Kind::Report => self.receive(serde_json::from_slice(payload).unwrap()),
                other => panic!("{other:?} to a front end"),
            }
        }
    }

    fn receive(&mut self, report: Report) {
        match report {
            Report::End { status } => self.end = Some(status),
            Report::Started { .. } => self.started += 1,
            Report::Refused(_) | Report::Warning(_) | Report::Ended(_) => self.lines.push(report),
            Report::InputTaken => self.input_open = true,
            _ => {}
        }
    }

    /// Lines of each rank that have come.
    pub(super) fn output(&self) -> &BTreeMap<u32, u64> {
        &self.next
    }
}

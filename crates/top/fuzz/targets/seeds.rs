//! Real bytes for the reader: answers of a daemon with keys in front.

use tutti_protocol::codec;
use tutti_protocol::users::watch::{Changes, Items, Since};

use crate::samples;

/// Keys, clicks and sizes: two bytes each.
const EVENTS: [&[u8]; 3] = [
    b"",
    b"\x00s\x00n\x022\x02\x00\x03\x05",
    b"\x001\x002\x003\x00/\x00j\x02\x00\x00r\x02\x06\x65\x05\x87\x50\x06\x01\x00?\x00k\x00y\x02\x0b",
];

/// One for each row of events.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut answers = samples::answers(10_000, [6000, 3000]);
    let items = Items {
        jobs: answers.jobs,
        places: std::mem::take(&mut answers.prices.places),
        nodes: answers.nodes,
        prices: Some(Box::new(answers.prices)),
        settings: None,
    };
    let changes =
        Changes { at: Since { epoch: 1, revision: 2 }, since: None, missed: 0, gone: Vec::new(), items };
    let changes = codec::encode(&changes);
    EVENTS.iter().map(|events| [&[(events.len() / 2) as u8], *events, &changes[..]].concat()).collect()
}

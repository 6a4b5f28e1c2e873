//! Real bytes for each of the readers, with the byte in front that selects it.

use tutti_protocol::codec;
use tutti_protocol::users::watch::{Changes, Items, Since};

use crate::samples;

/// One or more of each.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut answers = samples::answers(10_000, [6000, 3000]);
    answers.jobs[0].deadlock = Some("rank 0 receives from rank 1".into());
    answers.jobs[0].deadlock_cycle = vec![0, 1];
    let items = Items {
        jobs: answers.jobs,
        places: std::mem::take(&mut answers.prices.places),
        nodes: answers.nodes,
        prices: Some(Box::new(answers.prices)),
        settings: None,
    };
    let changes =
        Changes { at: Since { epoch: 1, revision: 2 }, since: None, missed: 0, gone: Vec::new(), items };
    let log = br#"{"ms":5,"event":"submitted","job":1,"uid":7,"ranks":2,"name":"a","text":"./x"}
{"ms":7,"event":"started","job":1,"nodes":["n0"]}
{"ms":9,"event":"over","job":1,"status":3,"cpu_us":5,"largest_bytes":6,"text":"why"}
{"ms":9,"event":"node-lost","nodes":["n0"]}
{"ms":9,"since_us":1,"clock_us":1,"lost":2,"turns":[["freeze",1,2,3,4],["thaw",1,2,3,4]]}"#;
    vec![
        [&[0], &codec::encode(&changes)[..]].concat(),
        [&[1], &serde_json::to_vec(&changes).expect("changes are serialisable")[..]].concat(),
        [&[2], &log[..]].concat(),
        b"\x03a\tb\r\nc\x1b[2J\xff\n\xe2\x80\xae".to_vec(),
    ]
}

//! Words of neighbours, and incarnations of a switch link as its neighbour would shape them.

use serde::Serialize;
use tutti_sched::{
    Down, Generation, JobId, Members, Membership, Mode, Moved, NodeId, Order, Part, Plan, Report, Slots,
    Stage, Switch, Version,
};

use super::SwitchMessage;

/// A step: what, how much, and the text that comes.
fn text(probes: bool, echo: u64, have: u64, first: u64, messages: &[&[u8]]) -> Vec<u8> {
    let mut text = vec![u8::from(probes)];
    let ack_delay_ns = 100_000_000;
    [echo, have, first, ack_delay_ns].iter().for_each(|number| text.extend_from_slice(&number.to_le_bytes()));
    for message in messages {
        text.extend_from_slice(&(message.len() as u16).to_le_bytes());
        text.extend_from_slice(message);
    }
    [&[2, text.len() as u8], &text[..]].concat()
}

/// Some of either.
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let messages = messages();
    let incarnations = incarnations_of(&messages);
    messages.into_iter().chain(incarnations).collect()
}

/// Every kind that goes down, and every kind that goes up.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let (job, generation, node) = (JobId(7), Generation(1_795_000_000_000_123), NodeId(31));
    let (version, slots) = (Version(4), Slots::first(8));
    let plan = Plan {
        version,
        rows: vec![vec![JobId(1), job], vec![], vec![JobId(u64::MAX)]],
        moved: vec![Moved { job, node, slots }],
    };
    let switch =
        Switch { version, row: 1, generation, at_ns: 0, mode: Mode::Overlapped, left_ns: 99_000_000 };
    let nobody = Switch { row: Switch::NOBODY, mode: Mode::Strict, ..switch };
    let members = Members { membership: Membership(9), lost: vec![NodeId(2), node], expelled: vec![] };
    let orders = [
        Order::Switch(switch),
        Order::Switch(nobody),
        Order::Save(job, generation),
        Order::Restore(job, generation),
        Order::Run(job, generation),
        Order::Kill(job),
        Order::Suspend(job, 3),
        Order::Resume(job, 4),
        Order::Members(members),
    ];
    let reports = [
        Report::Reached { job, stage: Stage::Frozen, generation, membership: Membership(9) },
        Report::Woken { job },
        Report::Late { node, job, stage: Stage::Suspended },
        Report::Here { node, generation },
        Report::ChildJoined { node },
    ];
    let mut messages = vec![
        bytes(&SwitchMessage::Sched(Down::Plan(plan))),
        bytes(&SwitchMessage::Slots(job, vec![Part { node, ranks: 2, slots, shared: false }])),
    ];
    messages.extend(orders.map(|order| bytes(&SwitchMessage::Sched(Down::Order(order)))));
    messages.extend(reports.map(|report| bytes(&report)));
    messages
}

fn bytes(message: &impl Serialize) -> Vec<u8> {
    tutti_protocol::codec::encode(message)
}

fn incarnations_of(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (push, pass, poll, link) = ([0, 20], [1, 10], [3, 0], [4, 1]);
    let opened = [&poll[..], &text(true, 1, 0, 0, &[])].concat();
    let received = messages.iter().zip(0..).map(|(message, first)| text(false, 1, 0, first, &[message]));
    vec![
        opened.clone(),
        [&opened[..], &received.collect::<Vec<_>>().concat()].concat(),
        [&opened[..], &push, &poll, &text(false, 2, 1, 0, &[b"switch"])].concat(),
        [&opened[..], &push, &push, &poll, &pass, &poll, &pass, &pass, &pass, &poll].concat(),
        [&opened[..], &text(false, 1, 0, 0, &[b"a", b"b"]), &text(false, 1, 0, 1, &[b"b", b"c"]), &poll]
            .concat(),
        [&opened[..], &link, &text(false, 1, 0, 1, &[b"next"]), &text(true, 9, 9, u64::MAX, &[b"", b""])]
            .concat(),
        [&push[..], &push, &pass, &poll, &text(true, 1, 2, 0, &[]), &[0, 255], &push, &poll].concat(),
    ]
}

//! The thread as its main loop has it: without a socket, so that all its words are there to be read.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tutti_os::cgroup::JobGroup;
use tutti_sched::{Down, Members, Membership, Order};
use tutti_testkit::{Scratch, await_that};

use super::*;
use crate::gang::command::{LocalRanks, NodeResources};
use crate::gang::switch_links::{Neighbour, SECRET_BYTES, SwitchMessage, decode_message, encode};
use crate::ids::LinkId;
use crate::message::JobId;
use tutti_sched::NodeId;

const PARENT: LinkId = LinkId(1);
const CHILD: LinkId = LinkId(2);

fn neighbour(link: LinkId, node: u32) -> Neighbour {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    Neighbour { link, node: NodeId(node), is_parent: link == PARENT, address, secret: [0; SECRET_BYTES] }
}

fn nodes(count: usize) -> Command {
    let resources = NodeResources { alive: true, slots: 1, memory_bytes: 0, gpus: 0 };
    Command::Members { me: NodeId(1), arity: 4, nodes: vec![resources; count] }
}

fn state_of_the_tree(number: u64) -> SwitchMessage {
    let members = Members { membership: Membership(number), ..Members::default() };
    SwitchMessage::Sched(Down::Order(Order::Members(members)))
}

/// Waits until the thread has said this to the child; says whether it did.
fn has_sent(switcher: &Switcher, expected: &SwitchMessage) -> bool {
    let until = Instant::now() + Duration::from_secs(40);
    while Instant::now() < until {
        while let Some((link, _, message)) = switcher.outbox().take() {
            if link == CHILD
                && decode_message(&message).is_some_and(|message: SwitchMessage| message == *expected)
            {
                return true;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

#[test]
fn switch_thread_early_child_gets_missed_messages() {
    let switcher = Switcher::start(&GangSettings::default(), false, None, None, |_| {}).unwrap();
    let from_above = |number: u64| {
        let message = encode(&state_of_the_tree(number), Vec::new());
        switcher.send(Command::Message(PARENT, number, message));
    };
    switcher.send(nodes(2));
    switcher.send(Command::OpenLink(neighbour(PARENT, 0)));
    from_above(1);
    switcher.send(Command::OpenLink(neighbour(CHILD, 5)));
    switcher.send(Command::ChildJoined(NodeId(5)));
    assert!(has_sent(&switcher, &state_of_the_tree(1)), "who comes is told what is in force");
    from_above(2);
    switcher.send(nodes(6));
    assert!(
        has_sent(&switcher, &state_of_the_tree(2)),
        "its reports would be of an old state of the tree for ever"
    );
}

/// A daemon that takes over a starter may hear of its end before the controller answers.
#[test]
fn switch_thread_lets_go_of_ranks_that_end_before_it_knows_its_node() {
    let scratch = Scratch::new("switch-thread-part");
    let file = scratch.path().join("cgroup.freeze");
    for name in ["cgroup.freeze", "cgroup.events"] {
        std::fs::write(scratch.path().join(name), "frozen 0\n").unwrap();
    }
    let is_open = || {
        let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|to| to == file)
    };
    let switcher = Switcher::start(&GangSettings::default(), false, None, None, |_| {}).unwrap();
    for end in [Command::PartEnded, Command::JobForgotten] {
        let group = JobGroup::new(std::fs::File::open(scratch.path()).unwrap().into()).unwrap();
        let ranks = LocalRanks { groups: vec![Arc::new(group)], ..LocalRanks::default() };
        switcher.send(Command::RanksStarted(JobId(7), Box::new(ranks)));
        await_that("the ranks can be frozen", is_open);
        switcher.send(end(JobId(7)));
        await_that("nothing of them is open", || !is_open());
    }
}

/// The clock was set back since an earlier controller has numbered its switches.
#[test]
fn switches_of_a_controller_are_numbered_behind_those_before_it() {
    let first = 1 << 60;
    let scheduler = scheduler(&GangSettings { first, ..GangSettings::default() }).unwrap();
    assert_eq!((scheduler.generation().0, scheduler.version().0), (first, first));
}

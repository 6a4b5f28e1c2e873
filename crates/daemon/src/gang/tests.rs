//! The thread as its main loop has it: without a socket, so that all its words are there to be read.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tutti_sched::{Down, Members, Membership, Order};

use super::lanes::{encode, read_word};
use super::*;

const PARENT: LinkId = LinkId(1);
const CHILD: LinkId = LinkId(2);

fn neighbour(link: LinkId, node: u32) -> Neighbour {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    Neighbour { link, node: NodeId(node), is_parent: link == PARENT, address, secret: [0; SECRET_BYTES] }
}

fn nodes(count: usize) -> Command {
    let seat = Seat { alive: true, slots: 1, memory_bytes: 0 };
    Command::Members { me: NodeId(1), arity: 4, nodes: vec![seat; count] }
}

fn state_of_the_tree(number: u64) -> Word {
    let members = Members { membership: Membership(number), ..Members::default() };
    Word::Sched(Down::Order(Order::Members(members)))
}

/// Waits until the thread has said this to the child; says whether it did.
fn says(switcher: &Switcher, expected: &Word) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        while let Some((link, _, word)) = switcher.words().take() {
            if link == CHILD && read_word(&word).is_some_and(|word: Word| word == *expected) {
                return true;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

#[test]
fn switch_thread_early_child_gets_missed_messages() {
    let switcher = Switcher::start(&Gangs::default(), false, None, |_| {}).unwrap();
    let from_above = |number: u64| {
        let word = encode(&state_of_the_tree(number), Vec::new());
        switcher.tell(Command::Word(PARENT, number, word));
    };
    switcher.tell(nodes(2));
    switcher.tell(Command::Open(neighbour(PARENT, 0)));
    from_above(1);
    switcher.tell(Command::Open(neighbour(CHILD, 5)));
    switcher.tell(Command::Greet(NodeId(5)));
    assert!(says(&switcher, &state_of_the_tree(1)), "who comes is told what is in force");
    from_above(2);
    switcher.tell(nodes(6));
    assert!(
        says(&switcher, &state_of_the_tree(2)),
        "its reports would be of an old state of the tree for ever"
    );
}

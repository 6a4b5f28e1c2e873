//! The rank that is not stepped: it lives in the test itself, and acts while the other stands still.

use tutti_channel::{Rank, Sink, Taken};
use tutti_runtime::job::Job;
use tutti_runtime::net::{Memory, Net};

use crate::nodes::Nodes;
use crate::records::{NoBulk, Plan};

/// Records under way from it at a time: so that it has some to send for as long as the other is stepped.
const UNDER_WAY_MAX: u32 = 3;

/// Rank 1.
pub(crate) struct OtherSide<'a> {
    plan: &'a Plan,
    net: Net,
    received: Received<'a>,
    /// Records that it has put into its FIFO.
    pub sent: u32,
    // Behind `net`, whose flow lies in its segment.
    _job: Job,
}

/// Records that the other rank has received: each is judged as it comes.
struct Received<'a> {
    expected: &'a [Vec<u8>],
    count: u32,
}

// SAFETY: it gives no place.
unsafe impl Memory for Received<'_> {}

impl Sink for Received<'_> {
    fn record(&mut self, from: Rank, record: &[u8]) -> Taken {
        assert_eq!(from, Rank(0));
        let expected = self.expected.get(self.count as usize).expect("one record too many");
        assert!(record == expected, "record {} is another, or not whole", self.count);
        self.count += 1;
        Taken::Yes
    }

    fn fragment(&mut self, _tag: u64, _offset: u64, _bytes: &[u8]) {
        panic!("no bulk message was accepted");
    }
}

impl<'a> OtherSide<'a> {
    pub(crate) fn new(nodes: &Nodes, plan: &'a Plan) -> Self {
        let (job, net) = nodes.enter(1);
        OtherSide { plan, net, received: Received { expected: &plan[0], count: 0 }, sent: 0, _job: job }
    }

    /// Records that it has received.
    pub(crate) fn received(&self) -> u32 {
        self.received.count
    }

    /// Takes what has arrived, and says nothing.
    pub(crate) fn receive(&mut self) {
        self.net.receive(&mut self.received);
    }

    /// Takes what has arrived, sends a record if few are under way, and sends what is to be sent.
    pub(crate) fn turn(&mut self, nodes: &Nodes, may_timers_fire: bool) {
        self.receive();
        if may_timers_fire {
            self.net.handle_timeout();
        }
        let under_way = self.sent - nodes.words(1).snd_una.0;
        if let Some(record) = self.plan[1].get(self.sent as usize)
            && under_way < UNDER_WAY_MAX
        {
            let (head, body) = record.split_at(record.len() / 3);
            self.net.try_send(0, head, body).expect("room for so few");
            self.sent += 1;
        }
        self.net.transmit(&mut NoBulk);
    }

    /// Whether all has been received, and all sent and acknowledged.
    pub(crate) fn is_finished(&self) -> bool {
        self.received() as usize == self.plan[0].len()
            && self.sent as usize == self.plan[1].len()
            && self.net.is_quiet()
    }
}

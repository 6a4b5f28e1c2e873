//! A barrier of all ranks by messages along a tree, which sums what each rank has sent and ended when it
//! came; pure.
//!
//! ```text
//! arrive, and Up of both children   -> Up to the parent; at the root: Down to the children, it is over
//! Down of the parent                -> Down to the children, it is over
//! ```
//!
//! A child that has said Up says nothing more before Down has come, so at most one message of each neighbour
//! is under way.

use crate::wire::Sums;

/// Message to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Send {
    /// To the parent.
    Up(usize, Sums),
    /// To all [`Meeting::children`]; the meeting is over.
    Down(Sums),
}

/// Part of this rank in the meetings of all.
#[derive(Debug)]
pub(crate) struct Meeting {
    me: usize,
    ranks: usize,
    has_arrived: bool,
    /// Children that have said Up for the meeting that this rank is in, or comes to next.
    risen: usize,
    sums: Sums,
    last: Sums,
}

impl Meeting {
    /// No meeting has begun.
    pub(crate) fn new(me: usize, ranks: usize) -> Self {
        let none = Sums::default();
        Meeting { me, ranks, has_arrived: false, risen: 0, sums: none, last: none }
    }

    /// Places of the children.
    pub(crate) fn children(&self) -> impl Iterator<Item = usize> + use<> {
        let ranks = self.ranks;
        (2 * self.me + 1..=2 * self.me + 2).filter(move |child| *child < ranks)
    }

    /// Whether this rank has come and the others have not all.
    pub(crate) fn is_under_way(&self) -> bool {
        self.has_arrived
    }

    /// The sums of the last meeting that is over.
    pub(crate) fn last(&self) -> Sums {
        self.last
    }

    /// Enters the meeting for this rank.
    pub(crate) fn arrive(&mut self, own: Sums) -> Option<Send> {
        self.has_arrived = true;
        self.add(own);
        self.rise()
    }

    /// A child says that all below it have come.
    pub(crate) fn handle_up(&mut self, from: usize, sums: Sums) -> Option<Send> {
        if !self.children().any(|child| child == from) {
            return None;
        }
        self.risen += 1;
        self.add(sums);
        self.rise()
    }

    /// The parent says that all have come.
    pub(crate) fn handle_down(&mut self, from: usize, sums: Sums) -> Option<Send> {
        let is_right = self.me > 0 && from == (self.me - 1) / 2 && self.has_arrived;
        is_right.then(|| self.end(sums))
    }

    fn add(&mut self, sums: Sums) {
        self.sums.sent = self.sums.sent.wrapping_add(sums.sent);
        self.sums.ended = self.sums.ended.wrapping_add(sums.ended);
    }

    fn rise(&mut self) -> Option<Send> {
        if !self.has_arrived || self.risen < self.children().count() {
            return None;
        }
        Some(match self.me {
            0 => self.end(self.sums),
            _ => Send::Up((self.me - 1) / 2, self.sums),
        })
    }

    fn end(&mut self, sums: Sums) -> Send {
        self.has_arrived = false;
        self.risen = 0;
        self.sums = Sums::default();
        self.last = sums;
        Send::Down(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of all pairs, each pair's in order.
    type Channels = Vec<(usize, usize, Send)>;

    fn apply(meetings: &[Meeting], me: usize, send: Option<Send>, under_way: &mut Channels) {
        match send {
            Some(Send::Up(to, _)) => under_way.extend(send.map(|send| (me, to, send))),
            Some(Send::Down(_)) => {
                under_way.extend(meetings[me].children().map(|to| (me, to, send.expect("it is there"))));
            }
            None => {}
        }
    }

    /// In orders drawn by seeds nobody leaves before all have come, and each gets the same sums.
    #[test]
    fn meetings_hold_all_until_the_last_has_come() {
        for seed in 1..60_u64 {
            let ranks = 1 + seed as usize % 9;
            let mut random = seed;
            let mut next = move |below: usize| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                (random >> 33) as usize % below
            };
            let mut meetings: Vec<_> = (0..ranks).map(|me| Meeting::new(me, ranks)).collect();
            let mut arrived = vec![0_u64; ranks];
            let mut under_way: Channels = Vec::new();
            let mut steps = 0;
            while arrived.iter().any(|count| *count < 20) || meetings.iter().any(Meeting::is_under_way) {
                steps += 1;
                assert!(steps < 1_000_000, "seed {seed}: it stands still");
                if under_way.is_empty() || next(2) == 0 {
                    let me = next(ranks);
                    if meetings[me].is_under_way() || arrived[me] == 20 {
                        continue;
                    }
                    arrived[me] += 1;
                    let sent = meetings[me].arrive(Sums { sent: arrived[me], ended: 1 });
                    apply(&meetings, me, sent, &mut under_way);
                } else {
                    let (from, to, send) = under_way.remove(next(under_way.len()));
                    let sent = match send {
                        Send::Up(_, sums) => meetings[to].handle_up(from, sums),
                        Send::Down(sums) => meetings[to].handle_down(from, sums),
                    };
                    apply(&meetings, to, sent, &mut under_way);
                }
                for (me, meeting) in meetings.iter().enumerate().filter(|(_, one)| !one.is_under_way()) {
                    let least = *arrived.iter().min().expect("ranks");
                    assert!(arrived[me] <= least, "seed {seed}: rank {me} has left early");
                    if arrived[me] > 0 {
                        let sums = Sums { sent: arrived[me] * ranks as u64, ended: ranks as u64 };
                        assert_eq!(meeting.last(), sums, "seed {seed}");
                    }
                }
            }
        }
    }

    #[test]
    fn meetings_ignore_messages_of_others() {
        let mut meeting = Meeting::new(1, 4);
        assert_eq!(meeting.handle_up(2, Sums::default()), None);
        assert_eq!(meeting.handle_down(0, Sums::default()), None);
        assert_eq!(meeting.arrive(Sums::default()), None);
        assert_eq!(meeting.handle_down(3, Sums::default()), None);
        assert!(meeting.is_under_way());
    }
}

//! Whom the main loop serves next: what users have sent waits here, each user's in its own order.
//!
//! ```text
//! put --> one queue for each user --take--> the user who has had least --charge: what it took-->
//! ```
//!
//! Start-time fair queueing by the time that serving has taken: while n users want to be served each has one
//! part in n of the loop, less one piece of each other user. Who comes back after a pause has saved nothing
//! up. Beside that a user has no more than [`Rules::permille`] of a core in the long run, and
//! [`Rules::burst_ns`] at once; beyond it only this user waits.
//!
//! How much waits is bounded by who puts: a connection reads on when its last piece has been served.

use std::collections::{BTreeMap, VecDeque};

/// How much of a core a user's pieces may take.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// In the long run, in thousandths of a core.
    pub permille: u64,
    /// At once, in ns.
    pub burst_ns: u64,
    /// User who is not bounded by it.
    pub owner: u32,
}

impl Rules {
    /// Of the main loop of a daemon.
    pub fn of_daemon(owner: u32) -> Self {
        Rules { permille: 200, burst_ns: 1_000_000_000, owner }
    }
}

#[derive(Debug)]
struct Line<T> {
    waiting: VecDeque<T>,
    /// Time that the user has had, counted as for one of those who want to be served.
    served_ns: u64,
    /// When all that it has had is paid for, by its part of a core.
    paid_ns: u64,
}

/// The queues of all users.
#[derive(Debug)]
pub struct FairQueue<T> {
    rules: Rules,
    lines: BTreeMap<u32, Line<T>>,
    /// Time that whoever was served last had had by then.
    served_ns: u64,
}

impl<T> FairQueue<T> {
    /// Without anything in it.
    pub fn new(rules: Rules) -> Self {
        FairQueue { rules, lines: BTreeMap::new(), served_ns: 0 }
    }

    /// A piece of a user's, behind the others of that user.
    pub fn put(&mut self, user: u32, piece: T) {
        let served_ns = self.served_ns;
        let line = self.lines.entry(user);
        let line = line.or_insert_with(|| Line { waiting: VecDeque::new(), served_ns, paid_ns: 0 });
        if line.waiting.is_empty() {
            line.served_ns = line.served_ns.max(served_ns);
        }
        line.waiting.push_back(piece);
    }

    /// The next piece, and whose it is. What it takes is to be [charged](Self::charge).
    pub fn take(&mut self, now_ns: u64) -> Option<(u32, T)> {
        let rules = self.rules;
        let may = |(user, line): &(&u32, &mut Line<T>)| {
            !line.waiting.is_empty() && line.may_from_ns(rules, **user) <= now_ns
        };
        let lines = self.lines.iter_mut().filter(may);
        let (user, line) = lines.min_by_key(|(_, line)| line.served_ns)?;
        self.served_ns = self.served_ns.max(line.served_ns);
        Some((*user, line.waiting.pop_front()?))
    }

    /// Charges the time that it took to serve a piece of this user's.
    pub fn charge(&mut self, now_ns: u64, user: u32, took_ns: u64) {
        let Some(line) = self.lines.get_mut(&user) else { return };
        line.served_ns = line.served_ns.saturating_add(took_ns);
        let price_ns = took_ns.saturating_mul(1000).div_ceil(self.rules.permille.max(1));
        line.paid_ns = line.paid_ns.max(now_ns).saturating_add(price_ns);
        if self.lines.values().all(|line| line.waiting.is_empty()) {
            // All are equal again.
            self.served_ns = self.lines.values().map(|line| line.served_ns).fold(self.served_ns, u64::max);
        }
        let served_ns = self.served_ns;
        self.lines.retain(|_, line| {
            !line.waiting.is_empty() || line.paid_ns > now_ns || line.served_ns > served_ns
        });
    }

    /// When [`Self::take`] gives something; none: nothing waits.
    pub fn timeout_ns(&self) -> Option<u64> {
        let waiting = self.lines.iter().filter(|(_, line)| !line.waiting.is_empty());
        waiting.map(|(user, line)| line.may_from_ns(self.rules, *user)).min()
    }
}

impl<T> Line<T> {
    fn may_from_ns(&self, rules: Rules, user: u32) -> u64 {
        if user == rules.owner {
            return 0;
        }
        self.paid_ns.saturating_sub(rules.burst_ns.saturating_mul(1000) / rules.permille.max(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    /// Without a bound of each user.
    fn unbounded() -> FairQueue<u64> {
        FairQueue::new(Rules { permille: 1000, burst_ns: u64::MAX / 2_000_000, owner: 0 })
    }

    /// The longest piece of an attacker's, in ns.
    const LONGEST_NS: u64 = 5 * MS;

    proptest! {
        /// n users' load changes an honest one's share of the daemon's time by at most her 1/n: while she
        /// wants to be served she has it, less one piece of each.
        #[test]
        fn fair_queue_gives_each_of_n_users_one_part_in_n(
            attacks in prop::collection::vec(prop::collection::vec(1..=LONGEST_NS, 1..60), 1..8),
            own_ns in 10_000..2 * MS,
            pieces in 5_usize..60,
        ) {
            let mut queue = unbounded();
            let users = attacks.len() as u64 + 1;
            // Each attacker puts back whatever was taken: there is always more of it.
            for (user, costs) in (1..).zip(&attacks) {
                costs.iter().for_each(|cost_ns| queue.put(user, *cost_ns));
            }
            let honest = 100;
            (0..pieces).for_each(|_| queue.put(honest, own_ns));
            let (mut now_ns, mut own) = (0, 0);
            while own < pieces {
                let (user, cost_ns) = queue.take(now_ns).expect("somebody waits");
                now_ns += cost_ns;
                queue.charge(now_ns, user, cost_ns);
                if user == honest {
                    own += 1;
                } else {
                    queue.put(user, cost_ns);
                }
                let had_ns = own as u64 * own_ns;
                let part_ns = now_ns / users;
                prop_assert!(had_ns + own_ns + 2 * LONGEST_NS >= part_ns, "{had_ns} of {part_ns} ns");
            }
        }

        /// A user who asks now and then is served at once, but for one piece of each other user.
        #[test]
        fn fair_queue_answers_who_asks_seldom(
            costs in prop::collection::vec(1..=LONGEST_NS, 1..8),
            pause_ns in MS..100 * MS,
        ) {
            let mut queue = unbounded();
            (1..).zip(&costs).for_each(|(user, cost_ns)| (0..3).for_each(|_| queue.put(user, *cost_ns)));
            let (honest, own_ns) = (100, 100_000);
            let (mut now_ns, mut asked_ns) = (0, None);
            let mut next_ns = pause_ns;
            for _ in 0..500 {
                if asked_ns.is_none() && now_ns >= next_ns {
                    asked_ns = Some(now_ns);
                    queue.put(honest, own_ns);
                }
                let (user, cost_ns) = queue.take(now_ns).expect("somebody waits");
                if user == honest {
                    let waited_ns = now_ns - asked_ns.take().expect("she has asked");
                    // Where pieces are long, users stand apart by one of them.
                    let most_ns = 2 * costs.iter().sum::<u64>() + LONGEST_NS;
                    prop_assert!(waited_ns <= most_ns, "{waited_ns} of {most_ns} ns");
                    next_ns = now_ns + pause_ns;
                } else {
                    queue.put(user, cost_ns);
                }
                now_ns += cost_ns;
                queue.charge(now_ns, user, cost_ns);
            }
        }

        /// A user has no more than its part of a core, however much it sends, and delays nobody meanwhile.
        #[test]
        fn fair_queue_bounds_a_users_part_of_a_core(cost_ns in 200_000..LONGEST_NS, permille in 50_u64..1000) {
            let burst_ns = 200 * MS;
            let mut queue = FairQueue::new(Rules { permille, burst_ns, owner: 0 });
            queue.put(1, cost_ns);
            let (mut now_ns, mut had_ns) = (0, 0);
            while now_ns < 2_000 * MS {
                match queue.take(now_ns) {
                    Some((user, cost_ns)) => {
                        now_ns += cost_ns;
                        had_ns += cost_ns;
                        queue.charge(now_ns, user, cost_ns);
                        queue.put(user, cost_ns);
                    }
                    None => {
                        let until_ns = queue.timeout_ns().expect("it waits");
                        prop_assert!(until_ns > now_ns);
                        queue.put(0, 7);
                        prop_assert_eq!(queue.take(now_ns), Some((0, 7)), "the owner does not wait");
                        now_ns = until_ns;
                    }
                }
                let most_ns = now_ns * permille / 1000 + burst_ns + 2 * cost_ns;
                prop_assert!(had_ns <= most_ns, "{had_ns} of {most_ns} ns");
            }
            prop_assert!(had_ns >= now_ns * permille / 1000 - cost_ns, "what it may have it gets");
        }
    }

    #[test]
    fn fair_queue_keeps_the_order_of_a_user_and_nothing_of_who_has_gone() {
        let mut queue = unbounded();
        (0..5).for_each(|at| queue.put(7, at));
        let taken: Vec<u64> = std::iter::from_fn(|| queue.take(0)).map(|(_, at)| at).collect();
        assert_eq!((taken, queue.timeout_ns()), (vec![0, 1, 2, 3, 4], None));
        queue.charge(10, 7, 1);
        queue.put(8, 0);
        assert_eq!(queue.take(MS), Some((8, 0)));
        queue.charge(100 * MS, 8, 1);
        assert_eq!(queue.lines.keys().collect::<Vec<_>>(), [&8], "what it has had is not paid for yet");
        queue.put(9, 0);
        assert_eq!(queue.take(200 * MS), Some((9, 0)));
        queue.charge(200 * MS, 9, 0);
        assert!(queue.lines.is_empty(), "{queue:?}");
    }
}

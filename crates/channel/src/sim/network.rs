//! The network: when a packet arrives, if it does.

use super::{Options, Random, Vanishing};
use crate::packet::SHORT_BYTES;

/// State of the network just now.
#[derive(Clone, Debug)]
pub(super) struct Network {
    loss_permille: u32,
    repeat_permille: u32,
    late_permille: u32,
    /// Which half each rank is in; packets do not cross.
    pub half: Vec<bool>,
    /// When it lets long packets vanish, and whether it does just now.
    vanishing: Vanishing,
    is_narrow: bool,
    pub lost: u64,
    pub repeated: u64,
}

/// When copies of a packet arrive, after how long.
pub(super) type Arrivals = [Option<u64>; 2];

impl Network {
    pub(super) fn new(options: &Options) -> Self {
        Network {
            loss_permille: options.loss_permille,
            repeat_permille: options.repeat_permille,
            late_permille: options.late_permille,
            half: vec![false; options.ranks],
            vanishing: options.vanishing,
            is_narrow: options.vanishing == Vanishing::Always,
            lost: 0,
            repeated: 0,
        }
    }

    /// One half.
    pub(super) fn join(&mut self) {
        self.half.fill(false);
    }

    /// Makes the network narrow or wide now and then, if it is one that changes.
    pub(super) fn change_width(&mut self, random: &mut Random) {
        if self.vanishing == Vanishing::AtTimes && random.chance(200) {
            self.is_narrow = !self.is_narrow;
        }
    }

    /// A network as one would like it, but for a little loss; one that has always been narrow stays so.
    pub(super) fn become_well(&mut self) {
        self.join();
        self.is_narrow = self.vanishing == Vanishing::Always;
        (self.loss_permille, self.repeat_permille, self.late_permille) = (self.loss_permille.min(20), 0, 0);
    }

    pub(super) fn arrivals(
        &mut self,
        random: &mut Random,
        (from, to): (usize, usize),
        bytes: usize,
    ) -> Arrivals {
        if self.is_narrow && bytes > SHORT_BYTES {
            self.lost += 1;
            return [None, None];
        }
        if self.half[from] != self.half[to] || random.chance(self.loss_permille.into()) {
            self.lost += 1;
            return [None, None];
        }
        let first = Some(self.delay_ns(random));
        if !random.chance(self.repeat_permille.into()) {
            return [first, None];
        }
        self.repeated += 1;
        [first, Some(self.delay_ns(random))]
    }

    fn delay_ns(&self, random: &mut Random) -> u64 {
        let usual = 20_000 + random.below(1000);
        if !random.chance(self.late_permille.into()) {
            return usual;
        }
        // Mostly overtaken by a few, now and then by very many.
        let most = if random.chance(50) { 200_000_000 } else { 500_000 };
        usual + random.below(most)
    }
}

//! Vector times: how many intervals of each node one knows of.

/// By node: the number of the last interval. Intervals are numbered from 1 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorTime(Vec<u32>);

impl VectorTime {
    /// The time before everything, of so many nodes.
    pub fn zero(nodes: usize) -> Self {
        VectorTime(vec![0; nodes])
    }

    /// A time from its entries.
    pub fn from_entries(entries: Vec<u32>) -> Self {
        VectorTime(entries)
    }

    /// Entries of the time.
    pub fn entries(&self) -> &[u32] {
        &self.0
    }

    /// The last interval of a node.
    pub fn of(&self, node: usize) -> u32 {
        self.0[node]
    }

    /// One more interval of a node is known.
    pub fn set(&mut self, node: usize, number: u32) {
        self.0[node] = number;
    }

    /// Whether everything of `other` is known.
    pub fn covers(&self, other: &VectorTime) -> bool {
        self.0.iter().zip(&other.0).all(|(own, other)| own >= other)
    }

    /// Everything of `other` is known too.
    pub fn join(&mut self, other: &VectorTime) {
        assert_eq!(self.0.len(), other.0.len(), "times of the same nodes");
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::VectorTime;

    #[test]
    fn vector_time_joins_by_entry() {
        let mut time = VectorTime::from_entries(vec![1, 5, 0]);
        let other = VectorTime::from_entries(vec![2, 3, 0]);
        assert!(!time.covers(&other) && !other.covers(&time));
        time.join(&other);
        assert_eq!(time.entries(), [2, 5, 0]);
        assert!(time.covers(&other));
    }
}

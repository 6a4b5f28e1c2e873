//! Which ranks of a job are on which of its nodes: consecutive ones are on one node.

/// Why ranks cannot be spread as they were to be. Each is one line for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpreadError {
    /// A node without a rank.
    #[error("{nodes} nodes are more than the {ranks} ranks of the job")]
    MoreThanRanks {
        /// Nodes asked for.
        nodes: u32,
        /// Ranks of the job.
        ranks: u64,
    },
    /// The ranks per node do not give that many nodes.
    #[error("{ranks} ranks, {per_node} on each node, are not {nodes} nodes")]
    PerNode {
        /// Nodes asked for.
        nodes: u32,
        /// Ranks of the job.
        ranks: u64,
        /// Ranks on each node.
        per_node: u32,
    },
}

/// World rank of each node's first rank: even shares, larger ones first; or a given number on each node.
///
/// # Errors
/// When a node would have no rank, or the ranks per node do not give that many nodes.
pub fn first_ranks(nodes: u32, ranks: u64, per_node: Option<u32>) -> Result<Vec<u32>, SpreadError> {
    if u64::from(nodes) > ranks {
        return Err(SpreadError::MoreThanRanks { nodes, ranks });
    }
    if let Some(per_node) = per_node {
        if ranks.div_ceil(u64::from(per_node.max(1))) != u64::from(nodes) {
            return Err(SpreadError::PerNode { nodes, ranks, per_node });
        }
        return Ok((0..nodes).map(|node| node * per_node).collect());
    }
    let (share, larger) = (ranks / u64::from(nodes), ranks % u64::from(nodes));
    Ok((0..u64::from(nodes)).map(|node| (node * share + node.min(larger)) as u32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_spread_evenly_in_order() {
        assert_eq!(first_ranks(2, 4, None), Ok(vec![0, 2]));
        assert_eq!(first_ranks(3, 8, None), Ok(vec![0, 3, 6]));
        assert_eq!(first_ranks(3, 3, None), Ok(vec![0, 1, 2]));
        assert_eq!(first_ranks(2, 5, Some(4)), Ok(vec![0, 4]));
        assert!(first_ranks(2, 9, Some(4)).is_err() && first_ranks(2, 4, Some(4)).is_err());
        for nodes in 1..9 {
            for ranks in u64::from(nodes)..40 {
                let mut firsts = first_ranks(nodes, ranks, None).unwrap();
                firsts.push(ranks as u32);
                let shares: Vec<u32> = firsts.windows(2).map(|two| two[1] - two[0]).collect();
                assert!(shares[0] - shares[shares.len() - 1] <= 1 && shares.is_sorted_by(|a, b| a >= b));
            }
        }
    }
}

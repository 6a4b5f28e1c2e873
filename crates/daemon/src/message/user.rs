//! Users of the cluster's nodes.

use serde::{Deserialize, Serialize};

/// A user, as the kernel tells who is at the other end of the local socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The account whose uid this is, where it is not an account of its own: that of a range of `/etc/subuid`
    /// or of a user namespace.
    #[serde(default)]
    pub owner: Option<Account>,
}

/// Account, whose shares, limits and counts are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Account {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl User {
    /// One that is an account of its own.
    #[must_use]
    pub const fn new(uid: u32, gid: u32) -> Self {
        User { uid, gid, owner: None }
    }

    /// Account whose shares, limits and counts its jobs have. What it may do, and as whom they run, its own
    /// uid says.
    #[must_use]
    pub fn account(&self) -> Account {
        self.owner.unwrap_or(Account { uid: self.uid, gid: self.gid })
    }
}

//! Log of what switch threads have done (`turns.jsonl`): for daemons, and for `tutti timeline`.

use serde::{Deserialize, Serialize};

/// Kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum TurnKind {
    /// SWITCH was executed here; no job.
    Switch,
    /// The job's freezer was written to; the time until the kernel reported frozen. 0: not waited for, and
    /// the next job on its cores ran at once.
    Freeze,
    /// The job's freezer was written to, so that it runs; the writing took so long.
    Thaw,
    /// On the controller: FROZEN of the job has come from all its nodes.
    Frozen,
    /// The same of SAVED (strict).
    Saved,
    /// The same of RESTORED (strict).
    Restored,
    /// SAVE was executed here (strict).
    Save,
    /// RESTORE was executed here (strict).
    Restore,
    /// The job was to be frozen and went on for so long, until no rank had a lock of a file.
    Unlock,
    /// The same, and it was frozen although a rank had one.
    Locked,
    /// The job ran for so long in the turn of another one, which waited for a service of it.
    Lent,
    /// The channels of the job's ranks here were found steady so long after these stood still (strict).
    Steady,
}

/// All of them, by number.
pub const KINDS: [TurnKind; 12] = [
    TurnKind::Switch,
    TurnKind::Freeze,
    TurnKind::Thaw,
    TurnKind::Frozen,
    TurnKind::Saved,
    TurnKind::Restored,
    TurnKind::Save,
    TurnKind::Restore,
    TurnKind::Unlock,
    TurnKind::Locked,
    TurnKind::Lent,
    TurnKind::Steady,
];

/// A stretch of a node's turns, for the log: the times are in us from `since_us` on, which is in us since
/// 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnBatch {
    /// Where the times begin.
    pub since_us: u64,
    /// The same by the node's monotonic clock: by it alone the turns of nodes of one machine are compared.
    #[serde(default)]
    pub clock_us: u64,
    /// Turns that were lost before these, for want of room.
    pub lost: u64,
    /// Kind, time, generation, job and duration of each.
    pub turns: Vec<(TurnKind, u64, u64, u64, u64)>,
}

//! Names that all commands share.

/// The name of the cluster, and of its only partition.
pub const CLUSTER: &str = "tutti";
/// The release of Slurm whose commands these are like. Open MPI's launcher asks more of newer ones.
pub const VERSION: &str = "slurm 22.05.8";
/// The name by which a job's script is started.
pub const SCRIPT_NAME: &str = "slurm_script";

/// Slurm's words about a cluster that there is not.
#[must_use]
pub fn no_cluster(name: &str) -> String {
    format!(
        "No cluster '{name}' known by database.\n'{name}' can't be reached now, or it is an invalid entry for \
         --cluster.  Use 'sacctmgr list clusters' to see available clusters."
    )
}

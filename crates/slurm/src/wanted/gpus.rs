//! Wishes for GPUs in Slurm's forms: of the whole job, of each node, of each task, and what follows from
//! them for each node.

use serde::{Deserialize, Serialize};

/// Numbers of GPUs as they were asked for; 0: not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpus {
    /// Of all nodes together (`--gpus`).
    #[serde(skip_serializing_if = "is_zero")]
    pub all: u32,
    /// Of each node (`--gpus-per-node`, `--gres=gpu:N`).
    #[serde(skip_serializing_if = "is_zero")]
    pub of_node: u32,
    /// Of each task (`--gpus-per-task`).
    #[serde(skip_serializing_if = "is_zero")]
    pub of_task: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Gpus {
    /// Takes the value of an option that wishes some.
    ///
    /// # Errors
    /// When it is wrong, or names what no node has; a text for the user.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "gres" => self.of_node = of_gres(value)?,
            "gpus" => self.all = count(name, value)?,
            "gpus-per-node" => self.of_node = count(name, value)?,
            _ => self.of_task = count(name, value)?,
        }
        Ok(())
    }

    /// Whether none was asked for.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Gpus::default()
    }

    /// GPUs on each of so many nodes, for so many tasks in all.
    ///
    /// # Errors
    /// When they are not as many on each; a text for the user.
    pub fn on_node(&self, nodes: u32, tasks: u32) -> Result<u32, String> {
        let of_tasks = self.of_task.saturating_mul(tasks.div_ceil(nodes.max(1)));
        let wished = self.of_node.max(of_tasks);
        if self.all == 0 || wished > 0 && wished.saturating_mul(nodes) == self.all {
            return Ok(wished);
        }
        if wished > 0 || !self.all.is_multiple_of(nodes.max(1)) {
            return Err(format!(
                "Requested node configuration is not available: --gpus={} are not as many on each of {nodes} nodes; \
                 --gpus-per-node says how many",
                self.all
            ));
        }
        Ok(self.all / nodes.max(1))
    }
}

/// `N` or `gpu:N`; a type names GPUs that no node has.
fn count(name: &str, value: &str) -> Result<u32, String> {
    match value.rsplit_once(':') {
        None => value.parse().map_err(|_| format!("Invalid --{name} specification: {value}")),
        Some(_) => Err(format!("--{name}={value}: GPUs are counted without their types: say how many")),
    }
}

/// `gpu`, `gpu:N`, `none`.
fn of_gres(value: &str) -> Result<u32, String> {
    let value = value.strip_prefix("gres:").unwrap_or(value);
    if ["", "none", "0"].contains(&value) {
        return Ok(0);
    }
    match value.split(':').collect::<Vec<_>>()[..] {
        ["gpu"] => Ok(1),
        ["gpu", count] => count.parse().map_err(|_| {
            format!("Invalid generic resource (gres) specification: {value}: no node has this type")
        }),
        ["gpu", ..] => Err(format!(
            "Invalid generic resource (gres) specification: {value}: GPUs are counted without types"
        )),
        _ => Err(format!("Invalid generic resource (gres) specification: {value}: no node has any but gpu")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(options: &[(&str, &str)]) -> Result<Gpus, String> {
        let mut gpus = Gpus::default();
        options.iter().try_for_each(|(name, value)| gpus.set(name, value))?;
        Ok(gpus)
    }

    #[test]
    fn gpus_of_a_node_follow_from_each_way_to_ask() {
        let on_node = |options, nodes, tasks| wish(options).unwrap().on_node(nodes, tasks);
        for (options, nodes, tasks, count) in [
            (&[("gres", "gpu:2")][..], 3, 3, 2),
            (&[("gres", "gpu")], 1, 1, 1),
            (&[("gres", "none")], 1, 1, 0),
            (&[("gpus", "4")], 2, 2, 2),
            (&[("gpus-per-node", "3")], 2, 8, 3),
            (&[("gpus-per-task", "1")], 2, 8, 4),
            (&[("gpus-per-task", "1"), ("gpus", "8")], 2, 8, 4),
            (&[], 2, 8, 0),
        ] {
            assert_eq!(on_node(options, nodes, tasks), Ok(count), "{options:?}");
        }
        assert!(on_node(&[("gpus", "3")], 2, 2).unwrap_err().contains("--gpus=3"));
        assert!(on_node(&[("gpus", "4"), ("gpus-per-node", "1")], 2, 2).is_err());
    }

    #[test]
    fn what_is_no_count_of_gpus_is_refused() {
        for (name, value) in [
            ("gres", "gpu:a100:2"),
            ("gres", "fpga:1"),
            ("gres", "gpu:a100"),
            ("gpus", "a100:2"),
            ("gpus", "x"),
        ] {
            let error = wish(&[(name, value)]).unwrap_err();
            assert!(error.contains(value) && !error.contains('\n'), "{error}");
        }
    }
}

//! The Slurm around this process, as its environment says it. The stand-ins for Slurm's commands set the same
//! variables and a mark of their own: here alone is decided which of the two it is.
//!
//! Whoever wants to know goes through [`variable`]: launchers, daemons, and [`crate::cgroup`], which makes
//! no groups below a step of Slurm. What is in such a group outlives `scancel`.

/// Variable that jobs of the stand-ins have beside those that Slurm sets. Only the stand-ins read its value.
pub const STAND_IN: &str = "TUTTI_SLURM";

/// Value of a variable that a real Slurm has set; none: it is not set, is empty, or is that of a stand-in.
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    variable_of(&|name| std::env::var(name).ok(), name)
}

/// The same of an environment that is looked up by a function.
pub fn variable_of(look_up: &impl Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    let value = |name: &str| look_up(name).filter(|value| !value.is_empty());
    if value(STAND_IN).is_some() { None } else { value(name) }
}

/// Number of the job of a real Slurm that this process is in.
#[must_use]
pub fn job() -> Option<String> {
    let number = variable("SLURM_JOB_ID").or_else(|| variable("SLURM_JOBID"))?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_variable_of_a_stand_in_is_none() {
        let real = |name: &str| (name == "SLURM_JOB_ID").then(|| "7".to_owned());
        assert_eq!(variable_of(&real, "SLURM_JOB_ID").as_deref(), Some("7"));
        assert_eq!(variable_of(&real, "SLURM_NTASKS"), None);
        let stand_in = |name: &str| real(name).or_else(|| (name == STAND_IN).then(|| "{}".to_owned()));
        assert_eq!(variable_of(&stand_in, "SLURM_JOB_ID"), None);
        let left_over = |name: &str| real(name).or_else(|| (name == STAND_IN).then(String::new));
        assert_eq!(variable_of(&left_over, "SLURM_JOB_ID").as_deref(), Some("7"));
    }
}

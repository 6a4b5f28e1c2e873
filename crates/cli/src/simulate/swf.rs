//! Workload logs in the Standard Workload Format, version 2.2: 18 numbers a line, -1 where nothing is known;
//! lines that begin with `;` are remarks.

use std::collections::BTreeMap;

use tutti_sched::replay::Job;

/// Bytes of a log, at most.
pub const BYTES_MAX: u64 = 1 << 30;
/// Times beyond this are no times of a log, in s: a hundred years.
const SECONDS_MAX: f64 = 3.2e9;
const SECOND: f64 = 1e9;

/// Content of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// Jobs in the order of their submission.
    pub jobs: Vec<Job>,
    /// Why lines were left out, and how many; with the first of them.
    pub left_out: BTreeMap<&'static str, (u64, usize)>,
    /// Jobs whose user has named no time.
    pub without_estimate: u64,
    /// Of each job whether its time of processors is known, as the jobs stand.
    pub idle_known: Vec<bool>,
    /// The first line is not the first submission: by how much all were moved, in s.
    pub begins_s: u64,
}

impl Log {
    /// Reads a log; processors count as nodes of one slot.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let mut log = Log::default();
        for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = String::from_utf8_lossy(line);
            let line = line.trim();
            if line.is_empty() || line.starts_with(';') {
                continue;
            }
            match log.job(line) {
                Ok(job) => log.jobs.push(job),
                Err(why) => log.left_out.entry(why).or_insert((0, at + 1)).0 += 1,
            }
        }
        let mut jobs: Vec<(Job, bool)> = log.jobs.into_iter().zip(log.idle_known).collect();
        jobs.sort_by_key(|(job, _)| job.submit_ns);
        (log.jobs, log.idle_known) = jobs.into_iter().unzip();
        let first_ns = log.jobs.first().map_or(0, |job| job.submit_ns);
        log.begins_s = first_ns / SECOND as u64;
        log.jobs.iter_mut().for_each(|job| job.submit_ns -= first_ns);
        log
    }

    fn job(&mut self, line: &str) -> Result<Job, &'static str> {
        let mut fields = [-1.0; 18];
        let mut count = 0;
        for (field, text) in fields.iter_mut().zip(line.split_ascii_whitespace()) {
            *field = text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or("not all numbers")?;
            count += 1;
        }
        // Some logs leave out what follows the time that was asked for.
        if count < 9 {
            return Err("fewer than 9 fields");
        }
        let [_, submit_s, _, run_s, allocated, cpu_s, _, requested, estimate_s, ..] = fields;
        if submit_s < 0.0 {
            return Err("a submission before the log begins");
        }
        if run_s <= 0.0 {
            return Err("no run time, or a negative one");
        }
        if submit_s > SECONDS_MAX || run_s > SECONDS_MAX {
            return Err("a time of more than a hundred years");
        }
        let nodes = if allocated > 0.0 { allocated } else { requested };
        if nodes < 1.0 || nodes > f64::from(u32::MAX) {
            return Err("no processors, or too many");
        }
        let is_known = estimate_s > 0.0 && estimate_s <= SECONDS_MAX;
        self.without_estimate += u64::from(!is_known);
        let ns = |seconds: f64| (seconds * SECOND) as u64;
        let estimate_ns = if is_known { ns(estimate_s).max(ns(run_s)) } else { ns(run_s) };
        // Some logs have the time of all processors here.
        let is_counted = cpu_s > 0.0 && cpu_s <= run_s;
        self.idle_known.push(is_counted);
        let idle_permille = if is_counted { ((1.0 - cpu_s / run_s) * 1000.0) as u32 } else { 0 };
        let (submit_ns, run_ns, nodes) = (ns(submit_s), ns(run_s).max(1), nodes as u32);
        Ok(Job { submit_ns, run_ns, estimate_ns, nodes, idle_permille })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "; MaxProcs: 8\n1 100 -1 60 4 -1 -1 4 120 -1 1 1 1 -1 1 -1 -1 -1\n\
                         2 90 0 30 -1 -1 -1 2 -1 -1 1 1 1 -1 1 -1 -1 -1\n";

    #[test]
    fn workload_log_is_read_in_the_order_of_submission() {
        let log = Log::read(LINES.as_bytes());
        assert_eq!((log.jobs.len(), log.without_estimate, log.begins_s), (2, 1, 90));
        assert_eq!(
            log.jobs[0],
            Job {
                submit_ns: 0,
                run_ns: 30_000_000_000,
                estimate_ns: 30_000_000_000,
                nodes: 2,
                idle_permille: 0
            }
        );
        assert_eq!(log.jobs[1].estimate_ns, 120_000_000_000);
        assert_eq!(log.idle_known, [false, false]);
        let log = Log::read(b"1 9 -1 60 4 45 -1 4 120\n2 1 -1 60 4 240 -1 4 120\n");
        assert_eq!(log.idle_known, [false, true], "of 60 s no processor can have had 240");
        assert_eq!(log.jobs[1].idle_permille, 250);
    }

    #[test]
    fn workload_log_mistakes_are_counted_by_their_reason() {
        let text = "1 2 3\nx y z 1 2 3 4 5 6 7\n1 -5 0 10 1 -1 -1 1 10\n1 0 0 -3 1 -1 -1 1 10\n1 0 0 5 0 -1 -1 -1 10\n\
                    1 0 0 0 1 -1 -1 1 10\n1 0 0 1e300 1 -1 -1 1 10\n1 0 0 nan 1 1 1 1 1\n";
        let log = Log::read(text.as_bytes());
        assert!(log.jobs.is_empty());
        assert_eq!(log.left_out["no run time, or a negative one"], (2, 4));
        assert_eq!(log.left_out["not all numbers"], (2, 2));
        assert_eq!(log.left_out.values().map(|(count, _)| count).sum::<u64>(), 8);
        assert_eq!(Log::read(b""), Log::default());
    }

    #[test]
    fn workload_log_takes_any_bytes() {
        let mut seed = 3_u64;
        for _ in 0..3000 {
            let mut bytes = LINES.as_bytes().to_vec();
            for _ in 0..8 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (seed >> 33) as usize % bytes.len();
                match seed >> 60 {
                    0..8 => bytes[at] = (seed >> 20) as u8,
                    8..12 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"0-9e;. \n\xff"[(seed >> 40) as usize % 9]),
                }
            }
            let log = Log::read(&bytes);
            assert!(
                log.jobs.is_sorted_by_key(|job| job.submit_ns) && log.jobs.iter().all(|job| job.run_ns > 0)
            );
        }
    }
}

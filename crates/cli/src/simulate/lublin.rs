//! Workloads after the model of Lublin and Feitelson (2003): sizes of jobs from a uniform distribution of two
//! parts over their logarithm, run times from two gamma distributions that depend on the size, times between
//! arrivals from another. The cycle of the day is left out, and arrivals are spread so that the load is what
//! was asked for.

use tutti_sched::replay::Job;

/// Part of jobs with one processor.
const SERIAL: f64 = 0.244;
/// Part of the others whose size is a power of two.
const POWER_OF_TWO: f64 = 0.576;
/// Least logarithm of a size, and the part of jobs below the knee, which lies so far below the largest.
const LOW: f64 = 0.8;
const KNEE: f64 = 2.5;
const BELOW_KNEE: f64 = 0.86;
/// Logarithms of run times: two gamma distributions (shape, scale), and the part of the first by size.
const SHORT: (f64, f64) = (4.2, 0.94);
const LONG: (f64, f64) = (312.0, 0.03);
const SHORT_PART: (f64, f64) = (-0.0054, 0.78);
/// Logarithms of times between arrivals.
const ARRIVALS: (f64, f64) = (10.23, 0.4871);
/// A longer run time is cut, in s: three days.
const RUN_S_MAX: f64 = 259_200.0;

/// Makes so many jobs for so many nodes, with this part of the nodes' time asked for.
#[must_use]
pub fn jobs(count: usize, nodes: u32, load: f64, seed: u64) -> Vec<Job> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut raw: Vec<(f64, f64, u32)> = Vec::with_capacity(count);
    let mut at_s = 0.0;
    for _ in 0..count {
        let size = random.size(nodes);
        let part = (SHORT_PART.0 * f64::from(size) + SHORT_PART.1).clamp(0.0, 1.0);
        let shape = if random.unit() < part { SHORT } else { LONG };
        let run_s = random.gamma(shape).exp().clamp(1.0, RUN_S_MAX);
        raw.push((at_s, run_s, size));
        at_s += random.gamma(ARRIVALS).exp();
    }
    let work: f64 = raw.iter().map(|(_, run_s, size)| run_s * f64::from(*size)).sum();
    let span_s = work / (f64::from(nodes) * load);
    let stretch = if at_s > 0.0 { span_s / at_s } else { 1.0 };
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    raw.into_iter()
        .map(|(at_s, run_s, nodes)| {
            let run_ns = ns(run_s);
            Job { submit_ns: ns(at_s * stretch), run_ns, estimate_ns: run_ns, nodes, idle_permille: 0 }
        })
        .collect()
}

struct Random(u64);

impl Random {
    /// From 0 to below 1.
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn size(&mut self, nodes: u32) -> u32 {
        let high = f64::from(nodes).log2();
        if nodes <= 1 || self.unit() < SERIAL {
            return 1;
        }
        let knee = (high - KNEE).max(LOW);
        let (low, high) = if self.unit() < BELOW_KNEE { (LOW, knee) } else { (knee, high.max(knee)) };
        let mut size = low + self.unit() * (high - low);
        if self.unit() < POWER_OF_TWO {
            size = size.round();
        }
        (size.exp2().round() as u32).clamp(1, nodes)
    }

    /// Marsaglia and Tsang, for shapes of at least 1.
    fn gamma(&mut self, (shape, scale): (f64, f64)) -> f64 {
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x =
                (-2.0 * self.unit().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.unit().max(1e-300).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v * scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lublin_model_has_its_load_and_sizes() {
        let found = jobs(5000, 256, 0.7, 1);
        let work: f64 = found.iter().map(|job| job.run_ns as f64 * f64::from(job.nodes)).sum();
        let span = found.last().unwrap().submit_ns as f64;
        let load = work / (span * 256.0);
        assert!((0.65..0.75).contains(&load), "{load}");
        let serial = found.iter().filter(|job| job.nodes == 1).count() as f64 / 5000.0;
        assert!((0.2..0.32).contains(&serial), "{serial}");
        assert!(found.iter().all(|job| (1..=256).contains(&job.nodes) && job.run_ns > 0));
        assert_eq!(jobs(100, 256, 0.7, 5), jobs(100, 256, 0.7, 5), "a seed is a workload");
    }

    #[test]
    fn lublin_gamma_has_its_mean() {
        let mut random = Random(99);
        let sum: f64 = (0..20_000).map(|_| random.gamma(LONG)).sum();
        assert!((sum / 20_000.0 - 9.36).abs() < 0.05, "{sum}");
    }
}

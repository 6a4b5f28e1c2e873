//! Sets of cores: as the kernel wants them, and as people write them (`0-3,8`).

use rustix::thread::CpuSet;

/// The set as the kernel wants it.
pub fn mask_of(cores: &[usize]) -> CpuSet {
    let mut mask = CpuSet::new();
    cores.iter().for_each(|core| mask.set(*core));
    mask
}

/// The set as people write it: `0-3,8`.
pub fn format(cores: &[usize]) -> String {
    let mut cores = cores.to_vec();
    cores.sort_unstable();
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => parts.push((core, core)),
        }
    }
    let text = |(first, last): (usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// Reads a list such as `0-3,8`; what is not one is left out.
pub fn parse(text: &str) -> Vec<usize> {
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>())
            && last < CpuSet::MAX_CPU
        {
            cores.extend(first..=last);
        }
    }
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_list_round_trips() {
        assert_eq!(format(&[3, 0, 1, 8]), "0-1,3,8");
        assert_eq!(parse("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(parse("x,1-99999999,2"), [2]);
    }
}

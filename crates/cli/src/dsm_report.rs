//! `tutti dsm-report`: which lines of a program with shared memory have caused traffic, from the reports that
//! its ranks have left (`TUTTI_DSM_REPORT`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use addr2line::Loader;
use tutti_os::stderr::escape_control;

use crate::stdout;

/// The first line of a report that is understood here.
const HEAD: &str = "tutti-dsm-report 2";
/// Beginning of the names of reports.
const PREFIX: &str = "tutti-dsm.";
/// Bytes of a page of shared memory.
const PAGE_BYTES: u64 = 4096;

/// Bytes of a report, at most.
const REPORT_BYTES_MAX: u64 = 64 << 20;
/// Reports that are read, and bytes of all of them, at most.
const REPORTS_MAX: usize = 1 << 16;
const BYTES_MAX: u64 = 1 << 30;
/// Letters of a line that is none, in a message.
const SHOWN_MAX: usize = 80;

/// Arguments of `tutti dsm-report`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Where the ranks have left their reports (TUTTI_DSM_REPORT)
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// For scripts
    #[arg(long)]
    json: bool,
    /// The line of a place in the program FOLDER, for the library
    #[arg(long, hide = true, value_parser = place)]
    at: Option<u64>,
}

fn place(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").ok_or("a number with 0x is expected")?;
    u64::from_str_radix(digits, 16).map_err(|error| error.to_string())
}

/// Costs of a line of the program, of all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
struct Costs {
    misses: u64,
    pages: u64,
    stores: u64,
    copies: u64,
    sent_bytes: u64,
}

impl Costs {
    fn add(&mut self, other: Costs) {
        self.misses += other.misses;
        self.pages += other.pages;
        self.stores += other.stores;
        self.copies += other.copies;
        self.sent_bytes += other.sent_bytes;
    }

    /// Bytes that have moved for it.
    fn bytes(&self) -> u64 {
        self.pages * PAGE_BYTES + self.sent_bytes
    }
}

/// An instruction as a report has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Site<'a> {
    file: &'a str,
    base: u64,
    address: u64,
    costs: Costs,
}

/// Updates of marked memory, from homes to copies, of all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
struct Updates {
    records: u64,
    bytes: u64,
    taken: u64,
}

impl Updates {
    /// The counts of a line of a report, if it has them.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("updates ")?.split(' ').map(|word| word.parse().ok());
        let [records, bytes, taken] = [words.next()??, words.next()??, words.next()??];
        words.next().is_none().then_some(Updates { records, bytes, taken })
    }

    fn add(&mut self, other: Updates) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.taken += other.taken;
    }
}

/// Prints the report.
///
/// # Errors
/// When there is no report, or one that cannot be read; a text for the user.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    let mut lines = Lines::default();
    if let Some(offset) = options.at {
        let file = options.folder.to_str().ok_or("the name is no text")?;
        // A program at a fixed address was loaded where its file says.
        let base = 0x40_0000;
        let site = Site { file, base, address: base + offset, costs: Costs::default() };
        return Ok(stdout::print(Some(lines.name(&site) + "\n"), ""));
    }
    let reports = read(&options.folder)?;
    for (path, text) in &reports {
        let wrong = |line: &str| format!("{}: no line of a report: {:?}", path.display(), cut(line));
        for line in text.lines().skip(2) {
            if let Some(updates) = Updates::parse(line) {
                lines.updates.add(updates);
                continue;
            }
            let site = parse(line).ok_or_else(|| wrong(line))?;
            lines.add(&site);
        }
    }
    let text = if options.json { lines.json() } else { lines.table(reports.len()) };
    Ok(stdout::print(Some(text), ""))
}

/// The reports of a folder, by name.
fn read(folder: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let fail = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let entries = std::fs::read_dir(folder).map_err(|error| fail(folder, error))?;
    let is_report = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.strip_prefix(PREFIX).is_some_and(|rank| rank.parse::<u32>().is_ok())
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(is_report)
        .take(REPORTS_MAX + 1)
        .collect();
    paths.sort();
    if paths.is_empty() {
        return Err(format!(
            "{} has no report ({PREFIX}0 ...): run the program with TUTTI_DSM_REPORT={}",
            folder.display(),
            folder.display()
        ));
    }
    let too_much = || format!("{} has more reports than a job leaves", folder.display());
    if paths.len() > REPORTS_MAX {
        return Err(too_much());
    }
    let mut left_bytes = BYTES_MAX;
    let with_text = |path: PathBuf| {
        let bytes = tutti_os::read_file(&path, REPORT_BYTES_MAX).map_err(|error| fail(&path, error))?;
        left_bytes = left_bytes.checked_sub(bytes.len() as u64).ok_or_else(too_much)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match text.lines().next() {
            Some(HEAD) => Ok((path, text)),
            found => Err(format!(
                "{} begins with {:?}, where {HEAD:?} is expected: it is of another version",
                path.display(),
                cut(found.unwrap_or_default())
            )),
        }
    };
    paths.into_iter().map(with_text).collect()
}

/// The beginning of a line, which may have no end.
fn cut(line: &str) -> String {
    line.chars().take(SHOWN_MAX).collect()
}

fn parse(line: &str) -> Option<Site<'_>> {
    let mut words = line.splitn(9, ' ');
    if words.next()? != "site" {
        return None;
    }
    let mut address = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (base, address) = (address()?, address()?);
    let mut count = || words.next()?.parse().ok();
    let costs =
        Costs { misses: count()?, pages: count()?, stores: count()?, copies: count()?, sent_bytes: count()? };
    Some(Site { file: words.next()?, base, address, costs })
}

/// The debug lines of a file, and whether it is at a fixed address. A report names any file, and this one
/// says which others are opened and how much memory it takes: for root it must be root's.
fn open(path: &str) -> Option<(Loader, bool)> {
    let (file, found) = tutti_os::open_with_facts(Path::new(path)).ok()?;
    let is_root = rustix::process::geteuid().is_root();
    if is_root && found.uid() != 0 {
        return None;
    }
    let mut kind = [0];
    file.read_exact_at(&mut kind, 16).ok()?;
    // Whoever may change the name meanwhile would have another one opened.
    let opened = is_root.then(|| format!("/proc/self/fd/{}", file.as_raw_fd()));
    Some((Loader::new(opened.as_deref().unwrap_or(path)).ok()?, kind == [2]))
}

/// Lines of the program with their costs, and the debug lines of its files.
#[derive(Default)]
struct Lines {
    costs: BTreeMap<String, Costs>,
    updates: Updates,
    files: BTreeMap<String, Option<(Loader, bool)>>,
}

impl Lines {
    fn add(&mut self, site: &Site<'_>) {
        let name = self.name(site);
        self.costs.entry(name).or_default().add(site.costs);
    }

    /// "lu.c:212 daxpy", or what is known.
    fn name(&mut self, site: &Site<'_>) -> String {
        let offset = site.address.wrapping_sub(site.base);
        let short = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let unknown = escape_control(&format!("{}+{offset:#x}", short(site.file)));
        let Some((loader, is_fixed)) =
            self.files.entry(site.file.to_owned()).or_insert_with(|| open(site.file))
        else {
            return unknown;
        };
        let address = if *is_fixed { site.address } else { offset };
        let function = loader.find_symbol(address).unwrap_or_default();
        let location = loader.find_location(address).ok().flatten();
        let name = match location.and_then(|location| Some((location.file?, location.line?))) {
            Some((file, line)) => format!("{}:{line} {function}", short(file)).trim_end().to_owned(),
            None if function.is_empty() => return unknown,
            None => format!("{function} ({unknown})"),
        };
        escape_control(&name)
    }

    /// Most costly lines first.
    fn sorted(&self) -> Vec<(&str, Costs)> {
        let mut lines: Vec<_> = self.costs.iter().map(|(name, costs)| (name.as_str(), *costs)).collect();
        lines.sort_by_key(|(_, costs)| std::cmp::Reverse((costs.bytes(), costs.stores)));
        lines
    }

    fn table(&self, ranks: usize) -> String {
        let lines = self.sorted();
        let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(4).max(4);
        let mut text = format!("shared memory of {ranks} ranks, by line\n");
        let mut row = |name: &str, columns: [String; 6]| {
            let [misses, pages, stores, copies, sent, bytes] = columns;
            let _ = writeln!(
                text,
                "{name:width$} {misses:>9} {pages:>9} {stores:>9} {copies:>9} {sent:>12} {bytes:>12}"
            );
        };
        row("LINE", ["MISSES", "PAGES", "STORES", "COPIES", "SENT", "BYTES"].map(str::to_owned));
        for (name, costs) in lines {
            let Costs { misses, pages, stores, copies, sent_bytes } = costs;
            row(
                name,
                [misses, pages, stores, copies, sent_bytes, costs.bytes()].map(|count| count.to_string()),
            );
        }
        let Updates { records, bytes, .. } = self.updates;
        if records > 0 {
            let _ = writeln!(text, "updates of marked memory: {bytes} bytes in {records} records to copies");
        }
        text
    }

    fn json(&self) -> String {
        let line = |(name, costs): (&str, Costs)| serde_json::json!({"line": name, "costs": costs});
        let lines: Vec<_> = self.sorted().into_iter().map(line).collect();
        format!("{}\n", serde_json::json!({"lines": lines, "updates": self.updates}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dsm_report_reads_what_ranks_write() {
        let site = parse("site 0x1000 0x1234 1 2 3 4 500 /a folder/lu").expect("a line");
        let costs = Costs { misses: 1, pages: 2, stores: 3, copies: 4, sent_bytes: 500 };
        assert_eq!(site, Site { file: "/a folder/lu", base: 0x1000, address: 0x1234, costs });
        assert_eq!(costs.bytes(), 2 * 4096 + 500);
        for wrong in ["", "site", "site 1 2 3", "site 0x1 0x2 1 2 3 4 x /f", "line 0x1 0x2 1 2 3 4 5 /f"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn dsm_report_adds_ranks_and_begins_with_what_costs_most() {
        let mut lines = Lines::default();
        for text in ["site 0x0 0x10 1 1 0 0 0 /none/a", "site 0x0 0x20 5 80 0 0 9 /none/b"] {
            let site = parse(text).expect("a line");
            lines.add(&site);
            lines.add(&site);
        }
        let table = lines.table(2);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert!(rows[0].starts_with("b+0x20") && rows[0].contains(" 10 "), "{table}");
        assert!(rows[1].starts_with("a+0x10") && rows[1].ends_with(" 8192"), "{table}");
        assert_eq!(rows.len(), 2, "nothing was updated: {table}");
        lines.updates.add(Updates::parse("updates 3 99 5").expect("counts"));
        assert!(lines.table(2).ends_with("updates of marked memory: 99 bytes in 3 records to copies\n"));
        assert!(["updates 1 2", "updates 1 2 x", "updates 1 2 3 4"].map(Updates::parse) == [None; 3]);
    }
}

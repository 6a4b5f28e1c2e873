//! A cluster of daemons on this machine that lives as long as a measurement, and what its controller has
//! logged. Of one on which something has failed the folder is kept.

use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::Value;

use crate::{
    child::{self, End, Ran, Running},
    mpis::{Kind, Places},
};

/// How the daemons are started.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Nodes, all on this machine.
    pub nodes: u32,
    /// Slots of each; none: all cores.
    pub slots: Option<u32>,
    /// In ms.
    pub slice_ms: u32,
    /// The paper's protocol.
    pub strict: bool,
    /// Switch although there is one job.
    pub force: bool,
    /// The switch thread may have real-time priority.
    pub real_time: bool,
}

/// As most measurements want it.
pub const PLAIN: Setting =
    Setting { nodes: 1, slots: None, slice_ms: 100, strict: false, force: false, real_time: true };

/// The daemons.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    bin: PathBuf,
    /// Whether the folder is kept, for something has failed.
    kept: Cell<bool>,
}

/// One entry of the log of turns: what, on which node, when in us, generation, job, how long in us.
#[derive(Clone, Debug)]
pub struct Turn {
    pub what: String,
    pub node: String,
    pub us: u64,
    pub generation: u64,
    pub job: u64,
    pub took_us: u64,
}

impl Cluster {
    /// Starts it.
    pub fn up(places: &Places, setting: &Setting) -> Result<Self, String> {
        Cluster::up_as(places, setting, "cluster")
    }

    /// The same beside others, which have other names. All of them end when one is dropped.
    pub fn up_as(places: &Places, setting: &Setting, name: &str) -> Result<Self, String> {
        let folder = places.target.join("bench-gang").join(name);
        let _ = fs::remove_dir_all(&folder);
        let cluster = Cluster { folder, bin: places.bin(Kind::Tutti), kept: Cell::new(true) };
        let mut command = if setting.real_time {
            cluster.tutti()
        } else {
            // Without the capability the kernel gives neither real-time nor a nice value below 0.
            let mut command = cluster.with_folder(Command::new("setpriv"));
            command.args(["--bounding-set=-sys_nice", "--inh-caps=-sys_nice"]).arg(cluster.bin.join("tutti"));
            command
        };
        command.args(["up", "--nodes", &setting.nodes.to_string(), "--slice", &setting.slice_ms.to_string()]);
        if let Some(slots) = setting.slots {
            command.args(["--slots", &slots.to_string()]);
        }
        let words = [("--strict", setting.strict), ("--force-switch", setting.force)];
        command.args(words.iter().filter(|(_, on)| *on).map(|(word, _)| word));
        // Loaded machines are slow, but alive.
        command.args(["--lost-after", "60"]);
        match child::start(&mut command)?.finish(Duration::from_secs(60)).end {
            End::Well if !setting.real_time && cluster.rung() == "real time" => {
                Err("the switch thread has real-time priority although it should not".into())
            }
            End::Well => {
                cluster.kept.set(false);
                Ok(cluster)
            }
            End::Timeout => Err("tutti up does not end".into()),
            End::Failed(why) => Err(format!("tutti up: {why}")),
        }
    }

    /// Name of the cluster.
    pub fn name(&self) -> &str {
        self.folder.file_name().and_then(|name| name.to_str()).unwrap_or("?")
    }

    /// How the switch thread is preferred, as the controller says.
    fn rung(&self) -> String {
        let log = fs::read_to_string(self.folder.join("node0.log")).unwrap_or_default();
        log.split("preferred by: ").nth(1).and_then(|rest| rest.lines().next()).unwrap_or("?").to_owned()
    }

    /// Starts a job.
    pub fn start(&self, nodes: u32, ranks: u32, program: &Path, args: &[String]) -> Result<Running, String> {
        self.start_with(&[], nodes, ranks, program, args)
    }

    /// The same with further options of `tutti run`.
    pub fn start_with(
        &self,
        options: &[&str],
        nodes: u32,
        ranks: u32,
        program: &Path,
        args: &[String],
    ) -> Result<Running, String> {
        let mut command = self.tutti();
        command.arg("run").args(options).args(["-N", &nodes.to_string(), "-n", &ranks.to_string()]);
        child::start(command.arg(program).args(args))
    }

    /// The output of a job of one rank a node; see [`Self::finish`].
    pub fn run(
        &self,
        nodes: u32,
        program: &Path,
        args: &[String],
        limit: Duration,
    ) -> Result<String, String> {
        self.finish(self.start(nodes, nodes, program, args)?, limit).map(|ran| ran.stdout)
    }

    /// Waits for a job. If it does not end well the folder is kept, with what the daemons said of a job that
    /// hung.
    pub fn finish(&self, running: Running, limit: Duration) -> Result<Ran, String> {
        let ran = running.finish_or(limit, || self.look());
        let why = match &ran.end {
            End::Well => return Ok(ran),
            End::Timeout => format!("over {} s", limit.as_secs()),
            End::Failed(why) => why.clone(),
        };
        self.kept.set(true);
        Err(why)
    }

    /// Writes down what the daemons say.
    fn look(&self) {
        let said = ["ps", "nodes"].map(|word| match child::start(self.tutti().arg(word)) {
            Ok(asked) => asked.finish(Duration::from_secs(10)).stdout,
            Err(why) => why,
        });
        let _ = fs::write(self.folder.join("hung.txt"), said.join("\n"));
    }

    /// Reads what has been logged of turns; waits until the nodes have said the last ones.
    pub fn turns(&self) -> Vec<Turn> {
        std::thread::sleep(Duration::from_millis(1300));
        let text = fs::read_to_string(self.folder.join("turns.jsonl")).unwrap_or_default();
        let mut turns: Vec<Turn> = text.lines().filter_map(stretch).flatten().collect();
        turns.sort_by_key(|turn| turn.us);
        turns
    }

    fn tutti(&self) -> Command {
        self.with_folder(Command::new(self.bin.join("tutti")))
    }

    fn with_folder(&self, mut command: Command) -> Command {
        command.env("TUTTI_DIR", &self.folder).env_remove("TUTTI_DAEMON");
        command
    }
}

fn stretch(line: &str) -> Option<Vec<Turn>> {
    let line: Value = serde_json::from_str(line).ok()?;
    let (node, since) = (line["node"].as_str()?, line["since_us"].as_u64()?);
    let turn = |turn: &Value| {
        Some(Turn {
            what: turn[0].as_str()?.to_owned(),
            node: node.to_owned(),
            us: since + turn[1].as_u64()?,
            generation: turn[2].as_u64()?,
            job: turn[3].as_u64()?,
            took_us: turn[4].as_u64()?,
        })
    };
    Some(line["turns"].as_array()?.iter().filter_map(turn).collect())
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Ok(down) = child::start(self.tutti().arg("down")) {
            let _ = down.finish(Duration::from_secs(20));
        }
        child::kill_descendants(&[]);
        if self.kept.get() {
            let at = (1..).map(|number| self.folder.with_extension(format!("failed-{number}")));
            let at = at.into_iter().find(|at| !at.exists()).expect("numbers do not end");
            if fs::rename(&self.folder, &at).is_ok() {
                eprintln!("\r\x1b[Kbench: what the daemons have left: {}", at.display());
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

//! A root of its own for packages: this machine's files with a layer above them that is gone with the test,
//! in namespaces of its own. Packages are installed there as on a machine of their own; the service manager
//! is a script (systemctl.sh) that does what the unit says.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tutti_testkit::{Need, has_command, skip};
use tutti_tests::{Ran, Scratch, run};

/// A command on a crowded machine; nothing takes a tenth of it on a free one.
const LIMIT: Duration = Duration::from_secs(60);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Where the scratch folder is inside.
pub(crate) const SHARED: &str = "/mnt";

/// Builds the root and becomes its first process, which ends with its standard input.
const SET_UP: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$SITE"
mkdir "$SITE/upper" "$SITE/work" "$SITE/root"
mount -t overlay -o "lowerdir=/,upperdir=$SITE/upper,workdir=$SITE/work" overlay "$SITE/root"
mount --bind "$SHARED_FROM" "$SITE/root/mnt"
cd "$SITE/root"
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind /sys sys
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ip link set lo up
mkdir run/systemd run/systemd/system run/lock
rm -f usr/sbin/policy-rc.d
install -m 755 "$MANAGER" usr/local/bin/systemctl
echo ready
exec chroot . sh -c 'while read -r line; do :; done'
"#;

/// See the module.
pub(crate) struct Root {
    first: Child,
    /// The first process, as it is seen outside.
    pid: u32,
    scratch: Scratch,
}

impl Root {
    /// A root; none, and the test is counted as skipped, where there can be none.
    #[track_caller]
    pub(crate) fn new(name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(Need::Root, "only root can install packages");
            return None;
        }
        let commands = [(Need::Dpkg, "dpkg"), (Need::Dpkg, "deb-systemd-helper"), (Need::Ip, "ip")];
        if !commands.into_iter().all(|(need, command)| has_command(need, command)) {
            return None;
        }
        let scratch = Scratch::new(name);
        let site = scratch.path().join("site");
        std::fs::create_dir(&site).expect("a folder");
        let mut first = Command::new("unshare");
        first.args(["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "bash", "-c"]);
        first.arg(SET_UP).env("SITE", &site).env("SHARED_FROM", scratch.path());
        first.env("MANAGER", tutti_tests::root().join("tests/package/systemctl.sh")).process_group(0);
        first.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut first = first.spawn().expect("unshare is there");
        let mut line = String::new();
        BufReader::new(first.stdout.take().expect("piped")).read_line(&mut line).expect("a pipe");
        if line != "ready\n" {
            let output = first.wait_with_output().expect("our child");
            skip(Need::MountNamespace, String::from_utf8_lossy(&output.stderr));
            return None;
        }
        let children = format!("/proc/{0}/task/{0}/children", first.id());
        let children = std::fs::read_to_string(children).expect("its child");
        let pid = children.trim().parse().expect("one child");
        Some(Root { first, pid, scratch })
    }

    /// The scratch folder, [`SHARED`] inside.
    pub(crate) fn shared(&self) -> &Path {
        self.scratch.path()
    }

    /// A command inside.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let pid = self.pid.to_string();
        command.args(["--target", &pid, "--mount", "--pid", "--net", "--ipc", "--uts", "--root", "--wdns=/"]);
        command.args(words).env_clear().env("PATH", PATH).env("HOME", "/root").env("LANG", "C.UTF-8");
        command
    }

    /// Runs a command inside to its end.
    #[track_caller]
    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        run(&mut self.command(words), LIMIT)
    }

    /// Runs a line of the shell inside, which must succeed; gives what it has printed.
    #[track_caller]
    pub(crate) fn sh(&self, line: &str) -> String {
        self.run(&["bash", "-c", line]).expect_success().stdout
    }

    /// Entries that the layer has and this machine has not, each with its kind, mode and target: all but the
    /// lists of the package manager, its logs, and folders that are there without the layer.
    #[track_caller]
    pub(crate) fn changes(&self) -> BTreeSet<String> {
        // The process that has made the namespaces sees the layer itself.
        let upper = PathBuf::from(format!("/proc/{}/root", self.first.id()))
            .join(self.shared().strip_prefix("/").expect("an absolute path"))
            .join("site/upper");
        let mut find = Command::new("find");
        find.arg(&upper).args(["-mindepth", "1", "-printf", "%y %m %l /%P\n"]);
        let found = run(&mut find, LIMIT).expect_success().stdout;
        let lists = ["/var/lib/dpkg/", "/var/log/", "/var/cache/"];
        let is_own = |path: &str| {
            let is_of_a_package = path.starts_with("/var/lib/dpkg/info/tutti")
                || path.starts_with("/var/lib/dpkg/alternatives/");
            !lists.iter().any(|list| path.starts_with(list)) || is_of_a_package
        };
        let is_change = |line: &&str| {
            let path = line.rsplit_once(" /").map_or(*line, |(_, path)| path);
            let path = format!("/{path}");
            is_own(&path) && !(line.starts_with("d ") && Path::new(&path).is_dir())
        };
        found.lines().filter(is_change).map(str::to_owned).collect()
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for file in ["/run/manager.log", "/var/log/tuttid.log"] {
                println!("--- {file}\n{}", self.run(&["cat", file]).stdout);
            }
        }
        // The first process ends with its standard input, and all others with it.
        drop(self.first.stdin.take());
        let _ = self.first.wait();
    }
}

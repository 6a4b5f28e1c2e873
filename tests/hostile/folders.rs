//! A user makes the folder where another one's daemon would be, and listens there or leaves logs in it.

use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use tutti_tests::{LIMIT, Scratch, run};

use crate::Machine;

/// The question would say who asks, and the answer where its data are to go.
#[test]
fn region_daemon_that_is_another_users_is_not_asked() {
    let Some(machine) = Machine::up("hostile-folders", 1, 2, &[]) else { return };
    let scratch = Scratch::new("hostile-folders-programs");
    let program = tutti_tests::compile("tests/hostile/programs/open_published.c", scratch.path());
    let program = machine.users.reachable(&program);
    // As /tmp.
    let open = machine.users.root().join("tmp");
    std::fs::create_dir(&open).expect("a folder");
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o1777)).expect("it is ours");
    let victim = machine.uid(0);
    let listener = machine.as_user(1, |_| {
        let folder = open.join(format!("tutti-{victim}"));
        std::fs::create_dir(&folder).expect("a folder of its own");
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("its own");
        let socket = folder.join("tuttid.regions");
        let listener = UnixListener::bind(&socket).expect("a socket");
        std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).expect("its own");
        listener
    });
    let mut command = machine.users.foreign(victim, &program);
    command.env_remove("TUTTI_DIR").env("TMPDIR", &open).arg("vault@node1");
    command.env("LD_LIBRARY_PATH", machine.users.programs().join("lib"));
    let asks = std::thread::scope(|scope| {
        let hears = scope.spawn(|| {
            let (mut stream, _) = listener.accept().ok()?;
            stream.set_read_timeout(Some(LIMIT)).ok()?;
            let mut bytes = Vec::new();
            // A stranger lets go without a word; whoever believes it would wait for the answer.
            let mut byte = [0; 64];
            if let Ok(read) = stream.read(&mut byte) {
                bytes.extend_from_slice(&byte[..read]);
            }
            Some(bytes)
        });
        let ran = run(&mut command, LIMIT).expect_success();
        assert_ne!(ran.stdout, "status 0\n", "{ran}");
        // Should nobody have come.
        let _ = std::os::unix::net::UnixStream::connect(open.join(format!("tutti-{victim}/tuttid.regions")));
        hears.join().expect("no panic")
    });
    assert_eq!(asks, Some(Vec::new()), "another user's socket was asked");
}

/// A kind of log that no daemon of the reader's has written.
type Plant = fn(&Path);

fn plant_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a pipe");
}

fn plant_device(path: &Path) {
    symlink("/dev/zero", path).expect("a link");
}

fn plant_lies(path: &Path) {
    let lies = "{\"ms\":1000,\"event\":\"submitted\",\"job\":1,\"uid\":0,\"nodes\":[\"a\"],\"text\":\"lie\"}\n\
                {\"ms\":2000,\"event\":\"over\",\"job\":1,\"status\":0}\n";
    std::fs::write(path, lies).expect("a file");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o644)).expect("its own");
}

/// A pipe would be waited for, a device read without an end, and a lie be taken for the status of a job.
#[test]
fn logs_that_another_user_has_left_are_neither_read_nor_waited_for() {
    let Some(machine) = Machine::up("hostile-logs", 1, 2, &[]) else { return };
    let victim = machine.uid(0);
    let plants: [(&str, Plant); 3] = [("pipe", plant_pipe), ("device", plant_device), ("lies", plant_lies)];
    for (name, plant) in plants {
        for aside in ["", ".1"] {
            let open = machine.users.root().join(format!("tmp-{name}{aside}"));
            std::fs::create_dir(&open).expect("a folder");
            std::fs::set_permissions(&open, PermissionsExt::from_mode(0o1777)).expect("it is ours");
            machine.as_user(1, |_| {
                let folder = open.join(format!("tutti-{victim}"));
                std::fs::create_dir(&folder).expect("a folder of its own");
                std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("its own");
                symlink(".", folder.join("state")).expect("a link");
                for log in ["events.jsonl", "turns.jsonl"] {
                    plant(&folder.join(format!("{log}{aside}")));
                }
            });
            let tutti = |words: &[&str]| {
                let mut command = machine.users.command(victim, "tutti", words);
                for variable in ["TUTTI_DIR", "TUTTI_DAEMON", "TUTTI_STATE", "XDG_RUNTIME_DIR"] {
                    command.env_remove(variable);
                }
                run(command.env("TMPDIR", &open), LIMIT)
            };
            for words in [&["ps", "--all"][..], &["status", "1"], &["timeline", "--all", "-o", "-"]] {
                let ran = tutti(words);
                assert!(!ran.stdout.contains("lie"), "{name}{aside}: {words:?}: {ran}");
            }
            assert_eq!(tutti(&["wait", "1"]).code(), 127, "{name}{aside}");
        }
    }
}

/// The name of a starter that is gone is free. Whoever has it would give a rank of another user its memory.
#[test]
fn starter_name_that_another_user_has_taken_is_not_believed() {
    let Some(machine) = Machine::up("hostile-names", 1, 2, &[]) else { return };
    let scratch = Scratch::new("hostile-names-programs");
    let program = tutti_tests::compile("examples/hello.c", scratch.path());
    let program = machine.users.reachable(&program);
    let name = format!("tutti-hostile-name-{}", std::process::id());
    let listener = machine.as_user(1, |_| {
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let kind = rustix::net::SocketType::SEQPACKET;
        let socket = rustix::net::socket_with(rustix::net::AddressFamily::UNIX, kind, flags, None);
        let socket = socket.expect("a socket");
        let address = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
        rustix::net::bind(&socket, &address).expect("nobody else has it");
        rustix::net::listen(&socket, 8).expect("a socket");
        socket
    });
    let mut command = machine.users.foreign(machine.uid(0), &program);
    command.env("TUTTI_TICKET", format!("{name}:0:{}", "a5".repeat(16)));
    command.env("LD_LIBRARY_PATH", machine.users.programs().join("lib"));
    let ran = run(&mut command, LIMIT);
    assert!(ran.code() != 0 && ran.stderr.contains("another user has its name"), "{ran}");
    let connection = rustix::net::accept(&listener).expect("it has come");
    let mut bytes = [0; 64];
    let heard = rustix::net::recv(&connection, &mut bytes[..], rustix::net::RecvFlags::DONTWAIT);
    assert!(
        matches!(heard, Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET)),
        "it was told nothing: {heard:?}"
    );
}

/// Sockets of others where a user's own daemon would be do not hide the daemon of root.
#[test]
fn daemon_of_root_is_found_beside_a_socket_of_another_user() {
    let Some(machine) = Machine::up("hostile-hidden", 1, 2, &[]) else { return };
    let open = machine.users.root().join("tmp");
    std::fs::create_dir(&open).expect("a folder");
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o1777)).expect("it is ours");
    let victim = machine.uid(0);
    let folder = open.join(format!("tutti-{victim}"));
    let _listener = machine.as_user(1, |_| {
        std::fs::create_dir(&folder).expect("a folder of its own");
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("its own");
        let listener = UnixListener::bind(folder.join("tuttid.sock")).expect("a socket");
        std::fs::set_permissions(folder.join("tuttid.sock"), PermissionsExt::from_mode(0o666))
            .expect("its own");
        listener
    });
    let number = machine.submit(0, &["-o", "none", "-n", "1", "true"]).to_string();
    machine.tutti(0, &["wait", &number]).expect_success();
    // The daemon as that of this machine, in mounts of the command's own.
    let script = format!(
        "mount -t tmpfs tutti-run /run && mkdir /run/tutti && mount --bind {} /run/tutti || exit 77; \
         exec setpriv --reuid {victim} --regid {victim} --clear-groups {} ps --all",
        machine.cluster.folder.display(),
        machine.users.programs().join("bin/tutti").display()
    );
    // Readable by another user, and then not at all.
    for mode in [0o755, 0o700] {
        machine.as_user(1, |_| {
            std::fs::set_permissions(&folder, PermissionsExt::from_mode(mode)).expect("its own");
        });
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-c", &script]).env("TMPDIR", &open);
        for variable in ["TUTTI_DIR", "TUTTI_DAEMON", "TUTTI_STATE", "XDG_RUNTIME_DIR"] {
            command.env_remove(variable);
        }
        let ran = run(command.current_dir("/"), LIMIT);
        if ran.code() == 77 {
            return tutti_testkit::skip(tutti_testkit::Need::MountNamespace, "no mounts of one's own here");
        }
        assert!(ran.code() == 0 && ran.stdout.contains("over(0)"), "mode {mode:o}: {ran}");
    }
}

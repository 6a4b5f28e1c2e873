//! A user makes the folder where another one's daemon would be, and listens there.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

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

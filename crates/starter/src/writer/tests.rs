use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tutti-writer-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn open(&self, files: &[&str], truncate: bool) -> Open {
        let files = files.iter().map(|name| self.0.join(name).into_os_string().into()).collect();
        Open { identity: None, locks: false, umask: 0o22, directory: "/".into(), files, truncate }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).expect("a file")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `umask` and the working directory are the process's: one of these tests at a time.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn writer_appends_in_order_and_tells_the_lengths() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = Folder::new("order");
    std::fs::write(folder.0.join("a"), "old").expect("a file");
    let mut writer = Writer::default();
    let opened = writer.open(folder.open(&["a", "b"], true)).expect("they are ours");
    assert!(matches!(opened, Opened::Ready { lengths, inode } if lengths == [Some(0), Some(0)] && inode > 0));
    for (file, text) in [(0, "one\n"), (1, "two\n"), (0, "three\n")] {
        writer.append(file, text.as_bytes());
    }
    let written = writer.take_written();
    assert_eq!(written, Written { bytes: 14, error: None, lengths: vec![(0, 10), (1, 4)] });
    assert_eq!((folder.read("a"), folder.read("b")), ("one\nthree\n".into(), "two\n".into()));
    // Another one continues where this one has ended.
    let mut next = Writer::default();
    let opened = next.open(folder.open(&["a", "b"], false)).expect("they are ours");
    assert!(matches!(opened, Opened::Ready { lengths, .. } if lengths == [Some(10), Some(4)]));
    next.append(1, b"more");
    assert_eq!(next.take_written().lengths, [(1, 8)]);
    assert_eq!(folder.read("b"), "two\nmore");
}

#[test]
fn writer_stops_at_the_first_error_and_says_how_far_it_came() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = Folder::new("full");
    let mut writer = Writer::default();
    let mut open = folder.open(&["a"], true);
    open.files.push("/dev/full".into());
    let opened = writer.open(open).expect("they are there");
    assert!(matches!(opened, Opened::Ready { lengths, .. } if lengths == [Some(0), None]));
    for (file, text) in [(0, "one"), (1, "two"), (0, "three")] {
        writer.append(file, text.as_bytes());
    }
    let written = writer.take_written();
    assert_eq!((written.bytes, written.lengths), (3, vec![(0, 3)]));
    let error = written.error.expect("it is full");
    assert!(error.starts_with("cannot write /dev/full: No space left on device"), "{error}");
    writer.append(0, b"three");
    assert_eq!(writer.take_written(), Written { bytes: 5, error: None, lengths: vec![(0, 8)] });
    assert_eq!(folder.read("a"), "onethree");
}

#[test]
fn writer_refuses_what_cannot_be_opened_in_one_line() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = Folder::new("refused");
    let pipe = folder.0.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    for (name, why) in [("none/file", "No such file or directory"), ("pipe", "No such device or address")] {
        let line = Writer::default().open(folder.open(&[name], true)).expect_err("it is not there");
        let path = folder.0.join(name);
        assert!(line.starts_with(&format!("cannot write {}: {why}", path.display())), "{line}");
    }
    let elsewhere = Open { directory: "/none".into(), ..folder.open(&[], true) };
    let line = Writer::default().open(elsewhere).expect_err("no such folder");
    assert!(
        line.starts_with("cannot enter the directory /none as user ")
            && line.contains("No such file or directory"),
        "{line}"
    );
}

#[test]
fn writer_has_more_files_than_it_may_have_open() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = Folder::new("many");
    let names: Vec<String> = (0..3 * OPEN_MAX).map(|number| format!("f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut writer = Writer::default();
    writer.open(folder.open(&names, true)).expect("they are ours");
    for _ in 0..2 {
        for file in 0..names.len() as u32 {
            writer.append(file, format!("{file}\n").as_bytes());
        }
    }
    assert_eq!(writer.take_written().error, None);
    assert!(writer.open.len() <= OPEN_MAX);
    for (number, name) in names.iter().enumerate() {
        assert_eq!(folder.read(name), format!("{number}\n{number}\n"));
    }
}

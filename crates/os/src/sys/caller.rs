//! Opening a file with the rights of another user than root, for this thread alone.

/// Does something while the kernel checks files as for this user, without root's capability to pass such
/// checks. Files opened meanwhile keep these rights: where the kernel checks the opener of a file, it sees
/// this user. `None`: this user cannot be taken on here.
pub fn with_file_rights_of<T>(uid: u32, work: impl FnOnce() -> T) -> Option<T> {
    // SAFETY: numbers only; the call concerns the calling thread alone and its result is the number before.
    let set = |uid: u32| unsafe { libc::syscall(libc::SYS_setfsuid, uid) as u32 };
    let before = set(uid);
    // An invalid number changes nothing and returns the one in force.
    let done = (set(u32::MAX) == uid).then(work);
    set(before);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_rights_of_another_user_open_nothing_of_roots_and_end_with_the_work() {
        if !rustix::process::geteuid().is_root() {
            return tutti_testkit::skip(
                tutti_testkit::Need::Root,
                "only root can take on another user's rights",
            );
        }
        let path = std::env::temp_dir().join(format!("tutti-caller-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let open = || std::fs::File::options().write(true).open(&path).is_ok();
        assert_eq!(with_file_rights_of(65_535, open), Some(false));
        assert!(open(), "it is over");
        std::fs::remove_file(&path).unwrap();
    }
}

use super::*;
use proptest::prelude::*;

/// A small program: header, two program headers, a dynamic section, a string table.
fn sample(libraries: &[&str]) -> Vec<u8> {
    let mut strings = vec![0_u8];
    let mut pairs: Vec<(u64, u64)> = Vec::new();
    for library in libraries {
        pairs.push((DT_NEEDED, strings.len() as u64));
        strings.extend_from_slice(library.as_bytes());
        strings.push(0);
    }
    let dynamic_at = 64 + 2 * 56_u64;
    let strings_at = dynamic_at + 16 * (pairs.len() as u64 + 2);
    pairs.push((DT_STRTAB, 0x10_0000 + strings_at));
    pairs.push((DT_NULL, 0));
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(64, 0);
    file[32..40].copy_from_slice(&64_u64.to_le_bytes());
    file[54..56].copy_from_slice(&56_u16.to_le_bytes());
    file[56..58].copy_from_slice(&2_u16.to_le_bytes());
    let bytes = strings_at + strings.len() as u64;
    for (kind, offset, address, size) in
        [(PT_LOAD, 0, 0x10_0000, bytes), (PT_DYNAMIC, dynamic_at, 0, strings_at - dynamic_at)]
    {
        let mut header = vec![0; 56];
        header[0..4].copy_from_slice(&kind.to_le_bytes());
        header[8..16].copy_from_slice(&offset.to_le_bytes());
        header[16..24].copy_from_slice(&u64::to_le_bytes(address));
        header[32..40].copy_from_slice(&u64::to_le_bytes(size));
        file.extend(header);
    }
    for (tag, value) in pairs {
        file.extend(tag.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file.extend(strings);
    file
}

#[test]
fn elf_needed_libraries_are_found() {
    let file = sample(&["libmpi.so.12", "libc.so.6"]);
    assert_eq!(needed(&file[..]), ["libmpi.so.12", "libc.so.6"]);
}

#[test]
fn elf_of_the_test_itself_needs_libc() {
    let own = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    assert!(needed(&own).iter().any(|name| name.starts_with("libc.so")));
}

#[test]
fn elf_other_mpis_are_recognized() {
    for (library, expected) in [
        ("libmpi.so.12", Some(OtherMpi::Mpich)),
        ("libmpich.so.12", Some(OtherMpi::Mpich)),
        ("libmpifort.so.12", Some(OtherMpi::Mpich)),
        ("libmpi.so.40", Some(OtherMpi::OpenMpi)),
        ("libmpi_mpifh.so.40", Some(OtherMpi::OpenMpi)),
        ("libmpi.so.20", Some(OtherMpi::OtherOpenMpi)),
        ("libmpi_usempif08.so.40", Some(OtherMpi::OpenMpi)),
        ("libmpi_cxx.so.20", Some(OtherMpi::OtherOpenMpi)),
        ("libmpi.so.99", Some(OtherMpi::Unknown)),
        ("libmpi_abi.so.1", None),
        ("libtutti.so.1", None),
        ("libmpifr.so", None),
    ] {
        assert_eq!(other_mpi(library), expected, "{library}");
    }
}

#[test]
fn elf_libraries_of_two_mpis_are_named() {
    for (libraries, expected) in [
        (&["libc.so.6", "libmpi.so.12", "libmpi.so.40"][..], Some(("libmpi.so.12", "libmpi.so.40"))),
        (&["libmpi_abi.so.1", "libmpich.so.12"], Some(("libmpi_abi.so.1", "libmpich.so.12"))),
        (&["libmpifort.so.12", "libmpi.so.12"], None),
        (&["libmpi_mpifh.so.40", "libopen-rte.so.40", "libmpi.so.40"], None),
        (&["libmpi_abi.so.1", "libtutti.so.1"], None),
        (&["libm.so.6"], None),
    ] {
        let libraries: Vec<String> = libraries.iter().map(|&library| library.into()).collect();
        assert_eq!(two_mpis(&libraries), expected, "{libraries:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = needed(&bytes[..]);
        let mut elf = b"\x7fELF\x02\x01".to_vec();
        elf.extend(bytes);
        let _ = needed(&elf[..]);
    }

    #[test]
    fn elf_mutated_does_not_panic(
        changes in proptest::collection::vec((0_usize..400, any::<u8>()), 1..20),
        length in 0_usize..500,
    ) {
        let mut file = sample(&["libmpi.so.40", "libm.so.6"]);
        for (at, value) in changes {
            if let Some(byte) = file.get_mut(at) {
                *byte = value;
            }
        }
        file.truncate(length);
        prop_assert!(needed(&file[..]).len() <= HEADERS_MAX);
    }

    #[test]
    fn elf_extreme_offsets_do_no_harm(at in 0_usize..50, value in prop_oneof![Just(u64::MAX), Just(u64::MAX - 7), Just(1 << 63)]) {
        let mut file = sample(&["libmpi.so.40"]);
        let at = (at * 8).min(file.len() - 8);
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let _ = needed(&file[..]);
    }
}

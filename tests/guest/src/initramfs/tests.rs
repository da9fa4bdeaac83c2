use super::{Archive, Mode, closure};

const TABLE: &str = "\
kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko kernel/fs/netfs/netfs.ko
kernel/net/9p/9pnet.ko:
kernel/net/9p/xx9p.ko: kernel/net/9p/other.ko
";

#[test]
fn a_module_brings_what_it_needs_and_nothing_with_a_similar_name() {
    let files = closure(TABLE, &["9p"]).unwrap();
    let files: Vec<_> = files.into_iter().collect();
    let wanted = ["kernel/fs/9p/9p.ko", "kernel/fs/netfs/netfs.ko", "kernel/net/9p/9pnet.ko"];
    assert_eq!(files, wanted);
}

#[test]
fn a_module_that_the_kernel_lacks_is_named() {
    let refusal = closure(TABLE, &["9pnet", "nothing"]).unwrap_err();
    assert!(refusal.to_string().contains("nothing"));
}

#[test]
fn every_entry_starts_at_a_multiple_of_four_and_the_trailer_is_last() {
    let mut archive = Archive::default();
    archive.folder("abc");
    archive.file("f", b"12345", Mode::Data);
    let bytes = archive.finish();
    assert_eq!(bytes.len() % 4, 0);
    let magics: Vec<_> =
        (0..bytes.len() - 6).filter(|&at| &bytes[at..at + 6] == b"070701").collect();
    assert_eq!(magics.len(), 3);
    assert!(magics.iter().all(|at| at % 4 == 0));
    let size = &bytes[magics[1] + 54..magics[1] + 62];
    assert_eq!(size, b"00000005");
    assert!(bytes[magics[2]..].windows(10).any(|window| window == b"TRAILER!!!"));
}

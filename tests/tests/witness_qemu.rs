//! QEMU's iSCSI driver as a witness.

use anyhow::Result;
use harness::{Array, initiator};

const MIB: u64 = 1 << 20;

fn array_with_luns(count: usize) -> Result<(Array, Vec<u16>)> {
    let array = Array::start()?;
    array.create_pool("p", "4G")?;
    let create = |index: usize| array.create_lun(&format!("p/v{index}"), "1G");
    let luns = (0..count).map(create).collect::<Result<Vec<_>>>()?;
    Ok((array, luns))
}

#[test]
fn a_convert_between_two_luns_is_offloaded_and_exact() -> Result<()> {
    let (array, luns) = array_with_luns(2)?;
    let (source, copy) = (array.lun_url(luns[0])?, array.lun_url(luns[1])?);
    let pattern = ["write -P 0x11 0 96M", "write -P 0x22 96M 96M", "write -P 0x33 511M 64M"];
    initiator::qemu_io(&["-f", "raw", &source], &pattern)?;
    let before = array.traffic()?;
    initiator::qemu_img(&["convert", "-n", "-C", "-f", "raw", "-O", "raw", &source, &copy])?;
    let during = array.traffic()?.since(before);
    // 256 MiB of data exist; a copy through the host would move each of them twice.
    assert!(during.bytes() < 4 * MIB, "{} bytes on the wire", during.bytes());
    initiator::qemu_img(&["compare", "-f", "raw", "-F", "raw", &source, &copy])?;
    let checks = ["read -P 0x11 0 96M", "read -P 0x22 96M 96M", "read -P 0x33 511M 64M"];
    initiator::qemu_io(&["-f", "raw", &copy], &checks)?;
    Ok(())
}

#[test]
fn a_compare_finds_two_luns_that_differ() -> Result<()> {
    let (array, luns) = array_with_luns(2)?;
    let (one, other) = (array.lun_url(luns[0])?, array.lun_url(luns[1])?);
    initiator::qemu_io(&["-f", "raw", &one], &["write -P 0x11 700M 512"])?;
    let outcome = initiator::qemu_img(&["compare", "-f", "raw", "-F", "raw", &one, &other]);
    assert!(outcome.is_err(), "a comparison that cannot fail proves nothing");
    Ok(())
}

#[test]
fn patterns_are_written_and_verified_with_header_digests() -> Result<()> {
    let (array, luns) = array_with_luns(1)?;
    let image = |digest: &str| -> Result<String> {
        let (portal, target, lun) = (array.portal(), array.target_name()?, luns[0]);
        Ok(format!(
            "driver=iscsi,transport=tcp,portal={portal},target={target},lun={lun},header-digest={digest}"
        ))
    };
    for (byte, digest) in [(1, "crc32c"), (2, "none"), (3, "crc32c-none"), (4, "none-crc32c")] {
        let commands = [
            format!("write -P {byte} 1M 8M"),
            format!("write -P {byte} 9M 512"),
            format!("aio_write -P {byte} 20M 1M"),
            "aio_flush".to_owned(),
            format!("read -P {byte} 1M 8M"),
            format!("read -P {byte} 9M 512"),
            format!("read -P {byte} 20M 1M"),
            "discard 1M 8M".to_owned(),
            "read -P 0 1M 8M".to_owned(),
        ];
        let commands: Vec<_> = commands.iter().map(String::as_str).collect();
        initiator::qemu_io(&["--image-opts", &image(digest)?], &commands)?;
    }
    Ok(())
}

#[test]
fn what_was_written_is_there_after_a_clean_stop() -> Result<()> {
    let (mut array, luns) = array_with_luns(1)?;
    let url = array.lun_url(luns[0])?;
    let writes = ["write -P 7 0 32M", "write -z 4M 4M", "write -P 9 1000M 8M", "discard 16M 1M"];
    initiator::qemu_io(&["-f", "raw", &url], &writes)?;
    assert!(array.stop()?.success());
    array.restart()?;
    let reads = ["read -P 7 0 4M", "read -P 0 4M 4M", "read -P 7 8M 8M", "read -P 0 16M 1M"];
    initiator::qemu_io(&["-f", "raw", &url], &reads)?;
    initiator::qemu_io(&["-f", "raw", &url], &["read -P 9 1000M 8M", "read -P 0 1008M 8M"])?;
    Ok(())
}

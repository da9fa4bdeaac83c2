//! sg3_utils and ddpt, written by the one who reads the standards for a living, decode what the
//! target sends without a complaint, and find on the medium what they asked for.

use Need::{Action, Operation};
use anyhow::{Result, ensure};
use guest::{Bench, Need, Report};

/// One tool and what it must do. `$D` and `$E` are the disks of two LUNs, `$G` and `$H` take
/// commands for them and nothing else. The files /tmp/a and
/// /tmp/b hold 64 random blocks each, /tmp/one the first of /tmp/a, /tmp/z 64 blocks of zeroes.
struct Check {
    name: &'static str,
    need: Need,
    script: &'static str,
    /// Texts that must be in what it prints.
    wanted: &'static [&'static str],
}

/// What a tool says of an answer that it cannot make sense of.
const COMPLAINTS: [&str; 7] = [
    "malformed",
    "truncated",
    "too short",
    "too long",
    "unable to decode",
    "only hex output supported",
    "unexpected",
];

const NONE: Need = Need::None;

const LOOKING: [Check; 15] = [
    Check {
        name: "sg_inq: standard data, version descriptors",
        need: NONE,
        script: "sg_inq $D; sg_inq -d $D",
        wanted: &["Vendor identification: GANTRY", "[SPC-4]", "TPGS=1", "3PC=1", "SBC-", "iSCSI"],
    },
    Check {
        name: "sg_vpd: every page decoded",
        need: NONE,
        script: "sg_vpd -a $D; for page in $(sg_inq -e $D | \
                 sed -n 's/^ *\\(0x[0-9a-f]*\\).*/\\1/p'); do sg_vpd -p $page $D; done",
        wanted: &[
            "Unit serial number",
            "designator type: NAA",
            "Relative target port",
            "Target port group",
            "extended INQUIRY data",
            "Third party copy VPD page",
            "Maximum compare and write length: 255",
            "Unmap command supported (LBPU): 1",
            "thin provisioned",
        ],
    },
    Check {
        name: "sg_opcodes: all commands, with timeouts",
        need: NONE,
        script: "sg_opcodes $D; sg_opcodes -c $D",
        wanted: &["Compare and write", "Extended copy(LID1)", "Unmap", "Write same(16)"],
    },
    Check {
        name: "sg_opcodes: task management functions",
        need: NONE,
        script: "sg_opcodes -t $D",
        wanted: &["Abort task", "Clear task set", "Logical unit reset"],
    },
    Check {
        name: "sg_modes: all pages, current, changeable and default, by both commands",
        need: NONE,
        script: "sg_modes -a $D; for control in 1 2; do sg_modes -a -c $control $D; done; \
                 sg_modes -6 -a $D",
        wanted: &["Caching", "Control", "Informational exceptions", "changeable", "default"],
    },
    Check {
        name: "sg_logs: all pages",
        need: Operation(0x4d),
        script: "sg_logs -a $D",
        wanted: &["Supported log pages", "Logical block provisioning", "number of read commands"],
    },
    Check {
        name: "sg_luns: decoded",
        need: NONE,
        script: "sg_luns -d $D; for select in 0 1 2; do sg_luns -s $select $D; done",
        wanted: &["lun=0", "lun=1"],
    },
    Check {
        name: "sg_rtpg: decoded, also with the extended header",
        need: NONE,
        script: "sg_rtpg -d $D; sg_rtpg -d -e $D",
        wanted: &["active/optimized", "Implicit transition time", "Relative target port ids"],
    },
    Check {
        name: "sg_readcap: both commands",
        need: NONE,
        script: "sg_readcap $D; sg_readcap -l $D",
        wanted: &["lbpme=1, lbprz=1", "Logical block length=512 bytes"],
    },
    Check {
        name: "sg_requests and sg_turs",
        need: NONE,
        script: "sg_requests $D; sg_turs -n 10 $D",
        wanted: &["No Sense", "10 Test Unit Ready commands with 0 errors"],
    },
    Check {
        name: "sg_start, sg_prevent, sg_sync",
        need: NONE,
        script: "sg_start --start $D; sg_prevent $D; sg_prevent --allow $D; sg_sync $D; \
                 sg_sync -16 $D || sg_sync --16 $D",
        wanted: &[],
    },
    Check {
        name: "sg_timestamp",
        need: Action(0xa3, 0x0f),
        script: "sg_timestamp $D; [ $(sg_timestamp $D) -gt 1000000000000 ]",
        wanted: &[],
    },
    Check {
        name: "sg_seek: PRE-FETCH tells that it fits the cache or not",
        need: NONE,
        script: "for size in '--pre-fetch --10' --pre-fetch; do got=0; sg_seek -v $size -l 0 -n 100 $D || got=$?; \
                 [ $got = 0 ] || [ $got = 25 ]; done",
        wanted: &[],
    },
    Check {
        name: "sg_reset: the device, without the kernel trying more",
        need: NONE,
        script: "sg_reset -v -N -d $D; sg_turs $D || sg_turs $D; put /tmp/z $D 0; holds $D 0 64 /tmp/z",
        wanted: &[],
    },
    Check {
        name: "sg_get_lba_status: mapped and unmapped",
        need: NONE,
        script: "sg_unmap -f -l 0 -n 4096 $D; put /tmp/a $D 0; \
                 sg_get_lba_status -m 512 -l 0 $D; sg_get_lba_status -m 512 -b -l 0 $D",
        wanted: &["mapped", "deallocated"],
    },
];

const CHANGING: [Check; 23] = [
    Check {
        name: "sg_dd: READ and WRITE of 6, 10, 12 and 16 bytes",
        need: NONE,
        script: "for size in 6 10 12 16; do random 64 /tmp/r; \
                 sg_dd if=/tmp/r of=$D bs=512 count=64 seek=$((size * 64)) cdbsz=$size oflag=sgio; \
                 sg_dd if=$D of=/tmp/s bs=512 count=64 skip=$((size * 64)) cdbsz=$size iflag=sgio; \
                 cmp /tmp/r /tmp/s; holds $D $((size * 64)) 64 /tmp/r; done",
        wanted: &["64+0 records"],
    },
    Check {
        name: "sg_verify: of the medium, of data, and a difference is found",
        need: NONE,
        script: "put /tmp/a $D 64; sg_verify -l 64 -c 64 $D; sg_verify --16 -l 64 -c 64 $D; \
                 sg_verify -l 64 -c 1 -n 512 -i /tmp/one $D; \
                 expect 14 sg_verify -l 65 -c 1 -n 512 -i /tmp/one $D",
        wanted: &[],
    },
    Check {
        name: "sg_write_verify: both commands",
        need: NONE,
        script: "sg_write_verify -l 128 -n 64 -i /tmp/b $D; holds $D 128 64 /tmp/b; \
                 sg_write_verify --16 -l 128 -n 64 -i /tmp/a $D; holds $D 128 64 /tmp/a",
        wanted: &[],
    },
    Check {
        name: "sg_compare_and_write: equal, and different with the offset",
        need: NONE,
        script: "put /tmp/a $D 256; cat /tmp/a /tmp/b >/tmp/ab; \
                 sg_compare_and_write -i /tmp/ab -l 256 -n 64 -x 65536 $D; \
                 holds $D 256 64 /tmp/b; \
                 cp /tmp/b /tmp/c; printf X | dd of=/tmp/c bs=1 seek=700 conv=notrunc status=none; \
                 cmp -s /tmp/b /tmp/c && exit 1; cat /tmp/c /tmp/a >/tmp/ca; \
                 expect 14 sg_compare_and_write -i /tmp/ca -l 256 -n 64 -x 65536 $D; \
                 holds $D 256 64 /tmp/b",
        wanted: &["Miscompare at byte offset: 700"],
    },
    Check {
        name: "sg_write_same: 10 and 16 bytes",
        need: NONE,
        script: "for size in --10 --16; do random 1 /tmp/r; \
                 sg_write_same $size -i /tmp/r -l 512 -n 50 $D; repeats $D 512 50 /tmp/r; done",
        wanted: &[],
    },
    Check {
        name: "sg_write_same: UNMAP and NDOB",
        need: NONE,
        script: "put /tmp/a $D 1024; sg_write_same --16 -N -l 1024 -n 64 $D; \
                 holds $D 1024 64 /tmp/z; put /tmp/a $D 1024; \
                 sg_write_same --16 -U -i /tmp/z --xferlen=512 -l 1024 -n 64 $D; \
                 holds $D 1024 64 /tmp/z; put /tmp/a $D 1024; \
                 sg_write_same --10 -U -i /tmp/z --xferlen=512 -l 1024 -n 64 $D; \
                 holds $D 1024 64 /tmp/z",
        wanted: &[],
    },
    Check {
        name: "sg_write_same and sg_get_lba_status, 32 bytes: not supported, and said so",
        need: NONE,
        script: "expect 9 sg_write_same --32 -i /tmp/one -l 600 -n 50 $D; \
                 expect 9 sg_get_lba_status --32 -l 0 $D; sg_opcodes -o 0x7f $D",
        wanted: &["Command is NOT supported"],
    },
    Check {
        name: "sg_unmap: one range, several, none",
        need: NONE,
        script: "put /tmp/a $D 2048; put /tmp/a $D 4096; put /tmp/a $D 8192; \
                 sg_unmap -f -l 2048 -n 64 $D; sg_unmap -f -l 4096,8192 -n 64,64 $D; \
                 for lba in 2048 4096 8192; do holds $D $lba 64 /tmp/z; done; \
                 sg_unmap -f -l 0 -n 0 $D",
        wanted: &[],
    },
    Check {
        name: "sg_write_x: WRITE (16)",
        need: NONE,
        script: "sg_write_x --normal --in=/tmp/a --lba=4000 --num=64 $D; holds $D 4000 64 /tmp/a",
        wanted: &[],
    },
    Check {
        name: "sg_write_x: ORWRITE (16)",
        need: NONE,
        script: "sg_write_same --16 -N -l 4000 -n 64 $D; \
                 sg_write_x --or --in=/tmp/a --lba=4000 --num=64 $D; holds $D 4000 64 /tmp/a; \
                 sg_write_x --or --in=/tmp/z --lba=4000 --num=64 $D; holds $D 4000 64 /tmp/a",
        wanted: &[],
    },
    Check {
        name: "sg_write_x: WRITE SAME (16)",
        need: NONE,
        script: "sg_write_x --same=0 --in=/tmp/one --lba=4000 --num=64 $D; \
                 repeats $D 4000 64 /tmp/one; \
                 sg_write_x --same=1 --lba=4000 --num=64 $D; holds $D 4000 64 /tmp/z",
        wanted: &[],
    },
    Check {
        name: "sg_write_x: WRITE ATOMIC (16)",
        need: Operation(0x9c),
        script: "sg_write_x --atomic=0 --in=/tmp/b --lba=4000 --num=64 $D; holds $D 4000 64 /tmp/b",
        wanted: &[],
    },
    Check {
        name: "sg_xcopy: between two LUNs and within one",
        need: NONE,
        script: "random 8192 /tmp/big; put /tmp/big $D 16384; \
                 sg_xcopy if=$D of=$E bs=512 count=8192 skip=16384 seek=4096; \
                 holds $E 4096 8192 /tmp/big; \
                 sg_xcopy if=$D of=$D bs=512 count=8192 skip=16384 seek=32768; \
                 holds $D 32768 8192 /tmp/big",
        wanted: &["8192 blocks, 1 command"],
    },
    Check {
        name: "sg_copy_results: operating parameters",
        need: NONE,
        script: "sg_copy_results -p $D",
        wanted: &["Copy from block device to block device", "Supports no list identifier"],
    },
    Check {
        name: "sg_copy_results: status of a copy with a list identifier",
        need: NONE,
        script: "put /tmp/a $D 64; sg_xcopy if=$D of=$E bs=512 count=64 skip=64 seek=64 list_id=7 \
                 id_usage=hold; sg_copy_results -s -l 7 $D || sg_copy_results -s -l 7 $E",
        wanted: &["Operation completed without errors"],
    },
    Check {
        name: "sg_copy_results: failed segment details",
        need: Action(0x84, 0x04),
        script: "sg_xcopy if=$D of=$E bs=512 count=64 skip=64 seek=64 list_id=8 id_usage=hold; \
                 got=0; sg_copy_results -f -l 8 $E || got=$?; [ $got = 0 ] || [ $got = 5 ]",
        wanted: &[],
    },
    Check {
        name: "ddpt: EXTENDED COPY (LID1)",
        need: NONE,
        script: "random 8192 /tmp/big; put /tmp/big $D 16384; \
                 ddpt if=$D bs=512 of=$E iflag=xcopy skip=16384 seek=20000 count=8192; \
                 holds $E 20000 8192 /tmp/big",
        wanted: &["xcopy command done"],
    },
    // Version 0.97 of ddpt puts its range descriptors one byte too early, so that each of its numbers
    // stands for 256 blocks, and takes the transfer count for wrong: the medium tells what was done.
    Check {
        name: "ddpt: POPULATE TOKEN and WRITE USING TOKEN (ODX)",
        need: Action(0x83, 0x10),
        script: "ddpt --version 2>&1 | grep 'version: 0.97'; zeroes 8192 /tmp/zz; \
                 random 8192 /tmp/big; put /tmp/big $D 16384; \
                 ddpt --odx if=$G of=$H bs=512 skip=64,32 seek=160,32; \
                 holds $E 40960 8192 /tmp/big",
        wanted: &[],
    },
    Check {
        name: "ddptctl: a token is a point in time, kept in a file and decoded",
        need: Action(0x83, 0x10),
        script: "put /tmp/big $D 16384; put /tmp/zz $E 40960; \
                 ddptctl --pt=64,32 --rtf=/tmp/token $G; put /tmp/zz $D 16384; \
                 ddptctl --info --rtf=/tmp/token; ddptctl --all_toks $G; \
                 ddptctl --wut=160,32 --rtf=/tmp/token $H; holds $E 40960 8192 /tmp/big",
        wanted: &[
            "PT completes with a transfer count of 8192",
            "WUT completes with a transfer count of 8192",
            "point in time copy - default",
            "Number of bytes represented: 4194304",
            "Number of managed ROD Token headers returned: 1",
            "SCSI name string",
        ],
    },
    Check {
        name: "ddptctl: tokens in the background",
        need: Action(0x83, 0x10),
        script: "put /tmp/big $D 16384; put /tmp/zz $E 40960; \
                 ddptctl --immed --pt=64,32 --list_id=300 $G; \
                 ddptctl --poll --list_id=300 --rtf=/tmp/token $G; \
                 ddptctl --immed --wut=160,32 --list_id=301 --rtf=/tmp/token $H; \
                 ddptctl --poll --list_id=301 $H; holds $E 40960 8192 /tmp/big",
        wanted: &["transfer count of 8192"],
    },
    Check {
        name: "ddptctl: what the copy manager can",
        need: Action(0x83, 0x10),
        script: "ddptctl --info $G",
        wanted: &["Maximum Range Descriptors: 64", "Write using token", "block device zero"],
    },
    Check {
        name: "ddpt: zeroes by the block device zero token",
        need: Action(0x83, 0x11),
        script: "put /tmp/big $E 40960; \
                 ddpt if=/dev/null rtype=zero bs=512 of=$H seek=160,32; \
                 holds $E 40960 8192 /tmp/zz",
        wanted: &[],
    },
    Check {
        name: "sg_sanitize: overwrite and block erase",
        need: Operation(0x48),
        script: "put /tmp/a $D 64; sg_sanitize -Q --block --wait $D; holds $D 64 64 /tmp/z; \
                 put /tmp/a $D 64; sg_sanitize -Q --overwrite --zero --wait $D; \
                 holds $D 64 64 /tmp/z",
        wanted: &[],
    },
];

#[test]
fn sg3_utils_decode_and_do_everything() -> Result<()> {
    let mut bench = Bench::start(1, 2)?;
    bench.log_in(bench.portals[0], &[])?;
    bench.machine.set("D", &bench.disk(bench.portals[0], 0))?;
    bench.machine.set("E", &bench.disk(bench.portals[0], 1))?;
    for (disk, generic) in [("$D", "G"), ("$E", "H")] {
        let path = bench.sh(&format!("generic {disk}"))?;
        bench.machine.set(generic, path.trim())?;
    }
    bench.sh("random 64 /tmp/a; random 64 /tmp/b; zeroes 64 /tmp/z; \
         dd if=/tmp/a of=/tmp/one bs=512 count=1 status=none")?;
    let mut report = Report::new("sg3_utils");
    let name = "sg_opcodes: each command alone, with its usage data";
    report.check(&mut bench, name, NONE, usage_data);
    for check in LOOKING.iter().chain(&CHANGING) {
        report.check(&mut bench, check.name, check.need, |bench| run(bench, check));
    }
    report.finish(&bench)
}

/// The usage data starts with the operation code.
fn usage_data(bench: &mut Bench) -> Result<()> {
    let mut script = String::new();
    for (code, action) in &bench.operations {
        let action = action.map(|action| format!("-s 0x{action:x}")).unwrap_or_default();
        script.push_str(&format!("sg_opcodes -n -o 0x{code:x} {action} $D\n"));
    }
    let printed = bench.sh(&script)?;
    let usages = printed.lines().filter_map(|line| line.trim().strip_prefix("Usage data: "));
    let codes: Vec<_> = usages.map(|usage| usage[..2].to_owned()).collect();
    let wanted: Vec<_> = bench.operations.iter().map(|(code, _)| format!("{code:02x}")).collect();
    ensure!(codes == wanted, "usage data of {codes:?}, not of {wanted:?}:\n{printed}");
    ensure!(printed.matches("conforming to SCSI standard").count() == codes.len(), "{printed}");
    complains_not(&printed)
}

fn run(bench: &mut Bench, check: &Check) -> Result<()> {
    let printed = bench.sh(check.script)?;
    for wanted in check.wanted {
        ensure!(printed.contains(wanted), "'{wanted}' is not in\n{printed}");
    }
    complains_not(&printed)
}

fn complains_not(printed: &str) -> Result<()> {
    let lower = printed.to_lowercase();
    for complaint in COMPLAINTS {
        ensure!(!lower.contains(complaint), "'{complaint}' is in\n{printed}");
    }
    Ok(())
}

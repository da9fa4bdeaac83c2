//! Q3, E1, I5: eager zeroed disks. I6: first writes to a lazily zeroed one.

use std::time::Instant;

use anyhow::{Result, ensure};
use vmfs::LockMode;
use vmfs::vmdk::DiskFormat;

use super::{
    By, Note, OFF_ON, Pair, Scale, Spec, Way, always, no_targets, nothing_in_the_way, seconds, size,
};
use crate::esxi::mover;
use crate::initiator::ranges::pattern;
use crate::validate::Context;
use crate::validate::bench::{Vaai, seconds_since};
use crate::validate::content::{self, Layout};
use crate::validate::judge::{at_least, figure, ratio_of, target, wire_below};
use crate::validate::meter::{Meter, written};
use crate::validate::model::{Run, Target, Variant};

const DISK: &str = "zeroed.vmdk";

/// A guest's partition that begins at sector 63, as they did: its writes of 1 MiB cross the blocks
/// of the file system.
const GUEST_OFFSET: u64 = 63 * 512;

const SOILED: Note = (
    "Every megabyte of the free space is soiled before, and every byte of the disk is read back afterwards: zeros that were never written are found out.",
    always,
);

pub(super) fn cases() -> Vec<Spec> {
    let zeroing = |id, title, source, scenario, published| Spec {
        id,
        title,
        source,
        scenario,
        published,
        sizes: |_| String::new(),
        ways: OFF_ON,
        pairs: &[],
        needs: |_| 0,
        obstacle: nothing_in_the_way,
        prepare,
        run: |_, _| Ok(Run::default()),
        judge: no_targets,
        notes: &[SOILED],
    };
    let q3 = Spec {
        sizes: |scale| sizes("200 GB", bytes(scale, 2000, 50)),
        pairs: const { &[seconds("create eager zeroed", "off", "on", Some(546.0 / 240.0))] },
        needs: |scale| room(bytes(scale, 2000, 50)),
        run: |context, way| create(context, way, bytes(context.scale, 2000, 50)),
        judge: twentyfold,
        ..zeroing(
            "Q3",
            "Block Zero: create an eager zeroed disk",
            "QSAN XS5216D, 2021, write-through volume",
            "A disk of 200 GB is created eager zeroed thick.",
            "546 s off, 240 s on (56 % less)",
        )
    };
    let e1 = Spec {
        sizes: |scale| sizes("10 GB on a LUN of 26 GB", bytes(scale, 100, 2)),
        pairs: const { &[seconds("create eager zeroed", "off", "on", Some(22.0 / 17.0))] },
        needs: |scale| room(bytes(scale, 100, 2)),
        run: |context, way| create(context, way, bytes(context.scale, 100, 2)),
        judge: twentyfold,
        ..zeroing(
            "E1",
            "Block Zero: write rate and write requests of the host",
            "EMC VNX over iSCSI, lab blog",
            "An eager zeroed disk is created and deleted, with the offloads off and on in turns; the host's write rate and write requests are drawn over time.",
            "22 min off, 17 min on; write rate from massive to near zero",
        )
    };
    let i5 = Spec {
        sizes: |scale| sizes("100 GB", bytes(scale, 1000, 50)),
        pairs: const { &[seconds("create eager zeroed", "off", "on", None)] },
        needs: |scale| room(bytes(scale, 1000, 50)),
        run: |context, way| create(context, way, bytes(context.scale, 1000, 50)),
        judge: idle_interface,
        ..zeroing(
            "I5",
            "Block Zero: the interface is idle while volumes are written",
            "IBM Storwize V7000",
            "A disk of 100 GB is created eager zeroed thick; the rate on the interface is drawn beside the rate at which the volume is zeroed.",
            "array interface idle while the volumes are written",
        )
    };
    vec![q3, e1, i5, first_write()]
}

fn first_write() -> Spec {
    Spec {
        id: "I6",
        title: "First write to a lazily zeroed disk",
        source: "IBM Storwize V7000",
        scenario: "A guest writes 1 MB after 1 MB to a new zeroedthick disk; its partition begins at sector 63. Each block of the file system is zeroed before its first write.",
        published: "226.1 MB/s of workload at 472 MB/s on the wire off; 473.5 MB/s at 488 MB/s on (+100 %)",
        sizes: |scale| sizes("not told", bytes(scale, 100, 20)),
        ways: OFF_ON,
        pairs: const {
            &[Pair {
                name: "workload",
                off: "off",
                on: "on",
                by: By::More("workload, MB/s"),
                published: Some(473.5 / 226.1),
            }]
        },
        needs: |scale| room(bytes(scale, 100, 20)),
        obstacle: nothing_in_the_way,
        prepare,
        run: write_first,
        judge: wire_of_workload,
        notes: &[SOILED],
    }
}

fn bytes(scale: Scale, tenths: u64, divisor: u64) -> u64 {
    scale.bytes(tenths, divisor)
}

fn sizes(published: &str, here: u64) -> String {
    format!("published: {published}; here: {}", size(here))
}

fn room(disk: u64) -> u64 {
    disk * 2 + (256 << 20)
}

/// A new datastore whose free blocks are soiled.
fn prepare(context: &Context) -> Result<()> {
    let unit = context.bench.other();
    context.bench.format(unit)?;
    let mut stores = vec![context.bench.mount(unit, "esx1", &Vaai::On.settings())?];
    let free = stores[0].volume.space()?.free_bytes;
    let share = (free / 10 * 9) >> 20 << 20;
    let file = stores[0].volume.create_disk(DISK, share, DiskFormat::ZeroedThick)?;
    stores[0].volume.close(file)?;
    content::soil(&mut stores[0], DISK)?;
    stores[0].volume.remove_disk(DISK)?;
    context.unmount(stores)
}

fn create(context: &Context, way: Way, size: u64) -> Result<Run> {
    let unit = context.bench.other();
    let before = context.bench.space(unit);
    let settings = way.vaai.unwrap_or(Vaai::On).settings();
    let mut stores = vec![context.bench.mount(unit, "esx1", &settings)?];
    let ((), mut run) = Meter::measure(&mut stores, |stores| {
        let file = stores[0].volume.create_disk(DISK, size, DiskFormat::EagerZeroedThick)?;
        mover::eager_zero(&mut stores[0], file, &mut |_, _| std::ops::ControlFlow::Continue(()))?;
        Ok(())
    })?;
    context.unmount(stores)?;
    run.space = [before, context.bench.space(unit)];
    let mut stores = vec![context.bench.mount(unit, "esx2", &settings)?];
    content::check(&mut stores[0], DISK, &Layout { size, data: 0, seed: 0 })?;
    run.verified = Some(true);
    content::soil(&mut stores[0], DISK)?;
    let begun = Instant::now();
    stores[0].volume.remove_disk(DISK)?;
    run.figures.insert("delete, s".to_owned(), seconds_since(begun));
    context.unmount(stores)?;
    Ok(run)
}

fn write_first(context: &Context, way: Way) -> Result<Run> {
    const TRANSFER: u64 = 1 << 20;
    let unit = context.bench.other();
    let size = bytes(context.scale, 100, 20);
    let before = context.bench.space(unit);
    let settings = way.vaai.unwrap_or(Vaai::On).settings();
    let mut stores = vec![context.bench.mount(unit, "esx1", &settings)?];
    let mut file = stores[0].volume.create_disk(DISK, size, DiskFormat::ZeroedThick)?;
    let count = size / TRANSFER - 1;
    let (file, mut run) = Meter::measure(&mut stores, |stores| {
        for number in 0..count {
            let bytes = pattern(6, number * TRANSFER, TRANSFER);
            let at = GUEST_OFFSET + number * TRANSFER;
            stores[0].volume.write_at(&mut file, at, &bytes)?;
        }
        Ok(file)
    })?;
    stores[0].volume.close(file)?;
    context.unmount(stores)?;
    let workload = (count * TRANSFER) as f64;
    run.figures.insert("workload, MB/s".to_owned(), workload / run.seconds / 1e6);
    let wire = run.counters.wire_bytes as f64;
    run.figures.insert("wire, MB/s".to_owned(), wire / run.seconds / 1e6);
    run.figures.insert("wire/workload".to_owned(), wire / workload);
    run.space = [before, context.bench.space(unit)];
    read_first(context, unit, count)?;
    run.verified = Some(true);
    Ok(run)
}

fn read_first(context: &Context, unit: usize, count: u64) -> Result<()> {
    let mut stores = vec![context.bench.mount(unit, "esx2", &Vaai::On.settings())?];
    let volume = &mut stores[0].volume;
    let file = volume.open_disk(DISK, LockMode::ReadOnly)?;
    let mut read = vec![0xee; 1 << 20];
    volume.read_at(&file, 0, &mut read[..GUEST_OFFSET as usize])?;
    let head = read[..GUEST_OFFSET as usize].iter().all(|byte| *byte == 0);
    ensure!(head, "WRONG CONTENTS: what the guest never wrote is not zero");
    for number in 0..count {
        volume.read_at(&file, GUEST_OFFSET + (number << 20), &mut read)?;
        ensure!(
            read == pattern(6, number << 20, 1 << 20),
            "WRONG CONTENTS: write {number} is lost"
        );
    }
    let mut rest = vec![0xee; (file.length() - GUEST_OFFSET - (count << 20)) as usize];
    volume.read_at(&file, GUEST_OFFSET + (count << 20), &mut rest)?;
    ensure!(
        rest.iter().all(|byte| *byte == 0),
        "WRONG CONTENTS: behind the guest's last write it is not zero"
    );
    volume.close(file)?;
    content::soil(&mut stores[0], DISK)?;
    stores[0].volume.remove_disk(DISK)?;
    context.unmount(stores)
}

fn twentyfold(_: &Context, variants: &[Variant]) -> Vec<Target> {
    vec![
        at_least("create eager zeroed", 20.0, ratio_of(variants, "off", "on")),
        wire_below("create eager zeroed", 0.01, variants, "off", "on"),
    ]
}

fn idle_interface(_: &Context, variants: &[Variant]) -> Vec<Target> {
    let run = variants.iter().find(|variant| variant.name == "on").and_then(|on| on.runs.first());
    let share =
        run.map(|run| run.counters.wire_bytes as f64 / written(&run.counters).max(1) as f64);
    vec![target(
        "interface idle while the volume is zeroed",
        "wire bytes < 1 % of the volume's",
        share.map(|share| format!("{:.2} %", share * 100.0)),
        share.map(|share| share < 0.01),
    )]
}

fn wire_of_workload(_: &Context, variants: &[Variant]) -> Vec<Target> {
    let found = figure(variants, "on", "wire/workload");
    vec![
        target(
            "bytes on the wire per byte of workload, on",
            "≤ 1.05",
            found.map(|found| format!("{found:.3}")),
            found.map(|found| found <= 1.05),
        ),
        doubled(variants),
    ]
}

/// The wire was the limit if as much went over it with the offloads off as on, within a tenth.
const SAME_WIRE: f64 = 0.1;

/// Twice the workload over the same wire, as published: judged only where the wire is the limit.
fn doubled(variants: &[Variant]) -> Target {
    let both = |name| Some([figure(variants, "off", name)?, figure(variants, "on", name)?]);
    let found = both("workload, MB/s").zip(both("wire, MB/s"));
    let told = found.map(|([off, on], [wire_off, wire_on])| {
        let is_limit = (wire_off - wire_on).abs() <= SAME_WIRE * wire_off.max(wire_on);
        let wire = format!("{wire_off:.0} and {wire_on:.0} MB/s on the wire");
        if is_limit {
            (format!("{:.2} ×, at {wire}", on / off), Some(on / off >= 1.8))
        } else {
            (format!("not judged: the wire was not the limit, {wire}"), None)
        }
    });
    let (text, met) = told.map_or((None, None), |(text, met)| (Some(text), met));
    target("workload, off against on, where the wire is the limit", "≥ 1.8 ×", text, met)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variants(off: [f64; 2], on: [f64; 2]) -> Vec<Variant> {
        let variant = |name: &str, [workload, wire]: [f64; 2]| {
            let figures = [("workload, MB/s", workload), ("wire, MB/s", wire)];
            let figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
            let runs = vec![Run { figures, ..Run::default() }];
            Variant { name: name.to_owned(), runs }
        };
        vec![variant("off", off), variant("on", on)]
    }

    #[test]
    fn the_doubling_is_judged_only_where_the_wire_is_the_limit() {
        for (off, on, met) in [
            ([226.1, 472.0], [473.5, 488.0], Some(true)),
            ([226.1, 472.0], [300.0, 480.0], Some(false)),
            ([226.1, 472.0], [400.0, 410.0], None),
        ] {
            let target = doubled(&variants(off, on));
            assert_eq!(target.met, met, "{}", target.found);
        }
        assert_eq!(doubled(&variants([1.0; 2], [1.0; 2])[..1]).met, None);
    }
}

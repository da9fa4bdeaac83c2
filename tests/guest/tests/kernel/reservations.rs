//! sg_persist over two nexuses: what one session reserves, the other must respect, and the kernel
//! sees it. `$C` and `$E` take commands alone, `$D` and `$F` are the same disks as block devices.

use anyhow::{Result, ensure};
use guest::{Bench, Need, Report};

const IN: Need = Need::Operation(0x5e);
const OUT: Need = Need::Operation(0x5f);

/// What sg3_utils ends with on the status RESERVATION CONFLICT.
const CONFLICT: i32 = 24;

#[test]
fn reservations_hold_between_two_sessions() -> Result<()> {
    let mut bench = Bench::start(2, 1)?;
    for (names, portal) in [("D", "C"), ("F", "E")].iter().zip(bench.portals.clone()) {
        bench.log_in(portal, &[])?;
        let disk = bench.disk(portal, 0);
        let generic = bench.sh(&format!("generic {disk}"))?;
        bench.machine.set(names.0, &disk)?;
        bench.machine.set(names.1, generic.trim())?;
    }
    bench.sh("udevadm settle; udevadm control --exit")?;
    let mut report = Report::new("reservations");
    let mut check = |name, need, run: fn(&mut Bench) -> Result<()>| {
        report.check(&mut bench, name, need, run);
    };
    check("RESERVE and RELEASE (6)", Need::None, reserve_6);
    check("sg_persist: capabilities", IN, capabilities);
    check("sg_persist: registrations of both nexuses, full status", OUT, register);
    check("sg_persist: a reservation of each type, and who may write", OUT, types);
    check("sg_persist: preempt", OUT, preempt);
    check("sg_persist: the reservation outlives kill -9 if it was asked to", OUT, persist);
    check("sg_persist: clear tells the other nexus", OUT, clear);
    check("a reset of the unit is told to the other session, once", Need::None, reset);
    report.finish(&bench)
}

/// RESERVE (6) has no tool of its own; sg_raw sends it.
fn reserve_6(bench: &mut Bench) -> Result<()> {
    bench.sh("sg_turs $C || true; sg_turs $E || true; sg_raw $C 16 00 00 00 00 00")?;
    let conflict = bench.try_sh("sg_raw $E 00 00 00 00 00 00")?;
    ensure!(conflict.status == CONFLICT, "{conflict}");
    bench.sh("sg_raw $C 17 00 00 00 00 00; sg_turs $E")?;
    Ok(())
}

fn capabilities(bench: &mut Bench) -> Result<()> {
    let told = bench.sh("sg_persist -i -c $C")?;
    for wanted in [
        "Persist Through Power Loss Capable(PTPL_C): 1",
        "Write Exclusive: 1",
        "Exclusive Access, all registrants: 1",
    ] {
        ensure!(told.contains(wanted), "'{wanted}' is not in\n{told}");
    }
    Ok(())
}

fn register(bench: &mut Bench) -> Result<()> {
    bench.sh("sg_persist -o -G -S 0xaaaa $C; sg_persist -o -G -S 0xbbbb $E")?;
    let keys = bench.sh("sg_persist -i -k $C")?;
    ensure!(keys.contains("2 registered reservation keys"), "{keys}");
    ensure!(keys.contains("0xaaaa") && keys.contains("0xbbbb"), "{keys}");
    let status = bench.sh("sg_persist -i -s $E")?;
    ensure!(status.matches("not reservation holder").count() == 2, "{status}");
    ensure!(status.matches(guest::bench::INITIATOR).count() == 2, "{status}");
    let wrong =
        bench.try_sh("sg_persist -o -G -K 0x1 -S 0x2 $C; sg_persist -o -R -K 0x1 -T 1 $C")?;
    ensure!(wrong.status == CONFLICT, "{wrong}");
    Ok(())
}

/// A registered nexus may write under the types of registrants, and no other.
fn types(bench: &mut Bench) -> Result<()> {
    for (kind, other_writes) in [(1, false), (3, false), (5, true), (6, true), (7, true), (8, true)]
    {
        bench.sh(&format!("sg_persist -o -R -K 0xaaaa -T {kind} $C; sg_persist -i -r $E"))?;
        let written = bench.try_sh("random 8 /tmp/r; put /tmp/r $F 0")?;
        ensure!((written.status == 0) == other_writes, "type {kind}: {written}");
        bench.sh(&format!("put /tmp/r $D 8; sg_persist -o -L -K 0xaaaa -T {kind} $C"))?;
        bench.sh("sg_turs $E || sg_turs $E; put /tmp/r $F 0; holds $D 0 8 /tmp/r")?;
    }
    Ok(())
}

fn preempt(bench: &mut Bench) -> Result<()> {
    bench.sh("sg_persist -o -R -K 0xaaaa -T 5 $C")?;
    bench.sh("sg_persist -o -P -K 0xbbbb -S 0xaaaa -T 5 $E")?;
    let told = bench.try_sh("sg_turs $C")?;
    ensure!(told.status == 6 && told.output.contains("preempted"), "{told}");
    let written = bench.try_sh("random 8 /tmp/r; put /tmp/r $D 0")?;
    ensure!(written.status != 0, "the preempted nexus still writes: {written}");
    let keys = bench.sh("put /tmp/r $F 0; sg_persist -i -k $C")?;
    ensure!(keys.contains("1 registered reservation key"), "{keys}");
    Ok(())
}

fn persist(bench: &mut Bench) -> Result<()> {
    bench.sh("sg_persist -o -I -S 0xbbbb -Z $E")?;
    bench.array.kill()?;
    bench.array.restart()?;
    bench.until("sg_turs $C && sg_turs $E")?;
    let held = bench.sh("sg_persist -i -r $C")?;
    ensure!(held.contains("0xbbbb"), "{held}");
    let written = bench.try_sh("random 8 /tmp/r; put /tmp/r $D 0")?;
    ensure!(written.status != 0, "the reservation is gone: {written}");
    bench.sh("put /tmp/r $F 0")?;
    Ok(())
}

fn clear(bench: &mut Bench) -> Result<()> {
    bench.sh("sg_persist -o -G -S 0xaaaa $C; sg_persist -o -C -K 0xaaaa $C")?;
    let told = bench.try_sh("sg_turs $E")?;
    ensure!(told.status == 6, "{told}");
    let keys = bench.sh("sg_persist -i -k $C")?;
    ensure!(keys.contains("NO registered reservation keys"), "{keys}");
    bench.sh("random 8 /tmp/r; put /tmp/r $D 0; put /tmp/r $F 8")?;
    Ok(())
}

/// The kernel keeps what its own reset brings from who asked for it; the other session's tool sees
/// it.
fn reset(bench: &mut Bench) -> Result<()> {
    bench.sh("sg_reset -N -d $D")?;
    let told = bench.try_sh("sg_turs -v $E")?;
    ensure!(told.status == 6 && told.output.contains("device reset"), "{told}");
    bench.sh("sg_turs $E; sg_turs $C || sg_turs $C; put /tmp/r $D 0; put /tmp/r $F 8")?;
    Ok(())
}

//! The page of a comparison: medians, ratios to the wire, and which targets are met.

use std::fmt::Write;

use super::super::report::{machine, median, sorted};
use super::servers::Peer;
use super::{MEASUREMENTS, Measured, Options, Results};

/// A target: our rate divided by somebody's, or our server's time per command.
struct Target {
    measurement: &'static str,
    ours: Peer,
    theirs: Peer,
    least: f64,
}

const fn target(measurement: &'static str, ours: Peer, theirs: Peer, least: f64) -> Target {
    Target { measurement, ours, theirs, least }
}

const TARGETS: [Target; 12] = [
    target("4 KiB random read, 1 × 32", Peer::GantryMemory, Peer::SpdkInterrupt, 0.9),
    target("4 KiB random read, 1 × 1", Peer::GantryMemory, Peer::SpdkPolling, 0.75),
    target("4 KiB random write, 1 × 32", Peer::GantryMemory, Peer::SpdkInterrupt, 0.8),
    target("4 KiB mixed 70/30, 4 × 32", Peer::GantryMemory, Peer::SpdkInterrupt, 0.9),
    target("128 KiB sequential read, 1 × 8", Peer::GantryMemory, Peer::SpdkPolling, 1.0),
    target("128 KiB sequential write, 1 × 8", Peer::GantryMemory, Peer::SpdkPolling, 1.0),
    target("COMPARE AND WRITE of 512 bytes, 1 × 8", Peer::GantryMemory, Peer::SpdkPolling, 1.0),
    target("4 KiB random read, 1 × 32", Peer::GantryFile, Peer::RawFile, 0.95),
    target("4 KiB random write, 1 × 32", Peer::GantryFile, Peer::RawFile, 1.0),
    target("4 KiB random write, 1 × 1", Peer::GantryFile, Peer::RawFile, 1.0),
    target("128 KiB sequential read, 1 × 8", Peer::GantryFile, Peer::SpdkFile, 1.0),
    target("128 KiB sequential write, 1 × 8", Peer::GantryFile, Peer::SpdkFile, 1.0),
];

/// Commands per second of our daemon on a file, at least.
const RATES: [(&str, f64); 3] = [
    ("EXTENDED COPY of 4 MiB, 1 × 4", 60_000.0),
    ("WRITE SAME of zeros, 1 MiB of data, 1 × 4", 100_000.0),
    ("UNMAP of 1 MiB of data, 1 × 4", 100_000.0),
];

pub(super) fn page(results: &Results, about: &[String], options: &Options) -> String {
    let mut page = String::from("# Benchmarks beside other targets\n\n");
    let _ = writeln!(
        page,
        "Written by `cargo xtask bench peers`: {} interleaved rounds of {} s each, medians. All servers run on core 0 (a server that polls is stopped while others are measured), the client on core 1, over loopback TCP. '1 × 32' is one session with 32 commands outstanding. LUNs of 1 GiB are written full with data first, Gantry's five times: its pools of 4 GiB were then written all over once, as memory and files of the others were. The client sends each command by itself, as the kernel's initiator does, and sleeps while nothing arrives. {}. {}.\n",
        options.rounds,
        options.seconds,
        about.join("; "),
        machine()
    );
    page += "`gantryd` on a file answers when data are stable; SPDK and tgt do not flush. WRITE SAME and UNMAP go once over 1 GiB of data that are written before, three times over. 'Busy' is the share of its processor that the client used: near 100 %, the client limits the figure.\n\n";
    for (number, measurement) in MEASUREMENTS.iter().enumerate() {
        let rows: Vec<_> =
            results.range((number, Peer::GantryMemory)..=(number, Peer::RawFile)).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(page, "## {}\n", measurement.name);
        page += "| server | per second | of the wire | p50, p99 µs | server µs per command | busy |\n|---|---|---|---|---|---|\n";
        let wire = rate(results, number, Peer::Wire);
        for ((_, peer), rounds) in rows {
            page += &row(*peer, rounds, wire);
        }
        page += "\n";
    }
    page += &targets(results);
    page
}

fn row(peer: Peer, rounds: &[Result<Measured, String>], wire: Option<f64>) -> String {
    let good: Vec<_> = rounds.iter().flatten().collect();
    if good.is_empty() {
        let why = rounds.iter().find_map(|round| round.as_ref().err());
        let why = why.map_or("", |why| why.trim().lines().last().unwrap_or(""));
        return format!("| {} | none: {} | | | | |\n", peer.words(), why.replace('|', "/"));
    }
    let median_of = |read: &dyn Fn(&Measured) -> Option<f64>| {
        median(&sorted(good.iter().filter_map(|measured| read(measured))))
    };
    let rates = sorted(good.iter().map(|measured| measured.per_second));
    let rate = median(&rates).unwrap_or(0.0);
    let of_wire = wire.map_or(String::new(), |wire| format!("{:.2}", rate / wire));
    let p50 = median_of(&|measured| measured.latency.map(|latency| latency.p50));
    let p99 = median_of(&|measured| measured.latency.map(|latency| latency.p99));
    let latency = p50.zip(p99).map_or(String::new(), |(p50, p99)| format!("{p50:.0}, {p99:.0}"));
    let cpu = median_of(&|measured| measured.server_cpu_us);
    let cpu = cpu.map_or(String::new(), |cpu| format!("{cpu:.2}"));
    let busy = median_of(&|measured| measured.client_busy);
    let busy = busy.map_or(String::new(), |busy| format!("{:.0} %", busy * 100.0));
    format!(
        "| {} | {rate:.0} ({:.0} to {:.0}) | {of_wire} | {latency} | {cpu} | {busy} |\n",
        peer.words(),
        rates.first().unwrap_or(&0.0),
        rates.last().unwrap_or(&0.0),
    )
}

fn targets(results: &Results) -> String {
    let mut text = String::from("## Targets\n\n| measure | reached | wanted |\n|---|---|---|\n");
    for target in &TARGETS {
        let number = MEASUREMENTS.iter().position(|known| known.name == target.measurement);
        let ratio = number.and_then(|number| {
            Some(rate(results, number, target.ours)? / rate(results, number, target.theirs)?)
        });
        let reached = ratio.map_or("not measured".to_owned(), |ratio| format!("{ratio:.2}"));
        let _ = writeln!(
            text,
            "| {}: {} / {} | {reached} | {} |",
            target.measurement,
            target.ours.words(),
            target.theirs.words(),
            target.least
        );
    }
    for (name, least) in RATES {
        let number = MEASUREMENTS.iter().position(|known| known.name == name);
        let reached = number.and_then(|number| rate(results, number, Peer::GantryFile));
        let reached = reached.map_or("not measured".to_owned(), |rate| format!("{rate:.0}"));
        let _ = writeln!(
            text,
            "| {name}: {}, per second | {reached} | {least:.0} |",
            Peer::GantryFile.words()
        );
    }
    text
}

fn rate(results: &Results, number: usize, peer: Peer) -> Option<f64> {
    let rounds = results.get(&(number, peer))?;
    median(&sorted(rounds.iter().flatten().map(|measured| measured.per_second)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_names_a_measurement() {
        let names: Vec<_> = MEASUREMENTS.iter().map(|measurement| measurement.name).collect();
        assert!(TARGETS.iter().all(|target| names.contains(&target.measurement)));
        assert!(RATES.iter().all(|(name, _)| names.contains(name)));
    }

    #[test]
    fn a_peer_that_refuses_has_a_row_that_says_why() {
        let row = row(Peer::TgtFile, &[Err("client failed\nstatus 02h | none\n".to_owned())], None);
        assert_eq!(
            row,
            format!("| {} | none: status 02h / none | | | | |\n", Peer::TgtFile.words())
        );
    }
}

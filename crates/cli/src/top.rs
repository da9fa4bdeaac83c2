//! `gantry top`: what goes on now, by volume, host and primitive.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::Result;
use api::{Live, NamedRates, PrimitiveRate, PrimitiveRates, RowRates};
use clap::{Args, ValueEnum};

use crate::commands::Invocation;
use crate::tables::{Table, table};
use notation::format_size;

/// Moves to the upper left corner and clears what lies below.
const CLEAR: &str = "\x1b[H\x1b[J";

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// What a line stands for.
    #[arg(long, value_enum, default_value_t = By::Lun)]
    by: By,
    /// Seconds between two looks; the rates are of the last second.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    delay: u64,
    /// Looks, until stopped if left out.
    #[arg(long)]
    count: Option<u64>,
}

/// What a line stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// A volume, with all of its hosts.
    Lun,
    /// A host, with all of its volumes.
    Host,
    /// A host on a volume.
    Row,
    /// A primitive, with all hosts and volumes.
    Primitive,
}

impl Invocation {
    pub(crate) fn top(&self, arguments: &TopArguments) -> Result<()> {
        let mut looks = 0;
        while arguments.count.is_none_or(|count| looks < count) {
            if looks > 0 {
                std::thread::sleep(Duration::from_secs(arguments.delay));
            }
            looks += 1;
            let live: Live = self.client.get("/v1/statistics/live")?;
            let text = if self.is_json() {
                serde_json::to_string(&live)?
            } else {
                screen(&live, arguments.by)
            };
            let mut out = std::io::stdout();
            if out.is_terminal() && !self.is_json() {
                write!(out, "{CLEAR}")?;
            }
            writeln!(out, "{text}")?;
            out.flush()?;
        }
        Ok(())
    }
}

fn screen(live: &Live, by: By) -> String {
    let mut text = summary(&live.total);
    let lines = match by {
        By::Lun => busiest(&["VOLUME"], live.volumes.iter().map(named)),
        By::Host => busiest(&["HOST"], live.hosts.iter().map(named)),
        By::Row => busiest(&["HOST", "VOLUME", "LUN"], live.rows.iter().map(row)),
        By::Primitive => primitives(&live.total),
    };
    let _ = write!(text, "\n{lines}");
    text
}

fn summary(total: &PrimitiveRates) -> String {
    let sum = |names: &[&str]| {
        let rates = names.iter().filter_map(|name| total.get(*name));
        rates.fold((0.0, 0.0), |(commands, bytes), rate| {
            (commands + rate.commands, bytes + rate.bytes)
        })
    };
    let (io, io_bytes) = sum(&["read", "write"]);
    let offloads = ["compare_and_write", "extended_copy", "write_same", "unmap", "token"];
    let (offloaded, offloaded_bytes) = sum(&offloads);
    format!(
        "hosts move {}/s in {io:.0} commands/s; offloaded {}/s in {offloaded:.0} commands/s\n",
        size(io_bytes),
        size(offloaded_bytes)
    )
}

fn named(entry: &NamedRates) -> (Vec<String>, &PrimitiveRates) {
    (vec![entry.name.clone()], &entry.rates)
}

fn row(row: &RowRates) -> (Vec<String>, &PrimitiveRates) {
    let lun = row.lun.map_or_else(|| "-".to_owned(), |lun| lun.to_string());
    (vec![row.host.clone(), row.volume.clone(), lun], &row.rates)
}

/// One line each, the busiest first.
fn busiest<'a>(
    heads: &[&str],
    entries: impl Iterator<Item = (Vec<String>, &'a PrimitiveRates)>,
) -> Table {
    let mut entries: Vec<_> = entries.collect();
    let bytes = |rates: &PrimitiveRates| rates.values().map(|rate| rate.bytes).sum::<f32>();
    entries.sort_by(|(a, rates_a), (b, rates_b)| {
        bytes(rates_b).total_cmp(&bytes(rates_a)).then_with(|| a.cmp(b))
    });
    let columns = [
        "READS/s", "READ/s", "RLAT us", "WRITES/s", "WRITE/s", "WLAT us", "ATS/s", "CLONES/s",
        "CLONE/s", "ZERO/s", "UNMAP/s",
    ];
    let mut lines = table(&[heads, &columns].concat());
    for (mut cells, rates) in entries {
        cells.extend(rate_cells(rates));
        lines.add_row(cells);
    }
    lines
}

fn rate_cells(rates: &PrimitiveRates) -> [String; 11] {
    let of = |name: &str| rates.get(name).copied().unwrap_or_default();
    let (read, write) = (of("read"), of("write"));
    let clone = of("extended_copy");
    [
        count(read.commands),
        size(read.bytes),
        count(read.latency_us),
        count(write.commands),
        size(write.bytes),
        count(write.latency_us),
        count(of("compare_and_write").commands),
        count(clone.commands),
        size(clone.bytes),
        size(of("write_same").bytes),
        size(of("unmap").bytes),
    ]
}

fn primitives(total: &PrimitiveRates) -> Table {
    let mut lines = table(&["PRIMITIVE", "COMMANDS/s", "BYTES/s", "LATENCY us"]);
    for (name, PrimitiveRate { commands, bytes, latency_us }) in total {
        lines.add_row([name.clone(), count(*commands), size(*bytes), count(*latency_us)]);
    }
    lines
}

fn count(value: f32) -> String {
    format!("{value:.0}")
}

fn size(bytes: f32) -> String {
    format_size(bytes as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn rates(bytes: f32) -> PrimitiveRates {
        let rate = PrimitiveRate { commands: 4.0, bytes, latency_us: 250.0 };
        BTreeMap::from([("read".to_owned(), rate), ("extended_copy".to_owned(), rate)])
    }

    fn live() -> Live {
        let named = |name: &str, bytes| NamedRates { name: name.to_owned(), rates: rates(bytes) };
        let row = RowRates {
            host: "esx1".to_owned(),
            volume: "p/a".to_owned(),
            lun: Some(3),
            rates: rates(1024.0),
        };
        Live {
            time: 0,
            interval_seconds: 1,
            total: rates(4096.0),
            volumes: vec![named("p/quiet", 1024.0), named("p/busy", 1_048_576.0)],
            hosts: vec![named("esx1", 4096.0)],
            rows: vec![row],
        }
    }

    #[test]
    fn the_busiest_comes_first() {
        let text = screen(&live(), By::Lun);
        let place = |name: &str| text.find(name).expect("a line");
        assert!(place("p/busy") < place("p/quiet"), "{text}");
        assert!(
            text.starts_with("hosts move 4 KiB/s in 4 commands/s; offloaded 4 KiB/s"),
            "{text}"
        );
    }

    #[test]
    fn every_way_to_look_shows_its_lines() {
        for (by, name) in [(By::Host, "esx1"), (By::Row, "p/a"), (By::Primitive, "extended_copy")] {
            assert!(screen(&live(), by).contains(name), "{by:?}");
        }
    }

    #[test]
    fn an_idle_array_has_no_lines() {
        let live = Live {
            total: BTreeMap::new(),
            volumes: Vec::new(),
            hosts: Vec::new(),
            rows: Vec::new(),
            ..live()
        };
        assert_eq!(screen(&live, By::Primitive).lines().count(), 3);
    }
}

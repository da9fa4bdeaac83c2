//! The array's own side of a measurement: its processor time, by the id of its process, and its own
//! counters, from log page 19h of its LUNs and from a page in Prometheus' text format, both read
//! while a case runs.

pub(super) mod statistics;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::statistics::Units;
use super::model::Processor;
use crate::initiator::raw;

/// Between two looks at the page.
const EVERY: Duration = Duration::from_millis(100);

/// For a page to be answered.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of a page at most.
const PAGE_MAX: u64 = 16 << 20;

/// Looks that are kept of one measurement at most; a longer one has its rates from these.
const LOOKS_MAX: usize = 100_000;

/// The processor time of a process, as Prometheus' clients call it.
const PROCESSOR: &str = "process_cpu_seconds_total";

/// A rate: name with unit, the unit's size, and which counters are added up for it; the first list
/// counts of which there is a counter.
type Group = (&'static str, f64, &'static [&'static [&'static str]]);

/// Counters of Gantry, or of Prometheus' exporter for a machine; those of log page 19h.
const GROUPS: [Group; 8] = [
    (
        "array interface, MB/s",
        1e6,
        &[
            &["gantry_received_bytes_total", "gantry_sent_bytes_total"],
            &["node_network_receive_bytes_total", "node_network_transmit_bytes_total"],
        ],
    ),
    (
        "array devices written, MB/s",
        1e6,
        &[
            &["gantry_pool_written_bytes_total", "gantry_pool_journal_bytes_total"],
            &["node_disk_written_bytes_total"],
        ],
    ),
    (
        "array devices read, MB/s",
        1e6,
        &[&["gantry_pool_read_bytes_total"], &["node_disk_read_bytes_total"]],
    ),
    (
        "array offloaded, MB/s",
        1e6,
        &[&["gantry_cloned_bytes_total", "gantry_copied_bytes_total", "gantry_zeroed_bytes_total"]],
    ),
    ("array LUNs received, MB/s", 1e6, &[&[statistics::RECEIVED]]),
    ("array LUNs transmitted, MB/s", 1e6, &[&[statistics::TRANSMITTED]]),
    ("array LUNs, writes/s", 1.0, &[&[statistics::WRITES]]),
    ("array LUNs, reads/s", 1.0, &[&[statistics::READS]]),
];

/// Where the array's own figures come from.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Its process, when it runs on this machine.
    pub process: Option<u32>,
    /// `http://HOST:PORT/PATH` of its counters.
    pub metrics: Option<String>,
    /// A token for that page.
    pub token: Option<String>,
    /// Counters of the page that are drawn besides those that are known.
    pub counters: Vec<String>,
}

static SOURCE: OnceLock<Source> = OnceLock::new();

/// Sets the source for the process, once.
///
/// # Errors
/// When there is no such process, or the page cannot be read or lacks a counter that is asked for.
pub fn choose(source: Source) -> Result<()> {
    if let Some(process) = source.process {
        let known = raw::processor_time(Some(process)).is_some();
        ensure!(known, "--array-pid: there is no process {process}");
    }
    if source.metrics.is_some() {
        let page = source.read().context("--array-metrics")?;
        for name in &source.counters {
            ensure!(page.contains_key(name), "--array-counter: the page has no {name}");
        }
    }
    // A second validation of the same process keeps the source of the first.
    let _ = SOURCE.set(source);
    Ok(())
}

/// Sums of counters by name, over all labels.
type Page = BTreeMap<String, f64>;

impl Source {
    fn read(&self) -> Result<Page> {
        let url = self.metrics.as_deref().context("no address")?;
        let rest = url.strip_prefix("http://").context("write http://HOST:PORT/PATH")?;
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address = place.to_socket_addrs()?.next().context("an address without host")?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let token = self.token.as_ref();
        let token =
            token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
        // In one piece: some servers take the first packet for all of it.
        let request =
            format!("GET /{path} HTTP/1.0\r\nHost: {place}\r\n{token}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(PAGE_MAX).read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer of HTTP")?;
        let status = head.split_whitespace().nth(1).unwrap_or_default();
        if status != "200" {
            bail!("{url} answers with status {status}");
        }
        Ok(parse(body))
    }

    fn wants(&self, name: &str) -> bool {
        let known =
            |group: &Group| group.2.iter().flat_map(|set| set.iter()).any(|one| *one == name);
        name == PROCESSOR
            || GROUPS.iter().any(known)
            || self.counters.iter().any(|wanted| wanted == name)
    }

    fn look(&self) -> Option<Page> {
        let mut page = self.read().ok()?;
        page.retain(|name, _| self.wants(name));
        Some(page)
    }

    fn processor(&self) -> Option<f64> {
        self.process.and_then(|id| raw::processor_time(Some(id))).map(|time| time.as_secs_f64())
    }
}

/// `NAME{LABELS} VALUE [TIME]`, a line for each.
fn parse(text: &str) -> Page {
    let mut page = Page::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let end = line.find(['{', ' ']).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        let values = rest.rsplit_once('}').map_or(rest, |(_, values)| values);
        let value = values.split_whitespace().next().and_then(|value| value.parse::<f64>().ok());
        if let Some(value) = value.filter(|value| value.is_finite()) {
            *page.entry(name.to_owned()).or_default() += value;
        }
    }
    page
}

/// Looks at the page, in order: seconds since the beginning, and what it said.
type Looks = Vec<(f64, Page)>;

/// Looks at the array while something is measured.
pub(super) struct Watch {
    host: Option<Duration>,
    array: Option<f64>,
    stop: Arc<AtomicBool>,
    looker: Option<JoinHandle<Looks>>,
}

/// A sum over time: seconds, and its value then; in order.
pub(super) type Sums = Vec<(f64, f64)>;

/// What it saw.
#[derive(Default)]
pub(super) struct Seen {
    /// Processor time of host and array, without the bytes that it was for.
    pub(super) processor: Processor,
    /// Sums of rates over time: name, the unit's size, seconds and sums.
    pub(super) rates: Vec<(String, f64, Sums)>,
}

impl Watch {
    /// Begins.
    pub(super) fn begin() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let source = SOURCE.get();
        let page = source.filter(|source| source.metrics.is_some());
        let units = statistics::chosen();
        let looker = (page.is_some() || !units.is_empty()).then(|| {
            let (begun, first_look) = mpsc::channel();
            let stop = Arc::clone(&stop);
            let looker = thread::spawn(move || look(page, &units, &begun, &stop));
            // What is measured begins behind the first look. A looker that ended says nothing.
            let _ = first_look.recv();
            looker
        });
        let array = source.and_then(Source::processor);
        Self { host: raw::processor_time(None), array, stop, looker }
    }

    /// Ends.
    pub(super) fn end(self) -> Seen {
        let host = raw::processor_time(None).zip(self.host);
        let host = host.map(|(now, before)| now.saturating_sub(before).as_secs_f64());
        let source = SOURCE.get();
        let array = source.and_then(Source::processor).zip(self.array);
        let array = array.map(|(now, before)| (now - before).max(0.0));
        self.stop.store(true, Ordering::Relaxed);
        let looks = self.looker.and_then(|thread| {
            thread.thread().unpark();
            thread.join().ok()
        });
        let looks = looks.unwrap_or_default();
        let of = |names: &[&str]| sums(&looks, names);
        let by_page = of(&[PROCESSOR]).map(|sums| sums[sums.len() - 1].1 - sums[0].1);
        let processor = Processor { host, array: array.or(by_page), bytes: 0 };
        let known = GROUPS.iter().filter_map(|(name, unit, sets)| {
            let found = sets.iter().find_map(|names| of(names))?;
            Some(((*name).to_owned(), *unit, found))
        });
        let asked = source.iter().flat_map(|source| &source.counters);
        let asked =
            asked.filter_map(|name| Some((format!("array {name}, per s"), 1.0, of(&[name])?)));
        Seen { processor, rates: known.chain(asked).collect() }
    }
}

/// Looks at the page, if there is one, and at LUNs, until it is told to stop, and once after that.
fn look(
    source: Option<&Source>,
    units: &[(String, String)],
    begun: &mpsc::Sender<()>,
    stop: &AtomicBool,
) -> Looks {
    let mut units = Units::connect(units);
    let mut looks = Looks::new();
    let mut started = None;
    loop {
        let last = stop.load(Ordering::Relaxed);
        if looks.len() < LOOKS_MAX {
            let mut page = source.and_then(Source::look).unwrap_or_default();
            units.look(&mut page);
            let at = started.map_or(0.0, |started: Instant| started.elapsed().as_secs_f64());
            if !page.is_empty() {
                looks.push((at, page));
            }
        }
        if started.is_none() {
            started = Some(Instant::now());
            // Who does not wait any more needs no word.
            let _ = begun.send(());
        }
        if last {
            return looks;
        }
        thread::park_timeout(EVERY);
    }
}

/// The sum of some counters at each look; none when no look has any of them.
fn sums(looks: &Looks, names: &[&str]) -> Option<Sums> {
    let sum = |page: &Page| {
        let found: Vec<f64> = names.iter().filter_map(|name| page.get(*name).copied()).collect();
        (!found.is_empty()).then(|| found.iter().sum::<f64>())
    };
    let sums: Sums = looks.iter().filter_map(|(at, page)| Some((*at, sum(page)?))).collect();
    (!sums.is_empty()).then_some(sums)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn counters_are_added_up_over_their_labels() {
        let page = parse(
            "# HELP a_total What it is.\n# TYPE a_total counter\na_total{x=\"1\"} 2\n\
             a_total{x=\"} 7\",y=\"2\"} 3.5 1700000000\nb 1e3\nc NaN\nd\n{} 4\n\n",
        );
        assert_eq!((page.get("a_total"), page.get("b")), (Some(&5.5), Some(&1000.0)));
        assert!(!page.contains_key("c") && !page.contains_key("d"));
    }

    #[test]
    fn a_page_is_read_and_what_is_none_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers = ["HTTP/1.1 200 OK\r\n\r\na 1\n", "HTTP/1.1 403 No\r\n\r\n", "a 1\n", ""];
        let server = thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 512];
                let length = stream.read(&mut asked).unwrap();
                assert!(asked[..length].starts_with(b"GET /metrics HTTP/1.0\r\n"));
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let source =
            Source { metrics: Some(format!("http://{address}/metrics")), ..Source::default() };
        assert_eq!(source.read().unwrap().get("a"), Some(&1.0));
        for _ in 1..answers.len() {
            assert!(source.read().is_err());
        }
        server.join().unwrap();
        let other = Source { metrics: Some("https://a/b".to_owned()), ..Source::default() };
        assert!(other.read().is_err());
    }

    #[test]
    fn processor_time_is_that_of_a_process() {
        let before = raw::processor_time(Some(std::process::id())).unwrap();
        let mut sum = 0_u64;
        while raw::processor_time(None).unwrap() < before + Duration::from_millis(5) {
            sum = (0..1000).fold(sum, |sum, one| sum.wrapping_mul(31).wrapping_add(one));
        }
        assert!(raw::processor_time(Some(std::process::id())).unwrap() > before, "{sum}");
        assert_eq!(raw::processor_time(Some(u32::MAX >> 1)), None);
    }
}

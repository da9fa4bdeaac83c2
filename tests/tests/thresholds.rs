//! Hosts and administrators are told how full a pool or a volume becomes: once, and again when it
//! was not so full in between.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::http::Request;
use harness::pdu::RawSession;
use harness::{Array, Value, initiator, text};

const TOLD: Option<(u8, u8, u8)> = Some((6, 0x38, 7));
const PATIENCE: Duration = Duration::from_secs(30);

/// Longer than the array takes to look again.
const A_WHILE: Duration = Duration::from_millis(2500);

struct Bench {
    array: Array,
    sessions: Vec<RawSession>,
}

impl Bench {
    /// Two hosts that see LUN 0, a thin volume larger than the pool, LUN 1, a small one, and LUN
    /// 2, a thick one, and were told of everything that comes with a login.
    fn start() -> Result<Self> {
        let array = Array::start()?;
        array.create_pool("p", "1G")?;
        array.gantry(&["pool", "set", "p", "--soft", "20", "--hard", "50"])?;
        array.create_lun("p/large", "4G")?;
        array.create_lun("p/small", "64M")?;
        array.gantry(&["volume", "create", "p/thick", "--size", "16M", "--thick"])?;
        array.gantry(&["volume", "map", "p/thick", "--host", "any"])?;
        let target = array.target_name()?;
        let log_in = |name| RawSession::log_in(array.portal(), name, &target);
        let sessions =
            vec![log_in("iqn.2026-01.org.example:a")?, log_in("iqn.2026-01.org.example:b")?];
        let mut bench = Self { array, sessions };
        for session in 0..2 {
            for lun in 0..3 {
                bench.sessions[session].read(lun, &[0; 6], 0)?.good()?;
            }
        }
        Ok(bench)
    }

    fn io(&self, lun: u16, command: &str) -> Result<()> {
        initiator::qemu_io(&["-f", "raw", &self.array.lun_url(lun)?], &[command]).map(drop)
    }

    fn ask(&mut self, session: usize, lun: u8) -> Result<Option<(u8, u8, u8)>> {
        Ok(self.sessions[session].read_once(lun, &[0; 6], 0)?.code())
    }

    /// Both hosts are told of those LUNs, once each, and of the others nothing.
    fn assert_told_once(&mut self, luns: &[u8]) -> Result<()> {
        for (session, &lun) in (0..2).flat_map(|session| luns.iter().map(move |l| (session, l))) {
            let begun = Instant::now();
            loop {
                match self.ask(session, lun)? {
                    TOLD => break,
                    None => thread::sleep(Duration::from_millis(50)),
                    other => panic!("host {session}, LUN {lun}: {other:02x?}"),
                }
                ensure!(begun.elapsed() < PATIENCE, "host {session} is not told of LUN {lun}");
            }
        }
        self.assert_silence()
    }

    fn assert_silence(&mut self) -> Result<()> {
        thread::sleep(A_WHILE);
        for session in 0..2 {
            for lun in 0..3 {
                assert_eq!(self.ask(session, lun)?, None, "host {session}, LUN {lun}");
            }
        }
        Ok(())
    }

    /// The latest event, once it is about that object and says so. How full it says the object is
    /// depends on when the array looked: a write may have been half done.
    fn assert_event(&self, object: &str, severity: &str, words: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            let events = self.array.gantry_json(&["events"])?;
            let is_meant = |event: &&Value| event["object"] == object;
            let last = events.as_array().and_then(|list| list.iter().rfind(is_meant).cloned());
            if let Some(last) = last
                && text(&last, "/message")?.contains(words)
            {
                assert_eq!(text(&last, "/severity")?, severity, "{last}");
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "no '{words}' of {object} in {events}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn hosts_are_told_once_of_each_threshold_of_a_pool_and_again_after_it_was_left() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.assert_silence()?;
    bench.io(0, "write -P 1 0 260M")?;
    bench.assert_event("pool p", "warning", "the soft threshold is 20 %")?;
    bench.assert_told_once(&[0, 1])?;
    bench.io(0, "write -P 1 260M 300M")?;
    bench.assert_event("pool p", "error", "the hard threshold is 50 %")?;
    bench.assert_told_once(&[0, 1])?;
    assert_eq!(text(&bench.array.gantry_json(&["pool", "show", "p"])?, "/fill")?, "hard");
    bench.io(0, "discard 0 560M")?;
    bench.assert_event("pool p", "information", "below the soft threshold of 20 % again")?;
    bench.assert_silence()?;
    bench.io(0, "write -P 2 0 260M")?;
    bench.assert_told_once(&[0, 1])
}

#[test]
fn hosts_are_told_of_the_volume_that_fills_and_of_no_other() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.array.gantry(&["volume", "set", "p/small", "--soft", "40", "--hard", "80"])?;
    bench.io(2, "write -P 1 0 16M")?;
    bench.io(1, "write -P 1 0 32M")?;
    bench.assert_event("volume p/small", "warning", "the soft threshold is 40 %")?;
    bench.assert_told_once(&[1])?;
    bench.io(1, "write -P 1 32M 32M")?;
    bench.assert_event("volume p/small", "error", "the hard threshold is 80 %")?;
    bench.assert_told_once(&[1])?;
    let volume = bench.array.gantry_json(&["volume", "show", "p/small"])?;
    assert_eq!(text(&volume, "/fill")?, "hard");
    bench.io(1, "discard 0 64M")?;
    bench.assert_event("volume p/small", "information", "below the soft threshold")?;
    bench.assert_silence()?;
    bench.io(1, "write -P 1 0 32M")?;
    bench.assert_told_once(&[1])
}

/// A host that logs in while the pool is full beyond its threshold learns of it too.
#[test]
fn a_host_that_comes_later_is_told_too() -> Result<()> {
    let bench = Bench::start()?;
    bench.io(0, "write -P 1 0 260M")?;
    bench.assert_event("pool p", "warning", "the soft threshold is 20 %")?;
    let (name, target) = ("iqn.2026-01.org.example:c", bench.array.target_name()?);
    let mut session = RawSession::log_in(bench.array.portal(), name, &target)?;
    let mut told = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while !told.contains(&(6, 0x38, 7)) && Instant::now() < deadline {
        match session.read_once(0, &[0; 6], 0)?.code() {
            Some(code) => told.push(code),
            None => thread::sleep(Duration::from_millis(50)),
        }
    }
    assert!(told.contains(&(6, 0x38, 7)), "{told:02x?}");
    Ok(())
}

#[test]
fn thresholds_that_make_no_sense_are_refused() -> Result<()> {
    let bench = Bench::start()?;
    for (soft, hard) in [("0", "50"), ("60", "50"), ("50", "101"), ("101", "101")] {
        for object in [["pool", "set", "p"], ["volume", "set", "p/small"]] {
            let words = [&object[..], &["--soft", soft, "--hard", hard]].concat();
            let refusal = bench.array.try_gantry(&words)?.failure()?;
            assert!(refusal.contains("threshold"), "{words:?}: {refusal}");
        }
    }
    let pool = bench.array.gantry_json(&["pool", "show", "p"])?;
    assert_eq!(pool["thresholds"], serde_json::json!({"soft_percent": 20, "hard_percent": 50}));
    Ok(())
}

/// A pool in which a schedule made snapshots of four contents of a volume, each of 160 MiB.
struct Scheduled {
    array: Array,
}

impl Scheduled {
    fn start() -> Result<Self> {
        let array = Array::start()?;
        array.create_pool("p", "1G")?;
        array.create_lun("p/v", "256M")?;
        let words = ["schedule", "create", "s", "--volume", "p/v", "--every", "1s", "--off"];
        array.gantry(&[&words[..], &["--keep", "1000"]].concat())?;
        Ok(Self { array })
    }

    /// The names of all snapshots, oldest first.
    fn snapshots(&self) -> Result<Vec<String>> {
        let all = self.array.gantry_json(&["snapshot", "list"])?;
        let names = all.as_array().into_iter().flatten();
        names.map(|one| Ok(text(one, "/name")?.to_owned())).collect()
    }

    /// Writes other data everywhere, and takes scheduled snapshots of it; their names.
    fn content(&self, pattern: u8) -> Result<Vec<String>> {
        let before = self.snapshots()?;
        let write = format!("write -P {pattern} 0 160M");
        initiator::qemu_io(&["-f", "raw", &self.array.lun_url(0)?], &[&write])?;
        self.array.gantry(&["schedule", "change", "s", "--on"])?;
        let made = || -> Result<Vec<String>> {
            Ok(self.snapshots()?.into_iter().filter(|name| !before.contains(name)).collect())
        };
        self.wait("snapshots", || Ok(made()?.len() >= 2))?;
        self.array.gantry(&["schedule", "change", "s", "--off"])?;
        // A run that had begun ends.
        thread::sleep(Duration::from_secs(1));
        made()
    }

    fn wait(&self, what: &str, mut is_over: impl FnMut() -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        while !is_over()? {
            let events = || self.array.gantry(&["events"]).unwrap_or_default();
            ensure!(begun.elapsed() < PATIENCE, "no {what}:\n{}", events());
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn used_percent(&self) -> Result<u64> {
        harness::number(&self.array.gantry_json(&["pool", "show", "p"])?, "/space/used_percent")
    }

    fn events(&self, words: &str) -> Result<Vec<String>> {
        let events = self.array.gantry_json(&["events"])?;
        let events = events.as_array().into_iter().flatten();
        let events = events.filter(|event| event["message"].to_string().contains(words));
        events.map(|event| Ok(text(event, "/object")?.to_owned())).collect()
    }

    /// Exactly those are gone; an event and an entry of the audit log name each.
    fn assert_deleted(&self, deleted: &[String]) -> Result<()> {
        let paths = |prefix: &str| -> Vec<String> {
            deleted.iter().map(|name| format!("{prefix}p/{name}")).collect()
        };
        assert_eq!(self.events("was deleted by the array")?, paths("snapshot "));
        let audit = self.array.gantry_json(&["audit"])?;
        let audit = audit.as_array().into_iter().flatten().rev();
        let own = audit.filter(|entry| entry["user"] == "array" && entry["method"] == "DELETE");
        let own: Vec<String> =
            own.map(|entry| text(entry, "/path").map(str::to_owned)).collect::<Result<_>>()?;
        assert_eq!(own, paths("/v1/snapshots/"));
        Ok(())
    }
}

/// At its hard threshold a pool deletes the oldest scheduled snapshots, one after the other, until
/// it is below; nothing that is locked, made by hand or the newest; and nothing unless it is on.
#[test]
fn a_pool_at_its_hard_threshold_deletes_scheduled_snapshots_if_it_may() -> Result<()> {
    let bench = Scheduled::start()?;
    let first = bench.content(1)?;
    bench.array.gantry(&["snapshot", "lock", &format!("p/{}", first[0]), "--lock-for", "1d"])?;
    let second = bench.content(2)?;
    bench.array.gantry(&["snapshot", "create", "p/v", "mine"])?;
    let third = bench.content(3)?;
    let fourth = bench.content(4)?;
    ensure!(bench.used_percent()? >= 60);
    let all = bench.snapshots()?;
    bench.array.gantry(&["pool", "set", "p", "--soft", "40", "--hard", "60"])?;
    thread::sleep(A_WHILE);
    assert_eq!(bench.snapshots()?, all, "it is off");
    // The first content is held by what is locked, the second by what was made by hand: the space
    // of the third is the first that comes back, and no more is needed.
    bench.array.gantry(&["pool", "set", "p", "--delete-scheduled-snapshots", "on"])?;
    bench.wait("space", || Ok(bench.used_percent()? < 60))?;
    thread::sleep(A_WHILE);
    let deleted = [&first[1..], &second, &third].concat();
    bench.assert_deleted(&deleted)?;
    let left = [&first[..1], &["mine".to_owned()], &fourth].concat();
    assert_eq!(bench.snapshots()?, left);
    let pool = bench.array.gantry_json(&["pool", "show", "p"])?;
    assert_eq!(pool["delete_scheduled_snapshots"], true);
    assert_eq!(pool["thresholds"]["hard_percent"], 60, "what was not said stays");
    // What may not be deleted is not, and that is told once.
    bench.array.gantry(&["pool", "set", "p", "--soft", "10", "--hard", "20"])?;
    let (newest, older) = fourth.split_last().expect("there are two at least");
    bench.wait("end", || Ok(!bench.events("no scheduled snapshot is left")?.is_empty()))?;
    thread::sleep(A_WHILE);
    bench.assert_deleted(&[&deleted, older].concat())?;
    let metrics = Request::new("GET", "/metrics")
        .send_to_socket(&bench.array.data().join("gantry.sock"))?
        .body;
    let count = deleted.len() + older.len();
    let line = format!("gantry_pool_scheduled_snapshots_deleted_total{{pool=\"p\"}} {count}\n");
    ensure!(metrics.contains(&line), "{metrics}");
    // What is gone is not counted, without a further run.
    let schedule = bench.array.gantry_json(&["schedule", "show", "s"])?;
    assert_eq!(schedule["snapshots"], 2);
    let left = [first[0].clone(), "mine".to_owned(), newest.clone()];
    assert_eq!(bench.snapshots()?, left);
    assert_eq!(bench.events("no scheduled snapshot is left")?, ["pool p"]);
    Ok(())
}

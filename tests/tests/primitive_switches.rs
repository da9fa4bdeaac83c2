//! Primitives that an administrator turns off, for the array, a host or a volume: what hosts find, are
//! refused and are told, what the ledger says, and that it all outlasts the daemon.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::hostkit::{self, Host};
use harness::http::Request;
use harness::pdu::{Answer, RawSession, cdb10, cdb16};
use harness::random::Random;
use harness::{Array, Value, generations, text};
use serde_json::json;

const INQUIRY: (u8, u8, u8) = (6, 0x3f, 3);
const CAPACITY: (u8, u8, u8) = (6, 0x2a, 9);
const NO_COMMAND: Option<(u8, u8, u8)> = Some((5, 0x20, 0));

const PRIMITIVES: [&str; 4] = ["compare_and_write", "extended_copy", "write_same", "unmap"];

/// Volumes p/a and p/b as LUNs 0 and 1, and hosts `one` and `two`, each with a session.
struct Bench {
    array: Array,
    hosts: Vec<RawSession>,
}

impl Bench {
    fn start() -> Result<Self> {
        let array = Array::start()?;
        array.create_pool("p", "1G")?;
        array.create_lun("p/a", "64M")?;
        array.create_lun("p/b", "64M")?;
        for name in ["one", "two"] {
            let initiator = initiator(name);
            array.gantry(&["host", "create", name, "--initiator", &initiator])?;
        }
        let mut bench = Self { array, hosts: Vec::new() };
        bench.log_in()?;
        Ok(bench)
    }

    fn log_in(&mut self) -> Result<()> {
        self.hosts.clear();
        let target = self.array.target_name()?;
        for name in ["one", "two"] {
            let mut host = RawSession::log_in(self.array.portal(), &initiator(name), &target)?;
            for lun in [0, 1] {
                host.read(lun, &[0; 6], 0)?.good()?;
            }
            self.hosts.push(host);
        }
        Ok(())
    }

    /// Runs a command whose words have no blanks.
    fn gantry(&self, words: &str) -> Result<String> {
        self.array.gantry(&words.split(' ').collect::<Vec<_>>())
    }

    /// Unit attentions that wait: of host `one` on LUN 0 and 1, then those of `two`.
    fn told(&mut self) -> Result<[Vec<(u8, u8, u8)>; 4]> {
        let mut told = [const { Vec::new() }; 4];
        for (at, told) in told.iter_mut().enumerate() {
            let (host, lun) = (at / 2, (at % 2) as u8);
            while let Some(code) = self.hosts[host].read_once(lun, &[0; 6], 0)?.code() {
                told.push(code);
                ensure!(told.len() < 8, "{told:?}");
            }
        }
        Ok(told)
    }

    /// Which primitives a host finds on a LUN; all that tells it must agree.
    fn found(&mut self, host: usize, lun: u8) -> Result<[bool; 4]> {
        let session = &mut self.hosts[host];
        let mut data = |cdb: &[u8]| session.read(lun, cdb, 255)?.good();
        let pages = data(&[0x12, 1, 0, 0, 255, 0])?;
        let limits = data(&[0x12, 1, 0xb0, 0, 255, 0])?;
        let provisioning = data(&[0x12, 1, 0xb2, 0, 255, 0])?;
        let standard = data(&[0x12, 0, 0, 0, 96, 0])?;
        let mut capacity = [0; 16];
        (capacity[0], capacity[1], capacity[13]) = (0x9e, 0x10, 32);
        let capacity = data(&capacity)?;
        let mut supported = |opcode, action: u8| {
            let cdb = [0xa3, 0x0c, 3, opcode, 0, action, 0, 0, 0, 255, 0, 0];
            Ok::<_, anyhow::Error>(data(&cdb)?[1] == 3)
        };
        let codes = [supported(0x89, 0)?, supported(0x83, 0)?, supported(0x93, 0)?];
        let [locks, copies, zeroes] = codes;
        let unmaps = supported(0x42, 0)?;
        for (opcode, action) in [(0x83, 1), (0x83, 0x10), (0x83, 0x11), (0x83, 0x1c), (0x84, 3)] {
            assert_eq!(supported(opcode, action)?, copies, "{opcode:#x}/{action:#x}");
        }
        assert_eq!(supported(0x41, 0)?, zeroes);
        assert_eq!((pages.contains(&0x8f), standard[5] & 8 != 0), (copies, copies));
        assert_eq!(limits[5] != 0, locks);
        assert_eq!(limits[20..28].iter().any(|&byte| byte != 0), unmaps);
        assert_eq!(limits[36..44].iter().any(|&byte| byte != 0), zeroes);
        let by_write_same = if zeroes { 0x60 } else { 0 };
        let wanted = if unmaps { 0x84 | by_write_same } else { 0 };
        assert_eq!((provisioning[5], capacity[14] & 0x80 != 0), (wanted, unmaps));
        Ok([locks, copies, zeroes, unmaps])
    }

    /// Sends a command of each primitive.
    fn tries(&mut self, host: usize, lun: u8) -> Result<[Answer; 4]> {
        let session = &mut self.hosts[host];
        let mut lock = cdb16(0x89, 0, 0, 0);
        lock[13] = 1;
        let parameters = |action| {
            let mut cdb = [0; 16];
            (cdb[0], cdb[1], cdb[13]) = (0x84, action, 255);
            cdb
        };
        let mut unmap = [0; 24];
        (unmap[1], unmap[3], unmap[19]) = (22, 16, 8);
        Ok([
            session.write(lun, &lock, &[0; 1024])?,
            session.read(lun, &parameters(3), 255)?,
            session.write(lun, &cdb10(0x41, 0, 0, 8), &[0; 512])?,
            session.write(lun, &cdb10(0x42, 0, 0, 24), &unmap)?,
        ])
    }

    fn events(&self, part: &str) -> Result<Vec<Value>> {
        let events = self.array.gantry_json(&["events"])?;
        let events = events.as_array().context("a list")?.iter();
        let is_meant = |event: &&Value| event["message"].to_string().contains(part);
        Ok(events.filter(is_meant).cloned().collect())
    }

    /// Reasons of refusals in the ledger, of a host on a volume.
    fn refusals(&self, host: &str, volume: &str) -> Result<Vec<String>> {
        let ledger = self.array.gantry_json(&["offload", "list"])?;
        let rows = ledger["rows"].as_array().context("rows")?;
        let row = rows.iter().find(|row| row["host"] == host && row["volume"] == volume);
        let refusals = row.and_then(|row| row["refusals"].as_array()).cloned();
        let reason = |refusal: Value| Ok(text(&refusal, "/reason")?.to_owned());
        refusals.unwrap_or_default().into_iter().map(reason).collect()
    }
}

fn initiator(name: &str) -> String {
    format!("iqn.2026-01.org.example:{name}")
}

/// What is told once for a primitive.
fn change(primitive: &str) -> Vec<(u8, u8, u8)> {
    if primitive == "unmap" { vec![INQUIRY, CAPACITY] } else { vec![INQUIRY] }
}

#[test]
fn each_primitive_off_for_a_volume_is_refused_there_and_nowhere_else() -> Result<()> {
    let mut bench = Bench::start()?;
    for (at, primitive) in PRIMITIVES.into_iter().enumerate() {
        bench.gantry(&format!("volume primitives p/b --off {primitive}"))?;
        let none = Vec::new();
        let expected = [none.clone(), change(primitive), none, change(primitive)];
        assert_eq!(bench.told()?, expected, "{primitive}");
        assert_eq!(bench.told()?.concat(), [], "once");
        let mut all_but_one = [true; 4];
        all_but_one[at] = false;
        for host in [0, 1] {
            assert_eq!(bench.found(host, 0)?, [true; 4]);
            assert_eq!(bench.found(host, 1)?, all_but_one, "{primitive}");
        }
        for (tried, answer) in bench.tries(0, 1)?.into_iter().enumerate() {
            if tried == at {
                assert_eq!(answer.code(), NO_COMMAND, "{primitive}");
            } else {
                answer.good().context(PRIMITIVES[tried])?;
            }
        }
        for answer in bench.tries(0, 0)? {
            answer.good()?;
        }
        bench.gantry(&format!("volume primitives p/b --on {primitive}"))?;
        assert_eq!(bench.told()?[3], change(primitive));
        assert_eq!(bench.found(0, 1)?, [true; 4]);
        let off = bench.events(&format!("{primitive} was turned off by local"))?;
        assert_eq!((off.len(), &off[0]["object"]), (1, &json!("volume p/b")));
        assert_eq!(bench.events(&format!("{primitive} was turned on by local"))?.len(), 1);
    }
    let refusals = bench.refusals("one", "p/b")?;
    for primitive in ["compare_and_write", "write_same", "unmap"] {
        let reason = format!("{primitive} is turned off by the administrator: volume");
        ensure!(refusals.contains(&reason), "{reason}: {refusals:?}");
    }
    assert_eq!(bench.refusals("one", "p/a")?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_primitive_is_on_only_where_array_host_and_volume_have_it_on() -> Result<()> {
    let mut bench = Bench::start()?;
    let none = Vec::new();
    bench.gantry("host primitives one --off unmap,extended_copy")?;
    let both = vec![INQUIRY, CAPACITY];
    assert_eq!(bench.told()?, [both.clone(), both.clone(), none.clone(), none.clone()]);
    assert_eq!((bench.found(0, 0)?, bench.found(1, 0)?), ([true, false, true, false], [true; 4]));
    bench.gantry("target primitives --off unmap")?;
    assert_eq!(bench.told()?, [none.clone(), none.clone(), both.clone(), both.clone()]);
    assert_eq!(bench.found(1, 1)?, [true, true, true, false]);
    bench.gantry("host primitives one --on unmap,extended_copy")?;
    let once = vec![INQUIRY];
    assert_eq!(bench.told()?, [once.clone(), once, none.clone(), none]);
    assert_eq!(bench.found(0, 0)?, [true, true, true, false]);
    assert_eq!(bench.tries(0, 0)?[3].code(), NO_COMMAND);
    let reason = "unmap is turned off by the administrator: array";
    assert_eq!(bench.refusals("one", "p/a")?, [reason]);
    let explained = bench.array.gantry_json(&["offload", "explain"])?;
    let finding = explained.as_array().and_then(|all| all.first()).context("a finding")?;
    assert_eq!((&finding["code"], &finding["kind"]), (&json!("turned_off"), &json!("refused")));
    ensure!(text(finding, "/advice")?.contains("gantry target primitives"), "{finding}");
    assert_eq!(bench.events("unmap was turned off by local")?[0]["object"], "array");
    assert_eq!(bench.events("were turned off by local")?[0]["object"], "host one");
    Ok(())
}

/// Kills, restarts, and an import of the file take every place along, and nobody is told without need.
#[test]
fn what_is_off_outlasts_the_daemon_and_goes_with_the_configuration() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.gantry("volume primitives p/b --off compare_and_write")?;
    bench.gantry("host primitives one --off extended_copy")?;
    bench.gantry("target primitives --off write_same")?;
    let expected = [[true, false, false, true], [false, false, false, true]];
    bench.array.kill()?;
    bench.array.restart()?;
    bench.log_in()?;
    assert_eq!(bench.told()?.concat(), []);
    assert_eq!([bench.found(0, 0)?, bench.found(0, 1)?], expected);
    assert_eq!(bench.found(1, 1)?, [false, true, false, true]);
    let all = json!({
        "compare_and_write": true, "extended_copy": true, "write_same": true, "unmap": true,
    });
    let shown = bench.array.gantry_json(&["volume", "show", "p/b"])?;
    assert_eq!(shown["primitives"]["compare_and_write"], false);
    assert_eq!(bench.array.gantry_json(&["volume", "show", "p/a"])?["primitives"], all);
    bench.gantry("volume clone p/b c")?;
    let clone = bench.array.gantry_json(&["volume", "show", "p/c"])?;
    assert_eq!(clone["primitives"], shown["primitives"], "a copy is shown as its source");

    let file = bench.array.beside("configuration.json");
    let name = file.to_str().context("a printable path")?.to_owned();
    bench.array.gantry(&["configuration", "export", &name])?;
    bench.gantry("volume primitives p/b --on compare_and_write")?;
    bench.gantry("host primitives one --on extended_copy")?;
    bench.gantry("target primitives --on write_same")?;
    bench.told()?;
    assert_eq!(bench.found(0, 1)?, [true; 4]);
    bench.array.gantry(&["configuration", "import", &name])?;
    assert_eq!(bench.told()?[0], [INQUIRY]);
    assert_eq!([bench.found(0, 0)?, bench.found(0, 1)?], expected);
    assert_eq!(bench.events("turned off by an import")?.len(), 3);
    let again = bench.array.gantry_json(&["configuration", "import", &name])?;
    assert_eq!(again["changes"], json!([]));
    assert_eq!(bench.told()?.concat(), []);
    Ok(())
}

/// A pool that moves takes along what its volumes and its hosts have off; what is off for the whole
/// array goes only where the array itself goes.
#[test]
fn a_pool_carries_what_its_volumes_and_hosts_have_off() -> Result<()> {
    let bench = Bench::start()?;
    bench.gantry("volume primitives p/b --off unmap")?;
    bench.gantry("host primitives one --off extended_copy")?;
    bench.gantry("target primitives --off write_same")?;
    let pool = bench.array.gantry_json(&["pool", "show", "p"])?;
    let device = text(&pool, "/devices/0/device")?.to_owned();
    bench.gantry("pool export p --force")?;
    for (other, adopts) in [(Array::start()?, true), (Array::start()?, false)] {
        if !adopts {
            other.gantry(&["host", "create", "own", "--initiator", &initiator("own")])?;
        }
        let name = if adopts { "--adopt-target-name" } else { "--keep-target-name" };
        other.gantry(&["pool", "import", &device, name])?;
        assert_eq!(other.gantry_json(&["volume", "show", "p/b"])?["primitives"]["unmap"], false);
        let hosts = other.gantry_json(&["host", "list"])?;
        let one = hosts.as_array().and_then(|all| all.iter().find(|host| host["name"] == "one"));
        assert_eq!(one.context("the host")?["primitives"]["extended_copy"], false);
        let array = other.gantry_json(&["target", "primitives"])?;
        assert_eq!(array["write_same"], !adopts, "{array}");
        other.gantry(&["pool", "export", "p"])?;
    }
    Ok(())
}

/// A data directory from a backup takes from the pool what is off, and hosts find what the array says.
#[test]
fn what_a_pool_knows_better_is_told_to_hosts_too() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.array.stop()?;
    let before = generations::read(&bench.array, "gantry.json")?;
    bench.array.restart()?;
    bench.gantry("volume primitives p/b --off unmap")?;
    bench.gantry("host primitives one --off extended_copy")?;
    bench.gantry("target primitives --off write_same")?;
    bench.array.stop()?;
    generations::replace(&bench.array, "gantry.json", &before)?;
    bench.array.restart()?;
    for _ in 0..100 {
        if bench.array.gantry(&["events"])?.contains("were taken from the pool") {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    bench.log_in()?;
    assert_eq!(bench.found(0, 0)?, [true, false, false, true]);
    assert_eq!(bench.found(1, 1)?, [true, true, false, false]);
    assert_eq!(bench.array.gantry_json(&["target", "primitives"])?["write_same"], false);
    Ok(())
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() -> Result<()> {
    let mut bench = Bench::start()?;
    let socket = bench.array.data().join("gantry.sock");
    let patch =
        |path: &str, body: Value| Request::new("PATCH", path).json(&body).send_to_socket(&socket);
    for path in ["/v1/primitives", "/v1/hosts/one/primitives", "/v1/volumes/p/a/primitives"] {
        for body in [json!({ "read": false }), json!({ "unmap": "off" }), json!([])] {
            patch(path, body)?.problem(400)?;
        }
        patch(path, json!({}))?.success()?;
    }
    for path in ["/v1/hosts/none/primitives", "/v1/volumes/p/none/primitives"] {
        patch(path, json!({ "unmap": false }))?.problem(404)?;
    }
    let both = ["target", "primitives", "--off", "unmap", "--on", "unmap"];
    let refused = bench.array.try_gantry(&both)?.failure()?;
    ensure!(refused.contains("off and on at once"), "{refused}");
    bench.array.try_gantry(&["volume", "primitives", "p/a", "--off", "read"])?.failure()?;
    assert_eq!(bench.told()?.concat(), []);
    assert_eq!(bench.found(0, 0)?, [true; 4]);
    assert_eq!(bench.events("turned")?, Vec::<Value>::new());
    Ok(())
}

/// A host whose clone and zeroing the array does not do any more does them itself, and the array
/// says why.
#[test]
fn a_host_goes_on_by_itself_and_the_ledger_names_the_switch() -> Result<()> {
    const MIB: usize = 1 << 20;
    let array = hostkit::array(&[("a", "1G"), ("b", "1G")])?;
    let host = Host::new("esx1", &[&array.lun_url(0)?, &array.lun_url(1)?])?;
    for (number, volume) in ["p/a", "p/b"].into_iter().enumerate() {
        let shown = array.gantry_json(&["volume", "show", volume])?;
        let (label, partition) = (format!("ds{number}"), format!("{}:1", text(&shown, "/naa")?));
        host.vmkfstools(&["-C", "vmfs5", "-S", &label, &partition])?;
    }
    let folder = tempfile::tempdir()?;
    let local = folder.path().join("data");
    fs::write(&local, Random::new(7).bytes(48 * MIB))?;
    host.vmkfstools(&["-c", "48m", "-d", "zeroedthick", "ds0/s.vmdk"])?;
    host.run(&["file", "rm", "ds0/s-flat.vmdk"])?;
    let local = local.to_str().context("a printable path")?;
    host.run(&["file", "put", local, "ds0/s-flat.vmdk"])?;

    array.gantry(&["volume", "primitives", "p/b", "--off", "extended_copy,write_same"])?;
    host.vmkfstools(&["-i", "ds0/s.vmdk", "ds1/c.vmdk"])?;
    host.vmkfstools(&["-c", "20m", "-d", "eagerzeroedthick", "ds1/z.vmdk"])?;
    let copied = folder.path().join("copied");
    host.run(&["file", "get", "ds1/c-flat.vmdk", copied.to_str().context("a path")?])?;
    ensure!(fs::read(&copied)? == fs::read(local)?, "the clone has another content");
    let findings = array.gantry_json(&["offload", "explain"])?;
    let findings = findings.as_array().context("a list")?;
    for (kind, primitive) in [("host_side_copy", "extended_copy"), ("host_side_zero", "write_same")]
    {
        let found = findings.iter().find(|one| one["kind"] == kind && one["volume"] == "p/b");
        let found = found.with_context(|| format!("no {kind}: {findings:?}"))?;
        let reason = format!("{primitive} is turned off by the administrator: volume");
        assert_eq!((text(found, "/code")?, text(found, "/reason")?), ("turned_off", &reason[..]));
    }
    Ok(())
}

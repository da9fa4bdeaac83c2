//! Vendor and product identification: one for all LUNs unless the administrator says otherwise, who
//! is then warned; hosts are told of each change at once.

use anyhow::{Context, Result};
use harness::http::Request;
use harness::pdu::RawSession;
use harness::{Array, Value};
use serde_json::json;

const CHANGED: Option<(u8, u8, u8)> = Some((6, 0x3f, 3));

/// Volumes p/a and p/b as LUNs 0 and 1, and two hosts that know them.
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
        let mut bench = Self { array, hosts: Vec::new() };
        bench.log_in()?;
        Ok(bench)
    }

    fn log_in(&mut self) -> Result<()> {
        let target = self.array.target_name()?;
        for name in ["one", "two"] {
            let name = format!("iqn.2026-01.org.example:{name}");
            let mut host = RawSession::log_in(self.array.portal(), &name, &target)?;
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

    /// What both hosts are told by the next command on each LUN, once.
    fn told(&mut self) -> Result<[Option<(u8, u8, u8)>; 2]> {
        let mut told = [None; 2];
        for (lun, told) in (0..).zip(&mut told) {
            let answers = self.hosts.iter_mut().map(|host| host.read_once(lun, &[0; 6], 0));
            let codes = answers.map(|answer| Ok(answer?.code())).collect::<Result<Vec<_>>>()?;
            assert!(codes.iter().all(|code| *code == codes[0]), "{codes:?}");
            *told = codes[0];
        }
        for lun in [0, 1] {
            for host in &mut self.hosts {
                host.read_once(lun, &[0; 6], 0)?.good()?;
            }
        }
        Ok(told)
    }

    /// Vendor and product of both LUNs, as a host reads them; the T10 vendor designator agrees.
    fn identifications(&mut self) -> Result<[String; 2]> {
        let mut all = [const { String::new() }; 2];
        for (lun, identification) in (0..).zip(&mut all) {
            let data = self.hosts[0].read(lun, &[0x12, 0, 0, 0, 96, 0], 96)?.good()?;
            let page = self.hosts[0].read(lun, &[0x12, 1, 0x83, 0, 255, 0], 255)?.good()?;
            assert_eq!((page[24..26].to_vec(), &page[28..36]), (vec![2, 1], &data[8..16]));
            *identification = String::from_utf8(data[8..32].to_vec())?;
        }
        Ok(all)
    }

    fn events(&self, part: &str) -> Result<Vec<Value>> {
        let events = self.array.gantry_json(&["events"])?;
        let events = events.as_array().context("a list")?.iter();
        let is_meant = |event: &&Value| event["message"].to_string().contains(part);
        Ok(events.filter(is_meant).cloned().collect())
    }

    fn put(&self, path: &str, vendor: &str, product: &str) -> Result<harness::http::Answer> {
        let body = json!({ "vendor": vendor, "product": product });
        Request::new("PUT", path).json(&body).send_to_socket(&self.array.data().join("gantry.sock"))
    }
}

const OWN: &str = "GANTRY  VIRTUAL DISK    ";
const ACME: &str = "ACME    Array-1         ";
const ALL: &str = "target identification --vendor ACME --product Array-1";
const ONE: &str = "volume identification p/b --vendor ACME --product Array-1";

#[test]
fn what_all_luns_tell_is_set_once_told_at_once_and_stays() -> Result<()> {
    let mut bench = Bench::start()?;
    assert_eq!(bench.identifications()?, [OWN, OWN]);
    bench.gantry(ALL)?;
    assert_eq!(bench.told()?, [CHANGED, CHANGED]);
    bench.gantry(ALL)?;
    assert_eq!(bench.told()?, [None, None], "nothing changed");
    assert_eq!(bench.identifications()?, [ACME, ACME]);
    let shown = bench.array.gantry_json(&["target", "identification"])?;
    assert_eq!(shown, json!({ "vendor": "ACME", "product": "Array-1" }));
    assert_eq!(bench.events("identification")?, Vec::<Value>::new());
    bench.array.kill()?;
    bench.array.restart()?;
    bench.hosts.clear();
    bench.log_in()?;
    assert_eq!(bench.identifications()?, [ACME, ACME]);
    Ok(())
}

#[test]
fn luns_that_differ_are_warned_of_and_only_those_who_see_them_are_told() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.gantry(ONE)?;
    assert_eq!(bench.told()?, [None, CHANGED]);
    assert_eq!(bench.identifications()?, [OWN, ACME]);
    let warned = bench.events("ESXi does not have the array copy")?;
    assert_eq!(
        (&warned[0]["object"], &warned[0]["severity"]),
        (&json!("volume p/b"), &json!("warning"))
    );
    // A copy tells what its source tells.
    bench.gantry("volume clone p/b c")?;
    let copy = bench.array.gantry_json(&["volume", "show", "p/c"])?;
    assert_eq!(copy["identification"], json!({ "vendor": "ACME", "product": "Array-1" }));
    // The others follow: all tell the same again.
    bench.gantry(ALL)?;
    assert_eq!(bench.told()?, [CHANGED, None]);
    assert_eq!(bench.events("the array's vendor and product identification again")?.len(), 2);
    bench.gantry("volume identification p/b --inherit")?;
    assert_eq!(bench.told()?, [None, None]);
    assert_eq!(bench.events("ESXi does not have the array copy")?.len(), 1);
    // The array leaves a volume of its own behind.
    bench.gantry(ONE)?;
    bench.gantry("target identification --vendor GANTRY --product X")?;
    assert_eq!(bench.told()?, [CHANGED, None]);
    assert_eq!(bench.events("ESXi does not have the array copy")?.len(), 3, "p/b and its clone");
    bench.array.kill()?;
    bench.array.restart()?;
    bench.hosts.clear();
    bench.log_in()?;
    assert_eq!(bench.identifications()?, ["GANTRY  X               ", ACME]);
    Ok(())
}

#[test]
fn what_inquiry_data_cannot_hold_is_refused_and_changes_nothing() -> Result<()> {
    let mut bench = Bench::start()?;
    for path in ["/v1/identification", "/v1/volumes/p/a/identification"] {
        for (vendor, product, reason) in [
            ("", "P", "a vendor has 1 to 8 "),
            ("NINECHARS", "P", "a vendor has 1 to 8 "),
            (" V", "P", "no space at either end"),
            ("V", "SEVENTEEN-LETTERS", "a product has 1 to 16 "),
            ("V", "Gerät", "printable ASCII"),
            ("V", "a\tb", "printable ASCII"),
        ] {
            let refusal = bench.put(path, vendor, product)?.problem(400)?;
            assert!(refusal.contains(reason), "{refusal}");
        }
    }
    bench.put("/v1/volumes/p/none/identification", "V", "P")?.problem(404)?;
    let half = ["target", "identification", "--vendor", "V"];
    bench.array.try_gantry(&half)?.failure()?;
    bench.array.try_gantry(&["volume", "identification", "p/a"])?.failure()?;
    assert_eq!(bench.told()?, [None, None]);
    assert_eq!(bench.identifications()?, [OWN, OWN]);
    Ok(())
}

#[test]
fn the_configuration_carries_both_to_where_they_take_effect_at_once() -> Result<()> {
    let mut bench = Bench::start()?;
    let file = bench.array.beside("configuration.json");
    let name = file.to_str().context("a printable path")?.to_owned();
    bench.gantry("target identification --vendor V --product P")?;
    bench.gantry(ONE)?;
    bench.array.gantry(&["configuration", "export", &name])?;
    bench.gantry("volume identification p/b --inherit")?;
    bench.gantry("target identification --vendor GANTRY --product X")?;
    bench.told()?;
    bench.array.gantry(&["configuration", "import", &name])?;
    assert_eq!(bench.told()?, [CHANGED, CHANGED]);
    assert_eq!(bench.identifications()?, ["V       P               ", ACME]);
    assert_eq!(bench.events("ESXi does not have the array copy")?.len(), 2);
    let again = bench.array.gantry_json(&["configuration", "import", &name])?;
    assert_eq!(again["changes"], json!([]));
    assert_eq!(bench.told()?, [None, None]);
    Ok(())
}

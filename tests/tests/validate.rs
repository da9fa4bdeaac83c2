//! `gantry-host validate` and `compare`, at tiny sizes, on our array and on Debian's tgt.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use harness::binaries::binary;
use harness::hostkit::array;
use harness::path::Path as PathToArray;
use harness::program::{Finished, run};
use harness::tgt::Tgt;
use harness::{Array, Value, number, text};
use quick_junit::{Report, TestCaseStatus};

const PATIENCE: Duration = Duration::from_secs(240);

fn attempt(words: &[&str]) -> Result<Finished> {
    run(&binary("gantry-host")?, words, PATIENCE)
}

/// Validates at tiny sizes, one round; returns result.json and junit.xml.
fn validate(out: &Path, words: &[&str]) -> Result<(Value, Report)> {
    let folder = out.to_str().context("a printable path")?;
    let head = ["validate", "--scale", "tiny", "--rounds", "1", "--out", folder];
    attempt(&[&head, words].concat())?.success()?;
    let result = fs::read_to_string(out.join("result.json"))?;
    let junit = fs::read_to_string(out.join("junit.xml"))?;
    let page = fs::read_to_string(out.join("report.html"))?;
    ensure!(page.contains("<svg") || !result.contains("\"runs\":"), "a page without charts");
    let elsewhere = ["<script", "src=\"http", "href=\"http", "@import"];
    ensure!(!elsewhere.iter().any(|word| page.contains(word)), "the page needs something else");
    Ok((serde_json::from_str(&result)?, Report::deserialize_from_str(&junit)?))
}

fn case<'a>(result: &'a Value, id: &str) -> Result<&'a Value> {
    let cases = result["cases"].as_array().context("cases")?;
    cases.iter().find(|case| case["id"] == id).with_context(|| format!("no {id}"))
}

/// The only run of a variant.
fn measured<'a>(result: &'a Value, id: &str, name: &str) -> Result<&'a Value> {
    let case = case(result, id)?;
    ensure!(case["state"] == "done", "{id}: {} {}", case["state"], case["reason"]);
    let variants = case["variants"].as_array().context("variants")?;
    let variant = variants.iter().find(|variant| variant["name"] == name);
    let run = &variant.with_context(|| format!("{id}: no {name}"))?["runs"][0];
    ensure!(run["verified"] == true, "{id} {name}: contents were not compared");
    Ok(run)
}

fn two_luns() -> Result<(Array, [String; 3])> {
    let array = array(&[("a", "2G"), ("b", "2G")])?;
    array.gantry(&["pool", "create", "s", "--device", "memory:", "--size", "1G"])?;
    let small = array.create_lun("s/small", "2G")?;
    let urls = [array.lun_url(0)?, array.lun_url(1)?, array.lun_url(small)?];
    Ok((array, urls))
}

#[test]
fn our_array_offloads_tells_the_truth_and_pauses_only_who_needs_space() -> Result<()> {
    let (array, [first, second, small]) = two_luns()?;
    let folder = tempfile::tempdir()?;
    let words = [&first, "--url2", &second, "--small", &small, "--case", "q2,Q3,Q4,I1,honesty"];
    let (process, page) =
        (array.process_id()?.to_string(), format!("http://{}/metrics", array.http()));
    let token = array.gantry(&["token", "create", "validate", "--role", "viewer"])?;
    let watched =
        ["--array-pid", &process, "--array-metrics", &page, "--array-token", token.trim()];
    let counter = ["--array-counter", "gantry_received_bytes_total"];
    let (result, junit) = validate(folder.path(), &[&words[..], &watched, &counter].concat())?;
    array_beside_host(folder.path(), &result)?;
    for (id, off, on) in [("Q2", "clone, off", "clone, on"), ("Q3", "off", "on")] {
        let wire = |name: &str| {
            measured(&result, id, name).and_then(|run| number(run, "/counters/wire_bytes"))
        };
        ensure!(wire(on)? * 4 < wire(off)?, "{id}: {} against {}", wire(on)?, wire(off)?);
    }
    let clone = measured(&result, "Q2", "clone, on")?;
    ensure!(number(clone, "/counters/clone_wr")? > 0 && number(clone, "/counters/clone_f")? == 0);
    measured(&result, "Q4", "the pool fills")?;
    for mode in ["ATS on", "continuous, ATS on"] {
        ensure!(measured(&result, "I1", mode)?["figures"]["conflicts/s"] == 0.0);
    }
    for probe in result["honesty"].as_array().context("probes")? {
        ensure!(probe["verdict"] != "lie", "{probe}");
    }
    let names: Vec<_> = junit.test_suites.iter().map(|suite| suite.name.as_str()).collect();
    assert_eq!(names, ["cases", "honesty", "locks"]);
    ensure!(junit.test_suites[0].test_cases.len() > 4);
    Ok(())
}

/// Processor time of both, and the array's counters beside the host's.
fn array_beside_host(folder: &Path, result: &Value) -> Result<()> {
    for name in ["off", "on"] {
        let run = measured(result, "Q3", name)?;
        for of in ["host", "array"] {
            let seconds = run["processor"][of].as_f64().context("processor time")?;
            ensure!(seconds > 0.0 && seconds < 600.0, "{of}, {name}: {seconds} s");
        }
        ensure!(number(run, "/processor/bytes")? >= 16 << 20, "{}", run["processor"]);
    }
    let off = measured(result, "Q3", "off")?;
    let sum = |name: &str| -> Result<f64> {
        let all = off["series"].as_array().context("series")?;
        let series = all.iter().find(|one| one["name"] == name).context(name.to_owned())?;
        let step = series["step"].as_f64().context("a step")?;
        let values = series["values"].as_array().context("values")?;
        Ok(values.iter().filter_map(Value::as_f64).sum::<f64>() * step)
    };
    let (host, own) = (sum("interface, MB/s")?, sum("array interface, MB/s")?);
    // The array counts bytes of sessions; the host those of the measured ones, on sockets.
    ensure!(own > host * 0.8 && own < host * 1.5, "{own} MB of the array, {host} MB of the host");
    sum("array gantry_received_bytes_total, per s")?;
    // By SCSI (log page 19h) it counts the same commands.
    for (by_host, by_array) in [
        ("adapter write, MB/s", "array LUNs received, MB/s"),
        ("write requests/s", "array LUNs, writes/s"),
    ] {
        let (host, own) = (sum(by_host)?, sum(by_array)?);
        ensure!(host > 1.0 && (own - host).abs() < host * 0.02, "{by_array}: {own}, host {host}");
    }
    let page = fs::read_to_string(folder.join("report.html"))?;
    let pictures = ["interfaces", "volumes and devices", "written to LUNs", "read from LUNs"];
    let pictures = pictures.map(|what| format!("Host beside array: {what}"));
    let parts = ["Processor time", "average", "% saved"];
    for part in pictures.iter().map(String::as_str).chain(parts) {
        ensure!(page.contains(part), "{part}");
    }
    Ok(())
}

#[test]
fn an_array_without_offloads_is_measured_too_and_its_words_are_not_believed() -> Result<()> {
    let tgt = Tgt::start(64 << 20)?;
    let (first, second) = (tgt.add_thin_lun(2, 2 << 30)?, tgt.add_thin_lun(3, 2 << 30)?);
    let folder = tempfile::tempdir()?;
    let words = [&first, "--url2", &second, "--case", "M2,honesty,locks"];
    let (result, junit) = validate(folder.path(), &words)?;
    let clone = measured(&result, "M2", "powered off, on")?;
    ensure!(number(clone, "/counters/clone_wr")? == 0, "tgt copied");
    ensure!(clone["processor"]["array"].is_null(), "who told its processor time?");
    ensure!(fs::read_to_string(folder.path().join("report.html"))?.contains("not known"));
    let reasons = clone["fallbacks"].as_object().context("reasons")?;
    ensure!(reasons.keys().any(|reason| reason.contains("EXTENDED COPY")), "{reasons:?}");
    let probes = result["honesty"].as_array().context("probes")?;
    // A command that does not exist is one lie, whatever needs it.
    let lies = probes.iter().filter(|probe| probe["verdict"] == "lie");
    let lies = lies.map(|probe| text(probe, "/question")).collect::<Result<Vec<_>>>()?;
    let of_locks = |words: &&&str| words.contains("COMPARE AND WRITE") || words.contains("listed");
    assert_eq!(lies.iter().filter(of_locks).count(), 1, "{lies:?}");
    ensure!(text(&result, "/locks/reason")?.contains("not supported"));
    let honesty = &junit.test_suites[1].test_cases;
    let fails = |status: &TestCaseStatus| matches!(status, TestCaseStatus::NonSuccess { .. });
    ensure!(honesty.iter().any(|case| fails(&case.status)));
    Ok(())
}

/// Nexenta's test: off, on, and on again, each where the cluster of four datastores has most room.
#[test]
fn a_template_is_deployed_to_all_datastores_of_a_cluster_in_turn() -> Result<()> {
    let names = ["a", "b", "c", "d"].map(|name| (name, "1G"));
    let array = array(&names)?;
    let urls = (0..4).map(|lun| array.lun_url(lun)).collect::<Result<Vec<_>>>()?;
    let folder = tempfile::tempdir()?;
    let out = folder.path().to_str().context("a printable path")?;
    let mut words = vec!["validate", "--scale", "tiny", "--rounds", "3", "--case", "N1"];
    words.extend(["--out", out, &urls[0]]);
    words.extend(urls[1..].iter().flat_map(|url| ["--url2", url.as_str()]));
    attempt(&words)?.success()?;
    let result: Value = serde_json::from_slice(&fs::read(folder.path().join("result.json"))?)?;
    let found = case(&result, "N1")?;
    assert_eq!(found["notes"].as_array().context("notes")?.len(), 2, "{found}");
    let runs = found["variants"].as_array().context("variants")?.iter();
    let runs = runs.flat_map(|variant| variant["runs"].as_array().into_iter().flatten());
    let placed = runs.map(|run| {
        ensure!(run["verified"] == true && run["figures"]["datastores in the cluster"] == 4.0);
        Ok((number(run, "/round")?, run["figures"]["placed on datastore"].as_f64()))
    });
    let placed = placed.collect::<Result<Vec<_>>>()?;
    assert_eq!(placed.len(), 6);
    for unit in 1..=4 {
        ensure!(placed.iter().any(|(_, on)| *on == Some(f64::from(unit))), "{placed:?}");
    }
    let met = |target: &Value| target["wanted"] == "4 datastores" && target["met"] == true;
    ensure!(found["targets"].as_array().context("targets")?.iter().any(met), "{found}");
    Ok(())
}

#[test]
fn what_was_measured_is_kept_and_two_results_are_compared() -> Result<()> {
    let (_array, [first, second, _]) = two_luns()?;
    let folder = tempfile::tempdir()?;
    let words = [first.as_str(), "--url2", &second, "--case", "Q3"];
    let (before, _) = validate(folder.path(), &words)?;
    let (after, _) = validate(folder.path(), &words)?;
    assert_eq!(before["cases"], after["cases"], "it was measured again");
    let json = folder.path().join("result.json");
    let json = json.to_str().context("a printable path")?;
    let out = folder.path().to_str().context("a printable path")?;
    let printed = attempt(&["compare", json, json, json, "--out", out])?.success()?;
    ensure!(printed.contains("Q3") && printed.contains("GANTRY"), "{printed}");
    ensure!(printed.starts_with("Score cards") && printed.contains("(C)"), "{printed}");
    attempt(&["compare", json])?.failure()?;
    let named = [format!("old={json}"), format!("new={json}")];
    let printed = attempt(&["compare", &named[0], &named[1]])?.success()?;
    ensure!(printed.contains("old (GANTRY") && printed.contains("new (GANTRY"), "{printed}");
    ensure!(fs::read_to_string(folder.path().join("compare.html"))?.contains("</html>"));
    fs::write(folder.path().join("result.json"), "{\"format\":2}")?;
    attempt(&["compare", json, json])?.failure()?;
    Ok(())
}

#[test]
fn luns_in_use_and_unknown_words_are_refused() -> Result<()> {
    let (_array, [first, second, _]) = two_luns()?;
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let out = out.to_str().context("a printable path")?;
    attempt(&["fill", &first, "--length", "1048576"])?.success()?;
    let base = ["validate", "--scale", "tiny", "--rounds", "1", "--case", "Q3", "--out", out];
    for wrong in [
        ["--array-pid", "2147483646"],
        ["--array-metrics", "http://127.0.0.1:1/metrics"],
        ["--array-metrics", "https://127.0.0.1/metrics"],
        ["--array-counter", "a_total"],
    ] {
        attempt(&[&base[..], &[&second], &wrong].concat())?.failure()?;
    }
    let refused = attempt(&[&base[..], &[&second, "--url2", &first]].concat())?;
    ensure!(refused.stderr.contains("in use"), "{}", refused.stderr);
    refused.failure()?;
    attempt(&["check", &first, "--length", "1048576"])?.success()?;
    for words in [&["--case", "Q9"][..], &["--rounds", "0"], &["--scale", "huge"], &["--grow", "x"]]
    {
        attempt(&[&["validate", &second, "--out", out][..], words].concat())?.failure()?;
    }
    Ok(())
}

fn verdicts<'a>(result: &'a Value) -> Result<Vec<(&'a str, &'a str)>> {
    let probes = result["honesty"].as_array().context("probes")?;
    let pair = |probe: &'a Value| Ok((text(probe, "/question")?, text(probe, "/verdict")?));
    probes.iter().map(pair).collect()
}

#[test]
fn an_array_that_falls_silent_loses_no_verdict_that_was_known() -> Result<()> {
    let array = array(&[("a", "1G")])?;
    let path = PathToArray::start(array.portal())?;
    let url = array.lun_url(0)?.replace(&array.portal().to_string(), &path.address().to_string());
    let folder = tempfile::tempdir()?;
    let fast = ["--divide-times", "10"];
    let words = [&fast[..], &[&url, "--case", "honesty,locks"]].concat();
    path.silence_after(6 << 20);
    let (silent, _) = validate(folder.path(), &words)?;
    let found = verdicts(&silent)?;
    let answered = found.iter().take_while(|(_, verdict)| *verdict != "no-answer").count();
    ensure!((2..found.len()).contains(&answered), "{found:?}");
    ensure!(found[answered..].iter().all(|(_, verdict)| *verdict == "no-answer"), "{found:?}");
    text(&silent, "/locks/reason")?;
    let out = folder.path().to_str().context("a printable path")?;
    let base = ["validate", "--scale", "tiny", "--rounds", "1", "--out", out];
    let strict = attempt(&[&base[..], &words, &["--strict"]].concat())?;
    ensure!(strict.stderr.contains("cannot connect"), "{}", strict.stderr);
    strict.failure()?;
    // It goes on where it was: what was found is kept, what could not be asked is asked.
    path.speak();
    let (result, _) = validate(folder.path(), &words)?;
    let later = verdicts(&result)?;
    assert_eq!(later[..answered], found[..answered]);
    ensure!(later[answered + 1..].iter().all(|(_, verdict)| *verdict != "no-answer"), "{later:?}");
    attempt(&[&base[..], &words, &["--strict"]].concat())?.failure()?;
    // What the storms left on the LUN is no use that another validation must not destroy.
    let other = tempfile::tempdir()?;
    validate(other.path(), &[&url, "--case", "Q3"]).map(|_| ())
}

/// EXTENDED COPY and WRITE SAME go and come in the array while hosts are logged in.
#[test]
fn hosts_fall_back_and_offload_again_as_the_array_is_switched() -> Result<()> {
    let array = array(&[("a", "1G"), ("b", "1G")])?;
    let urls = [array.lun_url(0)?, array.lun_url(1)?];
    let (gantry, data) = (binary("gantry")?, array.data().display().to_string());
    let words = "target primitives --$SWITCH extended_copy,write_same >&2";
    let command = format!("{} --data {data} {words}", gantry.display());
    let words = [urls[0].as_str(), "--url2", &urls[1], "--case", "M3", "--array-switch"];
    let page = format!("http://{}/metrics", array.http());
    let token = array.gantry(&["token", "create", "validate", "--role", "viewer"])?;
    let watched = ["--array-metrics", &page, "--array-token", token.trim()];
    let folder = tempfile::tempdir()?;
    let (result, junit) = validate(folder.path(), &[&words[..], &[&command], &watched].concat())?;
    for (name, offloads) in [("off in the array", false), ("on in the array", true)] {
        let run = measured(&result, "M3", name)?;
        for count in ["/counters/clone_wr", "/counters/zero"] {
            assert_eq!(number(run, count)? > 0, offloads, "{name} {count}");
        }
        let taken = run["processor"]["array"].as_f64().context("the array's processor time")?;
        ensure!(taken > 0.0, "{taken}");
        assert_eq!(run["fallbacks"].as_object().is_some_and(|all| !all.is_empty()), !offloads);
    }
    let targets = case(&result, "M3")?["targets"].as_array().context("targets")?;
    ensure!(targets.iter().all(|target| target["met"] == true), "{targets:?}");
    ensure!(junit.failures == 0, "{junit:?}");
    let primitives = array.gantry_json(&["target", "primitives"])?;
    ensure!(["extended_copy", "write_same"].iter().all(|one| primitives[one] == true));

    for (name, switch, reason) in [
        ("without", None, "--array-switch COMMAND"),
        ("broken", Some("exit 3"), "with SWITCH=on the command ended with exit status: 3"),
    ] {
        let out = folder.path().join(name);
        let head = ["validate", "--scale", "tiny", "--out", out.to_str().context("a path")?];
        let words = if switch.is_some() { &words[..] } else { &words[..5] };
        let ended = attempt(&[&head, words, switch.as_slice()].concat())?;
        ensure!(ended.is_success() == switch.is_none(), "{} {}", name, ended.stderr);
        let result = fs::read_to_string(out.join("result.json"))?;
        ensure!(result.contains(reason), "{result}");
    }
    Ok(())
}

/// Cuts the power of an array when the command of `--power-cut` says so, and then does something.
fn validate_with_power_cut(
    array: &mut Array,
    after: impl Fn(&Array) -> Result<()>,
) -> Result<Value> {
    let folder = tempfile::tempdir()?;
    let (wanted, done) = (folder.path().join("cut"), folder.path().join("done"));
    let command = format!(
        "touch {}; while ! test -e {}; do sleep 0.05; done",
        wanted.display(),
        done.display()
    );
    let out = folder.path().join("out");
    let url = array.lun_url(0)?;
    let validation = thread::spawn(move || {
        let words = [&url, "--case", "honesty", "--power-cut", &command];
        validate(&out, &words).map(|(result, _)| result)
    });
    while !wanted.exists() && !validation.is_finished() {
        thread::sleep(Duration::from_millis(20));
    }
    array.kill()?;
    array.restart()?;
    after(array)?;
    fs::write(done, "")?;
    validation.join().map_err(|_| anyhow!("the validation panicked"))?
}

#[test]
fn fua_is_unclear_until_the_power_is_cut() -> Result<()> {
    let fua = |result: &Value| -> Result<String> {
        let found = verdicts(result)?;
        let fua = found.iter().find(|(question, _)| question.starts_with("FUA"));
        Ok(fua.context("a verdict")?.1.to_owned())
    };
    let mut array = Array::start()?;
    array.create_pool("p", "1G")?;
    array.create_lun("p/v", "256M")?;
    let folder = tempfile::tempdir()?;
    let url = array.lun_url(0)?;
    let (result, _) = validate(folder.path(), &[&url, "--case", "honesty"])?;
    assert_eq!(fua(&result)?, "unclear");
    let result = validate_with_power_cut(&mut array, |_| Ok(()))?;
    assert_eq!(fua(&result)?, "honest");
    // What was in a cache only is gone.
    let result = validate_with_power_cut(&mut array, |array| {
        let url = array.lun_url(0)?;
        let at = ((256_u64 - 64) << 20).to_string();
        attempt(&["zero", &url, "--offset", &at, "--length", "4096"])?.success().map(|_| ())
    })?;
    assert_eq!(fua(&result)?, "lie");
    Ok(())
}

#[test]
fn a_pool_that_has_grown_beyond_the_lun_takes_nothing_from_the_first_round() -> Result<()> {
    let array = array(&[("a", "1G")])?;
    array.gantry(&["pool", "create", "s", "--device", "memory:", "--size", "1G"])?;
    let small = array.create_lun("s/small", "2G")?;
    let (url, small) = (array.lun_url(0)?, array.lun_url(small)?);
    let folder = tempfile::tempdir()?;
    let data = array.data().to_str().context("a printable path")?;
    let gantry = binary("gantry")?;
    let grow = format!("{} --data {data} pool extend s --size 4G", gantry.display());
    let words = [&url, "--small", &small, "--grow", &grow, "--case", "Q4", "--rounds", "2"];
    let out = folder.path().to_str().context("a printable path")?;
    let head = ["validate", "--scale", "tiny", "--out", out];
    attempt(&[&head[..], &words].concat())?.success()?;
    let result: Value = serde_json::from_slice(&fs::read(folder.path().join("result.json"))?)?;
    measured(&result, "Q4", "the pool fills")?;
    let notes = case(&result, "Q4")?["notes"].to_string();
    ensure!(notes.contains("Round 2") && notes.contains("--grow"), "{notes}");
    ensure!(!notes.contains("Without --grow"), "{notes}");
    let page = fs::read_to_string(folder.path().join("report.html"))?;
    ensure!(!page.contains("0 of 0"), "an empty tile");
    Ok(())
}

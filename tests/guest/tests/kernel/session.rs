//! The Linux kernel's initiator finds the target, logs in as it was told, and stays.

use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use guest::{Bench, Need, Report};
use harness::array::free_address;

const HEADER_DIGEST: &str = "node.conn[0].iscsi.HeaderDigest";
const DATA_DIGEST: &str = "node.conn[0].iscsi.DataDigest";

const CHAP: Need = Need::Option(&["host", "create"], "--chap-user");
const DISCOVERY_CHAP: Need = Need::Option(&["discovery"], "set-chap");
const REDIRECTION: Need = Need::Option(&["portal", "create"], "--redirect");
const SESSIONS: Need = Need::Option(&["session"], "list");

#[test]
fn the_kernels_initiator_logs_in_and_stays() -> Result<()> {
    let mut bench = Bench::start(2, 2)?;
    let mut report = Report::new("session");
    let mut check = |name, need, run: fn(&mut Bench) -> Result<()>| {
        report.check(&mut bench, name, need, run);
    };
    check("discovery tells each portal under its address", Need::None, discovery);
    check("a target of another name is refused", Need::None, other_name);
    check("login without digests", Need::None, without_digests);
    check("login with header and data digests", Need::None, with_digests);
    check("every LUN is there, and no more", Need::None, luns);
    check("a volume mapped later is seen after a rescan", Need::None, mapped_later);
    check("a volume that grew has its new size after a rescan", Need::None, grown);
    check("I/O goes on over kill -9 and restart of the daemon", Need::None, restart);
    check("the array lists the session with what it negotiated", SESSIONS, listed);
    check("login with CHAP, and not without or with a wrong secret", CHAP, chap);
    check("login with CHAP by each algorithm that open-iscsi has", CHAP, algorithms);
    check("login with mutual CHAP, and not to a target that cannot prove itself", CHAP, mutual);
    check("discovery with CHAP, and not without", DISCOVERY_CHAP, discovery_chap);
    check("a login that is redirected arrives at the other portal", REDIRECTION, redirected);
    report.finish(&bench)
}

fn discovery(bench: &mut Bench) -> Result<()> {
    let found = bench.sh("iscsiadm -m discovery -t sendtargets -p $P1")?;
    for portal in &bench.portals {
        let line = found.lines().find(|line| line.starts_with(&format!("{portal},")));
        ensure!(line.is_some(), "{portal} is not in\n{found}");
    }
    ensure!(found.lines().count() == bench.portals.len(), "{found}");
    bench.sh("iscsiadm -m node -o delete")?;
    Ok(())
}

/// iscsiadm ends with 19 when the target says that it does not know the name.
fn other_name(bench: &mut Bench) -> Result<()> {
    let name = "iqn.2026-01.org.example:nothing";
    let record = format!("iscsiadm -m node -T {name} -p $P1");
    let retries = "node.session.initial_login_retry_max";
    bench.sh(&format!("{record} -o new; {record} -o update -n {retries} -v 1"))?;
    let outcome = bench.try_sh(&format!("{record} --login"))?;
    ensure!(outcome.status == 19, "{outcome}");
    bench.sh(&format!("{record} -o delete"))?;
    Ok(())
}

/// Writes random data and reads it back, past the guest's cache.
fn data_is_exact(bench: &mut Bench) -> Result<()> {
    let disk = bench.disk(bench.portals[0], 0);
    bench.sh(&format!("random 2048 /tmp/a; put /tmp/a {disk} 40; holds {disk} 40 2048 /tmp/a"))?;
    Ok(())
}

fn negotiated(bench: &mut Bench, wanted: &str) -> Result<()> {
    let folder = "/sys/class/iscsi_connection/connection*";
    let digests = bench.sh(&format!("cat {folder}/header_digest {folder}/data_digest"))?;
    ensure!(digests.lines().all(|line| line == wanted), "negotiated: {digests}");
    Ok(())
}

fn without_digests(bench: &mut Bench) -> Result<()> {
    let portal = bench.portals[0];
    bench.log_in(portal, &[(HEADER_DIGEST, "None"), (DATA_DIGEST, "None")])?;
    negotiated(bench, "0")?;
    data_is_exact(bench)?;
    bench.log_out(portal)
}

/// Stays logged in for the checks that follow.
fn with_digests(bench: &mut Bench) -> Result<()> {
    bench.log_in(bench.portals[0], &[(HEADER_DIGEST, "CRC32C"), (DATA_DIGEST, "CRC32C")])?;
    negotiated(bench, "1")?;
    data_is_exact(bench)
}

fn luns(bench: &mut Bench) -> Result<()> {
    let (first, second) = (bench.disk(bench.portals[0], 0), bench.disk(bench.portals[0], 1));
    bench.sh(&format!("[ -b {first} ] && [ -b {second} ]"))?;
    let disks = bench.sh("ls -d /sys/block/sd*")?;
    ensure!(disks.lines().count() == 2, "{disks}");
    Ok(())
}

fn mapped_later(bench: &mut Bench) -> Result<()> {
    let lun = bench.array.create_lun("p/later", "256M")?;
    let disk = bench.disk(bench.portals[0], lun);
    bench.sh("iscsiadm -m session --rescan >/dev/null; udevadm settle")?;
    let bytes = bench.sh(&format!("blockdev --getsize64 {disk}"))?;
    ensure!(bytes.trim() == (256 << 20).to_string(), "{bytes}");
    Ok(())
}

fn grown(bench: &mut Bench) -> Result<()> {
    bench.array.gantry(&["volume", "resize", "p/v1", "--size", "3G"])?;
    let disk = bench.disk(bench.portals[0], 1);
    bench.sh("iscsiadm -m session --rescan >/dev/null; udevadm settle")?;
    let bytes = bench.sh(&format!("blockdev --getsize64 {disk}"))?;
    ensure!(bytes.trim() == (3_u64 << 30).to_string(), "{bytes}");
    Ok(())
}

/// The rate makes the load last; the kernel waits for the session as long as its replacement
/// timeout says, 120 s if nobody says otherwise.
fn restart(bench: &mut Bench) -> Result<()> {
    let disk = bench.disk(bench.portals[0], 0);
    bench.sh(&format!(
        "load /run/load --name=restart --filename=$(readlink -f {disk}) --rw=randwrite --bs=8k --size=16M \
         --rate_iops=200 --iodepth=8"
    ))?;
    thread::sleep(Duration::from_secs(3));
    bench.sh("load_runs /run/load")?;
    bench.array.kill()?;
    thread::sleep(Duration::from_secs(1));
    bench.array.restart()?;
    bench.until("load_is_over /run/load")?;
    bench.sh("load_succeeded /run/load")?;
    bench.sh("dmesg | grep -q 'detected conn error'")?;
    Ok(())
}

fn listed(bench: &mut Bench) -> Result<()> {
    let sessions = bench.array.gantry(&["session", "list", "--json"])?;
    for wanted in [guest::bench::INITIATOR, "CRC32C"] {
        ensure!(sessions.contains(wanted), "'{wanted}' is not in\n{sessions}");
    }
    Ok(())
}

const SECRET: &str = "who-goes-there-1";
const ARRAY_SECRET: &str = "it-is-the-array-2";
const WRONG_SECRET: &str = "nobody-at-all-3";

/// What iscsiadm ends with when the target does not let it in (ISCSI_ERR_LOGIN_AUTH_FAILED).
const NOT_LET_IN: i32 = 24;

/// What it ends with when it is the initiator that does not go on (ISCSI_ERR_FATAL_LOGIN).
const DID_NOT_GO_IN: i32 = 19;

fn secret_file(bench: &Bench, name: &str, secret: &str) -> Result<String> {
    let path = bench.array.beside(name);
    fs::write(&path, secret)?;
    Ok(path.display().to_string())
}

/// The settings of an initiator with a secret of its own.
fn account(secret: &str) -> Vec<(&'static str, &str)> {
    vec![
        ("node.session.auth.authmethod", "CHAP"),
        ("node.session.auth.username", "guest"),
        ("node.session.auth.password", secret),
    ]
}

/// The same with what it wants to hear from the target.
fn mutual_account<'a>(secret: &'a str, wanted: &'a str) -> Vec<(&'static str, &'a str)> {
    let target =
        [("node.session.auth.username_in", "array"), ("node.session.auth.password_in", wanted)];
    [account(secret), target.to_vec()].concat()
}

/// The LUNs are looked at elsewhere; without them a login takes the machine less than a second.
fn is_let_in(bench: &mut Bench, settings: &[(&str, &str)]) -> Result<()> {
    let portal = bench.portals[0];
    bench.log_in(portal, &[settings, &[("node.session.scan", "manual")]].concat())?;
    let sessions = bench.sh("iscsiadm -m session; iscsiadm -m session -s")?;
    ensure!(sessions.contains(&portal.to_string()), "{sessions}");
    bench.log_out(portal)
}

fn fails(bench: &mut Bench, settings: &[(&str, &str)], status: i32) -> Result<()> {
    let portal = bench.portals[0];
    let outcome = bench.try_log_in(portal, settings)?;
    ensure!(outcome.status == status, "{outcome}");
    bench.sh(&format!("iscsiadm -m node -T $T -p {portal} -o delete"))?;
    Ok(())
}

fn chap(bench: &mut Bench) -> Result<()> {
    bench.log_out(bench.portals[0])?;
    let file = secret_file(bench, "secret", SECRET)?;
    let account_of_host = ["--chap-user", "guest", "--chap-secret-file", &file];
    let host = ["host", "create", "guest", "--initiator", guest::bench::INITIATOR];
    bench.array.gantry(&[&host[..], &account_of_host].concat())?;
    fails(bench, &[], NOT_LET_IN)?;
    fails(bench, &account(WRONG_SECRET), NOT_LET_IN)?;
    is_let_in(bench, &account(SECRET))
}

fn algorithms(bench: &mut Bench) -> Result<()> {
    for algorithm in ["MD5", "SHA1", "SHA256", "SHA3-256"] {
        let settings = [account(SECRET), vec![("node.session.auth.chap_algs", algorithm)]].concat();
        is_let_in(bench, &settings).with_context(|| algorithm)?;
    }
    Ok(())
}

fn mutual(bench: &mut Bench) -> Result<()> {
    fails(bench, &mutual_account(SECRET, ARRAY_SECRET), NOT_LET_IN)?;
    let [file, other] = [("secret", SECRET), ("array", ARRAY_SECRET)];
    let file = secret_file(bench, file.0, file.1)?;
    let other = secret_file(bench, other.0, other.1)?;
    let accounts = [
        ["--chap-user", "guest", "--chap-secret-file", &file],
        ["--mutual-user", "array", "--mutual-secret-file", &other],
    ];
    bench.array.gantry(&[&["host", "change", "guest"][..], &accounts.concat()].concat())?;
    fails(bench, &mutual_account(SECRET, WRONG_SECRET), DID_NOT_GO_IN)?;
    fails(bench, &mutual_account(WRONG_SECRET, ARRAY_SECRET), NOT_LET_IN)?;
    is_let_in(bench, &mutual_account(SECRET, ARRAY_SECRET))
}

fn discovery_chap(bench: &mut Bench) -> Result<()> {
    let file = secret_file(bench, "discovery", SECRET)?;
    let account_of_scout = ["--chap-user", "scout", "--chap-secret-file", &file];
    bench.array.gantry(&[&["discovery", "set-chap"][..], &account_of_scout].concat())?;
    let record = "iscsiadm -m discoverydb -t sendtargets -p $P1";
    let refused = bench.try_sh(&format!("{record} -o new; {record} --discover"))?;
    ensure!(refused.status == NOT_LET_IN, "{refused}");
    let mut script = String::new();
    for (name, value) in [("authmethod", "CHAP"), ("username", "scout"), ("password", SECRET)] {
        let name = format!("discovery.sendtargets.auth.{name}");
        script.push_str(&format!("{record} -o update -n {name} -v {value}\n"));
    }
    let found = bench.sh(&format!("{script}{record} --discover"))?;
    ensure!(found.contains(&bench.portals[0].to_string()), "{found}");
    bench.array.gantry(&["discovery", "no-chap"])?;
    bench.sh("iscsiadm -m node -o delete")?;
    Ok(())
}

fn redirected(bench: &mut Bench) -> Result<()> {
    bench.array.gantry(&["host", "change", "guest", "--no-chap"])?;
    let [door, room] = [free_address()?, bench.portals[1]].map(|address| address.to_string());
    bench.array.gantry(&["portal", "create", &door, "--redirect", &room])?;
    bench.log_in(door.parse()?, &[])?;
    let sessions = bench.sh("iscsiadm -m session -P 1")?;
    ensure!(sessions.contains(&format!("Current Portal: {room}")), "{sessions}");
    ensure!(sessions.contains(&format!("Persistent Portal: {door}")), "{sessions}");
    bench.log_out(door.parse()?)
}

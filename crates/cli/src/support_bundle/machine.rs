//! Collector of facts of the machine: kernel, processors, memory, file systems, disks, the daemon's
//! process, and its log in the journal.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::archive::{Archive, FILE_BYTES_MAX};

/// How long a program may take: `df` waits for a file server that is gone without end.
const PATIENCE: Duration = Duration::from_secs(15);

/// Files of the system, with their names in the bundle.
const FILES: [(&str, &str); 13] = [
    ("os-release", "/etc/os-release"),
    ("kernel", "/proc/version"),
    ("processors", "/proc/cpuinfo"),
    ("memory", "/proc/meminfo"),
    ("load", "/proc/loadavg"),
    ("uptime", "/proc/uptime"),
    ("mounts", "/proc/mounts"),
    ("disks", "/proc/diskstats"),
    ("networks", "/proc/net/dev"),
    ("pressure-io", "/proc/pressure/io"),
    ("pressure-memory", "/proc/pressure/memory"),
    ("pressure-processor", "/proc/pressure/cpu"),
    ("memory-limit", "/sys/fs/cgroup/memory.max"),
];

/// Programs that print what no file has.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("file-systems", &["df", "-kPT"]),
    ("inodes", &["df", "-iP"]),
    (
        "block-devices",
        &[
            "lsblk",
            "--json",
            "--bytes",
            "--output",
            "NAME,TYPE,SIZE,ROTA,LOG-SEC,PHY-SEC,SCHED,MODEL,FSTYPE,MOUNTPOINTS",
        ],
    ),
    ("addresses", &["ip", "-statistics", "address"]),
    ("package", &["dpkg-query", "--show", "gantry"]),
    (
        "service",
        &[
            "systemctl",
            "show",
            "gantryd",
            "--no-pager",
            "--property",
            "ActiveState,SubState,Result,ExecMainStatus,NRestarts,ActiveEnterTimestamp,MemoryCurrent,LimitNOFILE",
        ],
    ),
];

/// Logs of the journal.
const LOGS: [(&str, &[&str]); 2] = [
    (
        "logs/gantryd.txt",
        &[
            "journalctl",
            "--unit",
            "gantryd",
            "--no-pager",
            "--quiet",
            "--output",
            "short-iso-precise",
            "--lines",
            "40000",
        ],
    ),
    (
        "logs/kernel-warnings.txt",
        &[
            "journalctl",
            "--dmesg",
            "--priority",
            "warning",
            "--no-pager",
            "--quiet",
            "--lines",
            "4000",
        ],
    ),
];

/// The service's environment, and the variables of it that hold no secret of somebody's.
const ENVIRONMENT: &str = "/etc/gantry/gantryd.env";
const VARIABLES: [&str; 2] = ["GANTRYD_OPTIONS=", "GANTRY_LOG="];

/// Daemons whose processes are looked at.
const PROCESSES_MAX: usize = 8;

/// Files of a daemon's process. Its environment may hold secrets, and is not among them.
const OF_PROCESS: [&str; 5] = ["cmdline", "status", "limits", "io", "smaps_rollup"];

/// Adds what can be found out.
pub(super) fn collect(data: Option<&Path>, archive: &mut Archive) -> Result<()> {
    for (name, path) in FILES {
        let place = format!("machine/{name}.txt");
        match fs::read(path) {
            Ok(content) => archive.add(&place, content)?,
            Err(error) => archive.missing(&place, &format!("{path}: {error}")),
        }
    }
    options_of_the_service(archive)?;
    let programs = PROGRAMS.map(|(name, words)| (format!("machine/{name}.txt"), words));
    let logs = LOGS.map(|(name, words)| (name.to_owned(), words));
    for (place, words) in programs.into_iter().chain(logs) {
        match printed(words) {
            Ok(content) if content.is_empty() => archive.missing(&place, "nothing was printed"),
            Ok(content) => archive.add(&place, content)?,
            Err(reason) => archive.missing(&place, &format!("{}: {reason}", words[0])),
        }
    }
    // Without a data directory the daemon is on another machine.
    if data.is_some() { processes(archive) } else { Ok(()) }
}

fn options_of_the_service(archive: &mut Archive) -> Result<()> {
    let place = "machine/options-of-the-service.txt";
    match fs::read_to_string(ENVIRONMENT) {
        Ok(text) => {
            let is_harmless = |line: &&str| VARIABLES.iter().any(|name| line.starts_with(name));
            let lines: String =
                text.lines().filter(is_harmless).map(|line| format!("{line}\n")).collect();
            archive.add(place, lines.into_bytes())
        }
        Err(error) => {
            archive.missing(place, &format!("{ENVIRONMENT}: {error}"));
            Ok(())
        }
    }
}

/// What a program prints, or why that is not known.
fn printed(words: &[&str]) -> Result<Vec<u8>, String> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let output = child.stdout.take().ok_or("no output")?;
    let (told, read) = sync_channel(1);
    thread::spawn(move || {
        let mut content = Vec::new();
        let done = output.take(FILE_BYTES_MAX + 1).read_to_end(&mut content);
        let _ = told.send(done.map(|_| content));
    });
    let content = read.recv_timeout(PATIENCE);
    // One that waits for a device cannot be killed, and is not waited for.
    let _ = child.kill();
    let _ = child.try_wait();
    match content {
        Ok(content) => content.map_err(|error| error.to_string()),
        Err(_) => Err(format!("it took more than {} s", PATIENCE.as_secs())),
    }
}

/// The processes of daemons on this machine, with what each of their threads waits for.
fn processes(archive: &mut Archive) -> Result<()> {
    let is_daemon = |(_, path): &(u32, PathBuf)| {
        fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim_end() == "gantryd")
    };
    let found: Vec<_> = numbered("/proc").into_iter().filter(is_daemon).collect();
    match found.len() {
        0 => archive.missing("machine/process", "no gantryd runs here"),
        count if count > PROCESSES_MAX => {
            let reason = format!("{PROCESSES_MAX} of {count} daemons, the first ones");
            archive.missing("machine/process (the rest)", &reason);
        }
        _ => {}
    }
    found.iter().take(PROCESSES_MAX).try_for_each(|(number, path)| process(archive, *number, path))
}

fn process(archive: &mut Archive, number: u32, path: &Path) -> Result<()> {
    for name in OF_PROCESS {
        let place = format!("machine/process-{number}/{name}.txt");
        match fs::read(path.join(name)) {
            Ok(content) => {
                let words = content.iter().map(|&byte| if byte == 0 { b' ' } else { byte });
                archive.add(&place, words.collect())?;
            }
            Err(error) => archive.missing(&place, &error.to_string()),
        }
    }
    let mut threads = String::new();
    for (thread, path) in numbered(&path.join("task").display().to_string()) {
        let part = |name| fs::read_to_string(path.join(name)).unwrap_or_default();
        let state = part("stat").rsplit(") ").next().map(|rest| rest.chars().take(1).collect());
        let state: String = state.unwrap_or_default();
        let (name, waits, stack) = (part("comm"), part("wchan"), part("stack"));
        threads += &format!("{thread} {} {state} {waits}\n{stack}", name.trim_end());
    }
    archive.add(&format!("machine/process-{number}/threads.txt"), threads.into_bytes())
}

/// The folders that are named by numbers, in their order.
fn numbered(folder: &str) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |name: &std::ffi::OsStr| name.to_str()?.parse().ok();
    let mut found: Vec<(u32, PathBuf)> =
        entries.filter_map(|entry| Some((number(&entry.file_name())?, entry.path()))).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_is_read_to_a_limit_and_a_missing_one_is_told() {
        assert_eq!(printed(&["echo", "said"]), Ok(b"said\n".to_vec()));
        let much = printed(&["yes"]).unwrap();
        assert_eq!(much.len() as u64, FILE_BYTES_MAX + 1);
        assert!(printed(&["a-program-that-is-nowhere"]).unwrap_err().contains("No such file"));
    }
}

//! The checks of Forklift's xcopy-validate, as functions of facts: each gives a line in that tool's words.

use super::{Level, Line};
use crate::esxi::counters::Counters;
use crate::esxi::settings::Settings;
use crate::esxi::vaai::Status;

/// KiB of an EXTENDED COPY from which on nothing is said, and ESXi's default.
const TRANSFER_KIB: [u64; 2] = [16_384, 4096];

/// What the checks of a device depend on.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceFacts {
    /// VENDOR IDENTIFICATION; empty for a device that does not answer.
    pub(super) vendor: String,
    /// PRODUCT IDENTIFICATION.
    pub(super) model: String,
    /// What is believed of EXTENDED COPY.
    pub(super) clone: Status,
    /// All paths, those that work, and those to controllers that do not serve it.
    pub(super) paths: usize,
    pub(super) active: usize,
    pub(super) standby: usize,
    /// Runtime names of the rest.
    pub(super) dead_names: Vec<String>,
    /// What was done on the device.
    pub(super) counters: Counters,
}

fn line(level: Level, text: impl Into<String>) -> Line {
    Line { level, text: text.into(), details: Vec::new(), fixes: Vec::new() }
}

impl Line {
    fn detailed(mut self, detail: &str) -> Self {
        self.details.push(detail.to_owned());
        self
    }

    /// Says how to mend it, also among the details.
    fn fixed_by(mut self, fix: &str) -> Self {
        self.details.push(format!("Fix: {fix}"));
        self.fixes.push(fix.to_owned());
        self
    }
}

/// The settings of a host.
pub(super) fn settings(settings: &Settings) -> Vec<Line> {
    vec![
        accelerated("HardwareAcceleratedMove", settings.hardware_accelerated_move),
        accelerated("HardwareAcceleratedInit", settings.hardware_accelerated_init),
        transfer_size(settings.max_hw_transfer_size),
    ]
}

fn accelerated(name: &str, is_on: bool) -> Line {
    if is_on {
        return line(Level::Pass, format!("{name} = 1"));
    }
    line(Level::Fail, format!("{name} = 0 (must be 1)"))
        .fixed_by(&format!("esxcfg-advcfg -s 1 /DataMover/{name}"))
}

fn transfer_size(kib: u64) -> Line {
    let [large, usual] = TRANSFER_KIB;
    if kib >= large {
        return line(Level::Pass, format!("MaxHWTransferSize = {kib}"));
    }
    let remark = if kib >= usual {
        "VMware default; xcopy works but may cause overhead at high I/O concurrency"
    } else {
        "below VMware default of 4096; xcopy still works but with elevated SCSI command volume"
    };
    let advice = "check storage provider recommendation for optimal performance";
    line(Level::Warn, format!("MaxHWTransferSize = {kib} ({remark} -- {advice})"))
        .fixed_by("esxcfg-advcfg -s 16384 /DataMover/MaxHWTransferSize")
}

/// A datastore's device.
pub(super) fn device(facts: &DeviceFacts, settings: &Settings) -> Vec<Line> {
    let mut lines = vec![
        plugin(facts, settings),
        clone_status(facts.clone),
        claim_rule(facts, settings),
        paths(facts),
    ];
    lines.extend(clone_counters(&facts.counters));
    lines
}

fn plugin(facts: &DeviceFacts, settings: &Settings) -> Line {
    match settings.claim_rule(&facts.vendor, &facts.model) {
        Some(rule) => line(Level::Pass, format!("VAAI Plugin Name = {}", rule.plugin)),
        None => line(Level::Fail, "VAAI Plugin Name is empty -- no VAAI plugin bound to device").detailed(
            "This is often caused by a missing VAAI claim rule for the storage vendor (see below).",
        ),
    }
}

fn clone_status(status: Status) -> Line {
    if status == Status::Supported {
        return line(Level::Pass, "Clone Status = supported");
    }
    line(Level::Fail, format!("Clone Status = {status} (must be 'supported')")).detailed(
        "The storage array may not support VAAI XCOPY, or the device is not properly configured.",
    )
}

/// As xcopy-validate, a rule that is saved and not loaded counts, and so does one of another model.
fn claim_rule(facts: &DeviceFacts, settings: &Settings) -> Line {
    let DeviceFacts { vendor, model, .. } = facts;
    if vendor.is_empty() {
        return line(Level::Warn, "Could not determine device vendor -- skipping claim rule check");
    }
    let rules = settings.loaded_claim_rules.iter().chain(&settings.claim_rules);
    if let Some(rule) = rules.clone().find(|rule| rule.vendor.eq_ignore_ascii_case(vendor)) {
        let text = format!("VAAI claim rule exists for vendor={vendor} (plugin: {})", rule.plugin);
        return line(Level::Pass, text);
    }
    let add = format!(
        "esxcli storage core claimrule add -r 911 --claimrule-class=VAAI -t vendor -V {vendor} -M '{model}' -P \
         VMW_VAAIP_T10 -a -s -m 16384"
    );
    let mut found = line(Level::Fail, format!("No VAAI claim rule found for vendor={vendor}"))
        .detailed("Without a claim rule, ESXi cannot bind a VAAI plugin to this vendor's devices.")
        .detailed("Suggested fix:");
    for command in [
        add.as_str(),
        "esxcli storage core claimrule load --claimrule-class=VAAI",
        "esxcli storage core claimrule run --claimrule-class=VAAI",
    ] {
        found.details.push(format!("  {command}"));
        found.fixes.push(command.to_owned());
    }
    found
}

fn paths(facts: &DeviceFacts) -> Line {
    let DeviceFacts { paths, active, standby, dead_names, .. } = facts;
    let dead = paths - active - standby;
    let counts = format!("{paths} paths ({active} active, {standby} standby, {dead} dead)");
    match (*paths, *active) {
        (0, _) => line(Level::Warn, "Path health: no path data available"),
        (_, 0) => line(Level::Fail, format!("Path health: {counts} -- device unreachable")),
        _ if dead > 0 => {
            let names = dead_names.join(" ");
            line(Level::Warn, format!("Path health: {counts} -- multipath degraded: {names}"))
        }
        _ => line(Level::Pass, format!("Path health: {counts}")),
    }
}

fn clone_counters(counters: &Counters) -> Vec<Line> {
    let hex = |count: u64| format!("0x{count:016x}");
    let recorded = if counters.clone_wr > 0 { "xcopy" } else { "no xcopy" };
    let mut lines = vec![line(
        Level::Info,
        format!(
            "Clone stats: cloneReadOps={} cloneWriteOps={} ({recorded} operations recorded)",
            hex(counters.clone_rd),
            hex(counters.clone_wr)
        ),
    )];
    if counters.clone_f > 0 {
        let failed = hex(counters.clone_f);
        let text = format!("failedCloneOps={failed} -- some xcopy operations failed");
        lines.push(line(Level::Warn, text));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::esxi::settings::ClaimRule;

    fn levels(lines: &[Line]) -> Vec<Level> {
        lines.iter().map(|line| line.level).collect()
    }

    fn rule(vendor: &str, model: &str) -> ClaimRule {
        let [vendor, model, plugin] = [vendor, model, "VMW_VAAIP_T10"].map(str::to_owned);
        ClaimRule { number: 911, vendor, model, plugin, ..ClaimRule::default() }
    }

    fn healthy() -> DeviceFacts {
        let (vendor, model) = ("GANTRY".to_owned(), "DISK".to_owned());
        let (clone, dead_names) = (Status::Supported, Vec::new());
        let counters = Counters { clone_wr: 255, ..Counters::default() };
        DeviceFacts { vendor, model, clone, paths: 2, active: 2, standby: 0, dead_names, counters }
    }

    #[test]
    fn the_settings_of_a_new_host_pass_but_for_the_transfer_size() {
        use Level::{Fail, Pass, Warn};
        let mut found = Settings::default();
        assert_eq!(levels(&settings(&found)), [Pass, Pass, Warn]);
        assert!(settings(&found)[2].text.starts_with("MaxHWTransferSize = 4096 (VMware default;"));
        (found.max_hw_transfer_size, found.hardware_accelerated_move) = (16_384, false);
        let lines = settings(&found);
        assert_eq!(levels(&lines), [Fail, Pass, Pass]);
        assert_eq!(lines[0].text, "HardwareAcceleratedMove = 0 (must be 1)");
        assert_eq!(lines[0].fixes, ["esxcfg-advcfg -s 1 /DataMover/HardwareAcceleratedMove"]);
        found.max_hw_transfer_size = 4095;
        assert!(settings(&found)[2].text.contains("below VMware default"));
    }

    #[test]
    fn a_device_with_a_loaded_rule_passes() {
        use Level::{Info, Pass};
        let host =
            Settings { loaded_claim_rules: vec![rule("GANTRY", "*")], ..Settings::default() };
        let lines = device(&healthy(), &host);
        assert_eq!(levels(&lines), [Pass, Pass, Pass, Pass, Info]);
        let text: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(
            text,
            [
                "VAAI Plugin Name = VMW_VAAIP_T10",
                "Clone Status = supported",
                "VAAI claim rule exists for vendor=GANTRY (plugin: VMW_VAAIP_T10)",
                "Path health: 2 paths (2 active, 0 standby, 0 dead)",
                "Clone stats: cloneReadOps=0x0000000000000000 cloneWriteOps=0x00000000000000ff (xcopy operations \
                 recorded)",
            ]
        );
    }

    #[test]
    fn what_is_missing_fails_and_says_how_to_mend_it() {
        use Level::{Fail, Info, Pass, Warn};
        let mut facts = healthy();
        let lines = device(&facts, &Settings::default());
        assert_eq!(levels(&lines), [Fail, Pass, Fail, Pass, Info]);
        assert_eq!(lines[2].fixes.len(), 3, "{lines:?}");
        // A rule that is not loaded binds no plug-in, though it is found; nor does one of another model.
        let claim_rules = vec![rule("gantry", "*")];
        let saved = Settings { claim_rules, ..Settings::default() };
        assert_eq!(levels(&device(&facts, &saved)), [Fail, Pass, Pass, Pass, Info]);
        (facts.active, facts.dead_names) = (1, vec!["vmhba64:C1:T0:L0".to_owned()]);
        facts.counters.clone_f = 1;
        let lines = device(&facts, &saved);
        assert_eq!(levels(&lines[3..]), [Warn, Info, Warn]);
        assert!(lines[3].text.ends_with("multipath degraded: vmhba64:C1:T0:L0"));
        assert!(lines[5].text.starts_with("failedCloneOps=0x0000000000000001"));
    }

    #[test]
    fn a_device_that_does_not_answer_is_unreachable() {
        use Level::{Fail, Info, Warn};
        let facts = DeviceFacts { paths: 2, ..DeviceFacts::default() };
        let lines = device(&facts, &Settings::default());
        assert_eq!(levels(&lines), [Fail, Fail, Warn, Fail, Info]);
        assert_eq!(lines[1].text, "Clone Status = unknown (must be 'supported')");
        assert!(lines[3].text.ends_with("(0 active, 0 standby, 2 dead) -- device unreachable"));
        assert_eq!(device(&DeviceFacts::default(), &Settings::default())[3].level, Warn);
    }
}

//! `gantry offload`, `locks`, `reclaim`, `forecast`: what hosts ask of the array, and what became of
//! it.

use anyhow::Result;
use api::{
    Asked, Finding, FindingKind, Forecast, Holder, HolderKind, LockMap, LockOutcome, OffloadLedger,
    OffloadRow, Reclaim,
};
use clap::Subcommand;

use crate::commands::Invocation;
use crate::tables::{Table, optional, or_dash, table};
use notation::format_size;
use notation::format_time;

#[derive(Debug, Subcommand)]
pub(crate) enum OffloadCommand {
    /// List what each host asked of each volume, and what became of it.
    List,
    /// Show what hosts did themselves although the array could, what was refused, and why.
    Explain,
}

impl Invocation {
    pub(crate) fn offload(&self, command: &OffloadCommand) -> Result<()> {
        match command {
            OffloadCommand::List => self
                .show(&self.client.get::<OffloadLedger>("/v1/offload")?, |ledger| {
                    ledger_table(ledger)
                }),
            OffloadCommand::Explain => self
                .show(&self.client.get::<Vec<Finding>>("/v1/offload/explain")?, |list| {
                    findings_table(list)
                }),
        }
    }

    pub(crate) fn locks(&self) -> Result<()> {
        self.show(&self.client.get::<Vec<LockMap>>("/v1/locks")?, |list| locks_table(list))
    }

    pub(crate) fn reclaim(&self) -> Result<()> {
        self.show(&self.client.get::<Vec<Reclaim>>("/v1/reclaim")?, |list| reclaim_table(list))
    }

    pub(crate) fn forecast(&self) -> Result<()> {
        self.show(&self.client.get::<Vec<Forecast>>("/v1/forecast")?, |list| forecast_table(list))
    }
}

fn ledger_table(ledger: &OffloadLedger) -> Table {
    let mut rows = table(&[
        "HOST",
        "VOLUME",
        "LUN",
        "CLONED",
        "COPIED",
        "ZEROED",
        "UNMAPPED",
        "ATS",
        "MISCOMPARES",
        "REFUSED",
        "HOST COPIED",
        "HOST ZEROED",
    ]);
    for row in &ledger.rows {
        rows.add_row([
            row.host.clone(),
            row.volume.clone(),
            optional(row.lun),
            format_size(row.cloned_by_reference_bytes),
            format_size(row.copied_bytes),
            format_size(row.zero.done_bytes),
            format_size(row.unmap.done_bytes),
            row.compare_and_write.commands.to_string(),
            row.miscompares.to_string(),
            refused(row).to_string(),
            about(row.host_copied_bytes),
            format_size(row.host_zeroed_bytes),
        ]);
    }
    rows
}

/// Offloads that were refused; a miscompare is an answer, not a refusal.
fn refused(row: &OffloadRow) -> u64 {
    let all = [row.clone, row.zero, row.unmap, row.token, row.compare_and_write];
    all.iter().map(|asked: &Asked| asked.refused).sum::<u64>().saturating_sub(row.miscompares)
}

/// An estimate.
fn about(bytes: u64) -> String {
    if bytes == 0 { format_size(0) } else { format!("~{}", format_size(bytes)) }
}

fn findings_table(findings: &[Finding]) -> Table {
    if findings.is_empty() {
        let mut rows = table(&[]);
        rows.add_row(["Everything that hosts asked for was offloaded."]);
        return rows;
    }
    let mut rows = table(&["LAST", "HOST", "WHAT", "WHY", "WHAT TO DO"]);
    for finding in findings {
        rows.add_row([
            format_time(finding.last),
            finding.host.clone(),
            what(finding),
            format!("{} ({})", finding.reason, finding.code),
            finding.advice.clone(),
        ]);
    }
    rows
}

fn what(finding: &Finding) -> String {
    let Finding { volume, bytes, .. } = finding;
    match finding.kind {
        FindingKind::HostSideCopy => {
            let source = finding.source.as_deref().unwrap_or("?");
            format!("host-side copy of {} from {source} to {volume}", about(*bytes))
        }
        FindingKind::HostSideZero => {
            format!("{} of zeros written to {volume}", format_size(*bytes))
        }
        FindingKind::Refused => format!("refused on {volume}"),
    }
}

fn locks_table(maps: &[LockMap]) -> Table {
    let mut rows = table(&["VOLUME", "LBA", "BLOCKS", "ATTEMPTS", "MISCOMPARES", "HOSTS", "LAST"]);
    for map in maps {
        for range in &map.contended {
            rows.add_row([
                map.volume.clone(),
                range.lba.to_string(),
                range.blocks.to_string(),
                range.attempts.to_string(),
                range.miscompares.to_string(),
                or_dash(range.hosts.join(", ")),
                format_time(range.last),
            ]);
        }
        let refused = map.recent.iter().filter(|a| a.outcome == LockOutcome::Refused).count();
        if refused > 0 {
            rows.add_row([map.volume.clone(), format!("{refused} of the latest were refused")]);
        }
    }
    rows
}

fn reclaim_table(list: &[Reclaim]) -> Table {
    let mut rows = table(&["VOLUME", "ASKED", "ALREADY FREE", "FREED", "HELD", "HELD BY"]);
    for reclaim in list {
        rows.add_row([
            reclaim.volume.clone(),
            format_size(reclaim.asked_bytes),
            format_size(reclaim.already_free_bytes),
            format_size(reclaim.freed_bytes),
            format_size(reclaim.held_bytes),
            or_dash(reclaim.held_by.iter().map(holder).collect::<Vec<_>>().join(", ")),
        ]);
    }
    rows
}

fn holder(holder: &Holder) -> String {
    let name = holder.name.as_deref().unwrap_or("elsewhere");
    let kind = match holder.kind {
        HolderKind::Snapshot => "snapshot",
        HolderKind::Clone => "clone",
        HolderKind::Origin => "origin",
        HolderKind::Copies => "copies",
    };
    format!("{kind} {name} ({})", format_size(holder.bytes))
}

fn forecast_table(list: &[Forecast]) -> Table {
    let mut rows = table(&["POOL", "TOTAL", "USED", "GROWS PER DAY", "FULL IN", "LEARNT FROM"]);
    for forecast in list {
        let per_day = forecast.bytes_per_second.map(|bytes| (bytes * 86_400.0).max(0.0) as u64);
        rows.add_row([
            forecast.pool.clone(),
            format_size(forecast.total_bytes),
            format_size(forecast.used_bytes),
            optional(per_day.map(format_size)),
            optional(forecast.seconds_until_full.map(duration)),
            optional(forecast.window_seconds.map(duration)),
        ]);
    }
    rows
}

/// A duration to two digits or so.
fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_as_exact_as_it_is_read() {
        let texts = [0, 119, 120, 7_199, 7_200, 172_799, 172_800].map(duration);
        assert_eq!(texts, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 d"]);
    }

    #[test]
    fn an_estimate_is_told_as_one() {
        assert!(about(1 << 20).starts_with('~'));
        assert!(!about(0).starts_with('~'));
    }
}

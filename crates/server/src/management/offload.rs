//! The offload ledger, and why something was not offloaded.

use api::{Asked, Finding, FindingKind, OffloadLedger, OffloadRow, Refusal};
use array::Configuration;
use block::VolumeId;
use ledger::{Facts, HostCopy, Primitive, Reason, Refused, Row, zero_reason};

use super::Management;
use super::statistics::VolumeNames;
use crate::core::Core;

impl Management {
    pub(super) fn describe_offload(&self, core: &Core) -> OffloadLedger {
        let names = VolumeNames::new(core);
        let rows = core.accounts.ledger.rows();
        let mut rows: Vec<_> = rows.map(|row| self.describe_row(core, &names, row)).collect();
        rows.sort_by(|a, b| (&a.host, &a.volume).cmp(&(&b.host, &b.volume)));
        let since = core.accounts.seconds(std::time::Duration::ZERO) as u64;
        OffloadLedger { since, rows }
    }

    fn describe_row(&self, core: &Core, names: &VolumeNames<'_>, row: &Row) -> OffloadRow {
        let effects = &row.effects;
        OffloadRow {
            host: core.accounts.ledger.host_name(row.host).to_owned(),
            volume: names.name(row.volume),
            lun: self
                .configuration
                .lun_seen_by(core.accounts.ledger.host_name(row.host), row.volume),
            clone: asked(row, Primitive::ExtendedCopy),
            cloned_by_reference_bytes: effects.referenced_bytes,
            copied_bytes: effects.copied_bytes,
            clone_source_bytes: effects.source_bytes,
            zero: asked(row, Primitive::WriteSame),
            unmap: asked(row, Primitive::Unmap),
            token: asked(row, Primitive::Token),
            compare_and_write: asked(row, Primitive::CompareAndWrite),
            miscompares: effects.miscompares,
            read_bytes: row.of(Primitive::Read).done_bytes,
            written_bytes: row.of(Primitive::Write).done_bytes,
            host_copied_bytes: effects.host_copied_bytes,
            host_zeroed_bytes: effects.host_zeroed_bytes,
            refusals: row.refusals.iter().map(|refused| describe_refused(core, refused)).collect(),
        }
    }

    /// Everything that was not offloaded, newest first.
    pub(super) fn explain_offload(&self, core: &Core) -> Vec<Finding> {
        let (ledger, names) = (&core.accounts.ledger, VolumeNames::new(core));
        let finder = Finder { core, names };
        let copies = ledger.host_copies().map(|copy| {
            let facts = ledger.facts(copy, known(core, &self.configuration, copy));
            finder.copy(copy, facts.reason())
        });
        let zeros = ledger.rows().filter_map(|row| finder.zeros(row, zero_reason(row)?));
        let refused = ledger.rows().flat_map(|row| finder.refused(row));
        let mut findings: Vec<Finding> = copies.chain(zeros).chain(refused).collect();
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.last));
        findings
    }

    /// Keeps what is known of copies from and to a volume that is about to be deleted.
    pub(super) fn settle_copies(&self, core: &mut Core, volume: VolumeId) {
        let copies = core.accounts.ledger.host_copies();
        let ending = copies.filter(|copy| [copy.source, copy.destination].contains(&volume));
        let settled: Vec<(HostCopy, Facts)> =
            ending.map(|copy| (copy.clone(), known(core, &self.configuration, copy))).collect();
        for (copy, facts) in settled {
            core.accounts.ledger.settle(&copy, facts);
        }
    }
}

/// What the array's configuration says of a copy that a host made itself; of one whose ends are not
/// there any more, what it said while they were.
fn known(core: &Core, configuration: &Configuration, copy: &HostCopy) -> Facts {
    let ends = [copy.source, copy.destination];
    let identifications = ends.map(|volume| core.target.identification(volume));
    let block_lengths = ends.map(|volume| core.target.block_length(volume));
    let pools = ends.map(|volume| core.pool_of(volume));
    if let (Some(settled), true) = (copy.settled(), pools.contains(&None)) {
        return settled;
    }
    let host = core.accounts.ledger.host_name(copy.host);
    let initiators = configuration.hosts.get(host).map(|host| &host.initiators);
    let sees = |initiator: &str| {
        let luns = configuration.visible_luns(initiator);
        ends.map(|end| luns.values().any(|lun| lun.volume == end))
    };
    let seen: Vec<[bool; 2]> = match initiators {
        Some(initiators) => initiators.iter().map(|initiator| sees(initiator)).collect(),
        None => vec![sees(host)],
    };
    let is_seen = |end: usize| seen.iter().any(|ends| ends[end]);
    Facts {
        same_product: alike(identifications),
        same_block_length: alike(block_lengths),
        same_pool: alike(pools),
        // The host saw both when it copied. What was unmapped since says nothing of that.
        seen_together: !(is_seen(0) && is_seen(1)) || seen.contains(&[true, true]),
        // The ledger knows the rest.
        ..Facts::default()
    }
}

/// Whether both are the same; what is not there was, as far as anybody knows.
fn alike<T: PartialEq>([one, other]: [Option<T>; 2]) -> bool {
    one.zip(other).is_none_or(|(one, other)| one == other)
}

/// Puts findings into words.
struct Finder<'a> {
    core: &'a Core,
    names: VolumeNames<'a>,
}

impl Finder<'_> {
    fn finding(&self, kind: FindingKind, row: (ledger::HostId, VolumeId), why: Reason) -> Finding {
        Finding {
            kind,
            host: self.core.accounts.ledger.host_name(row.0).to_owned(),
            volume: self.names.name(row.1),
            source: None,
            bytes: 0,
            estimated: false,
            first: 0,
            last: 0,
            code: why.code().to_owned(),
            reason: why.text(),
            advice: why.advice().to_owned(),
        }
    }

    fn at(
        &self,
        finding: Finding,
        first: std::time::Duration,
        last: std::time::Duration,
    ) -> Finding {
        let seconds = |at| self.core.accounts.seconds(at) as u64;
        Finding { first: seconds(first), last: seconds(last), ..finding }
    }

    fn copy(&self, copy: &HostCopy, why: Reason) -> Finding {
        let finding = Finding {
            source: Some(self.names.name(copy.source)),
            bytes: copy.estimated_bytes(),
            estimated: true,
            ..self.finding(FindingKind::HostSideCopy, (copy.host, copy.destination), why)
        };
        self.at(finding, copy.first, copy.last)
    }

    fn zeros(&self, row: &Row, why: Reason) -> Option<Finding> {
        let (first, last) = row.zeroing?;
        let finding = Finding {
            bytes: row.effects.host_zeroed_bytes,
            ..self.finding(FindingKind::HostSideZero, (row.host, row.volume), why)
        };
        Some(self.at(finding, first, last))
    }

    fn refused<'r>(&'r self, row: &'r Row) -> impl Iterator<Item = Finding> + 'r {
        let offloads = row.refusals.iter().filter(|refused| refused.primitive.is_offload());
        offloads.map(|refused| {
            let why = match refused.refusal.status {
                "RESERVATION CONFLICT" => Reason::Reservation,
                _ => Reason::Refused(refused.refusal),
            };
            let finding = self.finding(FindingKind::Refused, (row.host, row.volume), why);
            let reason = format!("{}: {} ({} times)", refused.command, why.text(), refused.count);
            self.at(Finding { reason, ..finding }, refused.first, refused.last)
        })
    }
}

fn asked(row: &Row, primitive: Primitive) -> Asked {
    let sums = row.of(primitive);
    Asked {
        commands: sums.commands,
        refused: sums.refused,
        asked_bytes: sums.asked_bytes,
        done_bytes: sums.done_bytes,
    }
}

fn describe_refused(core: &Core, refused: &Refused) -> Refusal {
    let sense = refused.refusal.sense;
    Refusal {
        command: refused.command.to_owned(),
        status: refused.refusal.status.to_owned(),
        sense: sense.map(|(key, asc, ascq)| format!("{key:02x}h/{asc:02x}h/{ascq:02x}h")),
        reason: refused.refusal.reason.to_lowercase().replace('_', " "),
        count: refused.count,
        last: core.accounts.seconds(refused.last) as u64,
    }
}

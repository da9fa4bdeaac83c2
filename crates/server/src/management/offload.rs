//! Routes of the offload ledger, and of why something was not offloaded.

use std::sync::Arc;

use api::{Asked, Finding, FindingKind, OffloadLedger, OffloadRow, Refusal, Route};
use block::{Switch, TurnedOff, VolumeId};
use ledger::{Facts, HostCopy, Primitive, Reason, Refused, Row, turned_off, zero_reason};

use super::gathering::Scene;
use super::statistics::{VolumeNames, row_keys};
use super::{Management, Progress};
use crate::data_plane::DataPlane;
use crate::described::Described;
use crate::yielding::{free, pause, sort_by};

/// What each host asked of each volume, and what became of it.
pub(super) fn list_offload(plane: &DataPlane) -> Progress {
    let look = |_: &Management, scene: Scene<'_>, (host, volume)| {
        let row = scene.plane.feed.ledger.row(host, volume)?;
        Some((volume, describe_row(scene.plane, row)))
    };
    let describe =
        |management: &Management, scene: Scene<'_>, rows: Vec<(VolumeId, OffloadRow)>| {
            let configuration = Arc::clone(&management.configuration);
            let since = scene.plane.feed.seconds(std::time::Duration::ZERO) as u64;
            let describe = move || {
                let with_lun = |(volume, row): (VolumeId, OffloadRow)| OffloadRow {
                    lun: configuration.lun_seen_by(&row.host, volume),
                    ..row
                };
                let rows = rows.into_iter().map(with_lun).inspect(|_| pause());
                let mut rows: Vec<OffloadRow> = rows.collect();
                sort_by(&mut rows, |a, b| (&a.host, &a.volume).cmp(&(&b.host, &b.volume)));
                OffloadLedger { since, rows }
            };
            Described::later_and(describe, |ledger: OffloadLedger| free(ledger.rows))
        };
    Progress::gather(Route::ShowOffload, row_keys(plane), look, describe)
}

/// A row without what the configuration says of it.
fn describe_row(plane: &DataPlane, row: &Row) -> OffloadRow {
    let effects = &row.effects;
    OffloadRow {
        host: plane.feed.ledger.host_name(row.host).to_owned(),
        volume: VolumeNames::new(plane).name(row.volume),
        lun: None,
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
        refusals: row.refusals.iter().map(|refused| describe_refused(plane, refused)).collect(),
    }
}

/// Everything that was not offloaded, newest first.
pub(super) fn explain_offload(plane: &DataPlane) -> Progress {
    let copies: Vec<HostCopy> = plane.feed.ledger.host_copies().cloned().collect();
    let copies = copies.into_iter().map(Unoffloaded::Copied);
    let keys: Vec<_> = copies.chain(row_keys(plane).map(Unoffloaded::Row)).collect();
    let look = |management: &Management, scene: Scene<'_>, key| {
        Some(management.findings(scene.plane, key)).filter(|findings| !findings.is_empty())
    };
    Progress::gather(Route::ExplainOffload, keys.into_iter(), look, |_, _, found| {
        Described::list(move |list| {
            let mut findings: Vec<Finding> = found.into_iter().flatten().collect();
            sort_by(&mut findings, |a, b| b.last.cmp(&a.last));
            findings.into_iter().for_each(|finding| list.push(&finding));
        })
    })
}

/// Where something may not have been offloaded.
enum Unoffloaded {
    Copied(HostCopy),
    Row((ledger::HostId, VolumeId)),
}

impl Management {
    fn findings(&self, plane: &DataPlane, key: Unoffloaded) -> Vec<Finding> {
        let (ledger, names) = (&plane.feed.ledger, VolumeNames::new(plane));
        let finder = Finder { plane, names };
        match key {
            Unoffloaded::Copied(copy) => {
                let facts = ledger.facts(&copy, self.known(plane, &copy));
                vec![finder.copy(&copy, facts.reason())]
            }
            Unoffloaded::Row((host, volume)) => {
                let Some(row) = ledger.row(host, volume) else { return Vec::new() };
                let off = self.turned_off(plane, host, [volume], Switch::WriteSame);
                let zeros = zero_reason(row, off).and_then(|why| finder.zeros(row, why));
                zeros.into_iter().chain(finder.refused(row)).collect()
            }
        }
    }

    /// Where a primitive is turned off for a host on one of some volumes.
    fn turned_off<const N: usize>(
        &self,
        plane: &DataPlane,
        host: ledger::HostId,
        volumes: [VolumeId; N],
        switch: Switch,
    ) -> Option<TurnedOff> {
        let host = plane.feed.ledger.host_name(host);
        let of = |volume| self.configuration.turned_off(host, volume, switch);
        volumes.into_iter().filter_map(of).min_by_key(|off| off.level)
    }

    /// Keeps what is known of copies from and to a volume that is about to be deleted.
    pub(super) fn settle_copies(&self, plane: &mut DataPlane, volume: VolumeId) {
        let copies = plane.feed.ledger.host_copies();
        let ending = copies.filter(|copy| [copy.source, copy.destination].contains(&volume));
        let settled: Vec<(HostCopy, Facts)> =
            ending.map(|copy| (copy.clone(), self.known(plane, copy))).collect();
        for (copy, facts) in settled {
            plane.feed.ledger.settle(&copy, facts);
        }
    }

    /// What the array says of a copy that a host made itself; of one whose ends are not
    /// there any more, what it said while they were.
    fn known(&self, plane: &DataPlane, copy: &HostCopy) -> Facts {
        let ends = [copy.source, copy.destination];
        let block_lengths = ends.map(|volume| plane.exports.block_bytes(volume));
        let pools = ends.map(|volume| plane.pool_of(volume));
        if let (Some(settled), true) = (copy.settled(), pools.contains(&None)) {
            return settled;
        }
        Facts {
            turned_off: self.turned_off(plane, copy.host, ends, Switch::ExtendedCopy),
            same_product: plane.exports.tell_alike(ends).unwrap_or(true),
            same_block_length: alike(block_lengths),
            same_pool: alike(pools),
            // All initiators of a host see the same LUNs, and it saw both when it copied. What was
            // unmapped since says nothing of that.
            seen_together: true,
            // The ledger knows the rest.
            ..Facts::default()
        }
    }
}

/// Whether both are the same; what is not there was, as far as anybody knows.
fn alike<T: PartialEq>([one, other]: [Option<T>; 2]) -> bool {
    one.zip(other).is_none_or(|(one, other)| one == other)
}

/// Puts findings into words.
struct Finder<'a> {
    plane: &'a DataPlane,
    names: VolumeNames<'a>,
}

impl Finder<'_> {
    fn finding(&self, kind: FindingKind, row: (ledger::HostId, VolumeId), why: Reason) -> Finding {
        Finding {
            kind,
            host: self.plane.feed.ledger.host_name(row.0).to_owned(),
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
        let seconds = |at| self.plane.feed.seconds(at) as u64;
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
            let why = match (refused.refusal.turned_off, refused.refusal.status) {
                (Some(off), _) => Reason::TurnedOff(off),
                (None, "RESERVATION CONFLICT") => Reason::Reservation,
                (None, _) => Reason::Refused(refused.refusal),
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

fn describe_refused(plane: &DataPlane, refused: &Refused) -> Refusal {
    let sense = refused.refusal.sense;
    Refusal {
        command: refused.command.to_owned(),
        status: refused.refusal.status.to_owned(),
        sense: sense.map(|(key, asc, ascq)| format!("{key:02x}h/{asc:02x}h/{ascq:02x}h")),
        reason: match refused.refusal.turned_off {
            Some(off) => turned_off(off),
            None => refused.refusal.reason.to_lowercase().replace('_', " "),
        },
        count: refused.count,
        last: plane.feed.seconds(refused.last) as u64,
    }
}

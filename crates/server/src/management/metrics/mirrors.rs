//! Metrics of mirrors: members, resilvers, spares; and of devices that leave.

use control::members::describe_state;
use store::{EvacuationStatus, MemberState};

use super::facts::{MemberFacts, MirrorFacts, PoolFacts, ResilverFacts};
use super::{
    DEPARTURE_COPIED, DEPARTURE_LEFT, DEPARTURE_PAUSED, DEPARTURE_UNREADABLE, DEPARTURE_WAITS,
    MEMBER_ERRORS, MEMBER_HEALED, MEMBER_STATE, MIRROR_DEGRADED, Metric, Page, RESILVER_COPIED,
    RESILVER_LEFT, RESILVER_PAUSED, SPARE_MISSING, SPARES,
};

/// Members of mirrors, and what their copies are worth.
pub(super) fn member_metrics(page: &mut Page, pools: &[PoolFacts]) {
    let each = || pools.iter().flat_map(|pool| pool.members.iter().map(move |one| (pool, one)));
    page.begin(&MEMBER_STATE);
    for (pool, member) in each() {
        let mirror = member.mirror.to_string();
        for state in [
            MemberState::Current,
            MemberState::Resilvering,
            MemberState::Absent,
            MemberState::Witness,
            MemberState::WitnessAbsent,
        ] {
            let labels = [
                ("pool", pool.name.as_str()),
                ("mirror", mirror.as_str()),
                ("device", member.name.as_str()),
                ("state", describe_state(state).name()),
            ];
            page.sample(MEMBER_STATE.name, &labels, f64::from(u8::from(member.state == state)));
        }
    }
    for (metric, count) in [
        (&MEMBER_ERRORS, (|member| member.errors) as fn(&MemberFacts) -> u64),
        (&MEMBER_HEALED, |member| member.healed_blocks),
    ] {
        page.begin(metric);
        for (pool, member) in each() {
            let mirror = member.mirror.to_string();
            let labels =
                [("pool", pool.name.as_str()), ("mirror", &mirror), ("device", &member.name)];
            page.sample(metric.name, &labels, count(member) as f64);
        }
    }
}

/// A metric, and its value for a member that is being filled.
type ResilverValue = (&'static Metric, fn(&ResilverFacts) -> u64);

/// Whether mirrors are whole, and how far members are that are being filled.
pub(super) fn mirror_metrics(page: &mut Page, pools: &[PoolFacts]) {
    let each = || pools.iter().flat_map(|pool| pool.mirrors.iter().map(move |one| (pool, one)));
    page.begin(&MIRROR_DEGRADED);
    for (pool, MirrorFacts { number, is_degraded, .. }) in each() {
        let number = number.to_string();
        let labels = [("pool", pool.name.as_str()), ("mirror", number.as_str())];
        page.sample(MIRROR_DEGRADED.name, &labels, f64::from(u8::from(*is_degraded)));
    }
    let values: [ResilverValue; 3] = [
        (&RESILVER_COPIED, |resilver| resilver.copied_bytes),
        (&RESILVER_LEFT, |resilver| resilver.left_bytes),
        (&RESILVER_PAUSED, |resilver| u64::from(resilver.is_paused)),
    ];
    for (metric, value) in values {
        page.begin(metric);
        for (pool, mirror) in each() {
            let Some(resilver) = &mirror.resilver else { continue };
            let number = mirror.number.to_string();
            let labels =
                [("pool", pool.name.as_str()), ("mirror", &number), ("device", &resilver.device)];
            page.sample(metric.name, &labels, value(resilver) as f64);
        }
    }
}

/// A metric, and its value for a device that leaves.
type DepartureValue = (&'static Metric, fn(&EvacuationStatus) -> u64);

/// How far devices are that leave.
pub(super) fn departure_metrics(page: &mut Page, pools: &[PoolFacts]) {
    let values: [DepartureValue; 5] = [
        (&DEPARTURE_LEFT, |status| status.left_bytes),
        (&DEPARTURE_COPIED, |status| status.copied_bytes),
        (&DEPARTURE_PAUSED, |status| u64::from(status.paused)),
        (&DEPARTURE_WAITS, |status| u64::from(status.waits_for_space)),
        (&DEPARTURE_UNREADABLE, |status| status.unreadable_blocks),
    ];
    for (metric, value) in values {
        page.begin(metric);
        for pool in pools {
            let Some(status) = &pool.departure else { continue };
            let number = status.device.to_string();
            let labels = [("pool", pool.name.as_str()), ("device", number.as_str())];
            page.sample(metric.name, &labels, value(status) as f64);
        }
    }
}

/// Spares of pools with mirrors, and those of them that are not there.
pub(super) fn spare_metrics(page: &mut Page, pools: &[PoolFacts]) {
    page.begin(&SPARES);
    for pool in pools.iter().filter(|pool| !pool.mirrors.is_empty()) {
        page.sample(SPARES.name, &[("pool", &pool.name)], pool.spares.len() as f64);
    }
    page.begin(&SPARE_MISSING);
    for pool in pools {
        for (device, is_missing) in &pool.spares {
            let labels = [("pool", pool.name.as_str()), ("device", device.as_str())];
            page.sample(SPARE_MISSING.name, &labels, f64::from(u8::from(*is_missing)));
        }
    }
}

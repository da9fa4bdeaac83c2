//! Metrics of what limits (QoS) of volumes and hosts held back; only of those that have limits.

use super::facts::VolumeFacts;
use super::{
    HOST_HELD, HOST_HELD_TIME, HOST_WAITING, Metric, Page, VOLUME_HELD, VOLUME_HELD_TIME,
    VOLUME_WAITING,
};
use crate::throttle::HeldBack;

pub(super) fn volumes(page: &mut Page, volumes: &[VolumeFacts]) {
    let held = volumes.iter().filter_map(|volume| Some((volume.name.as_str(), volume.held?)));
    let held: Vec<(&str, HeldBack)> = held.collect();
    write(page, "volume", &held, [&VOLUME_HELD, &VOLUME_HELD_TIME, &VOLUME_WAITING]);
}

pub(super) fn hosts(page: &mut Page, hosts: &[(String, HeldBack)]) {
    let held: Vec<(&str, HeldBack)> =
        hosts.iter().map(|(name, held)| (name.as_str(), *held)).collect();
    write(page, "host", &held, [&HOST_HELD, &HOST_HELD_TIME, &HOST_WAITING]);
}

fn write(
    page: &mut Page,
    label: &str,
    all: &[(&str, HeldBack)],
    [commands, time, waiting]: [&Metric; 3],
) {
    page.begin(commands);
    for (name, held) in all {
        page.sample(commands.name, &[(label, name)], held.commands as f64);
    }
    page.begin(time);
    for (name, held) in all {
        page.sample(time.name, &[(label, name)], held.time.as_secs_f64());
    }
    page.begin(waiting);
    for (name, held) in all {
        page.sample(waiting.name, &[(label, name)], held.waiting as f64);
    }
}

//! Any CDB with any data, on any LUN: every command ends, and nothing panics.

#![no_main]

use std::collections::BTreeMap;
use std::time::Duration;

use arbitrary::Arbitrary;
use block::{
    BlockError, ByteRange, LogicalBlockLength, MapExtent, MapState, Request, Response, Rope,
    Switch, SwitchesOff, VolumeId,
};
use libfuzzer_sys::fuzz_target;
use scsi::{
    AccessState, Command, DeviceServer, Expected, Identity, LogicalUnitSpec, NexusId, NexusSpec,
    RodTokenSpace, TaskAttribute, TaskId, TaskManagement,
};

const SIZE: u64 = 1 << 30;

#[derive(Debug, Arbitrary)]
struct Step {
    nexus: bool,
    lun: u8,
    attribute: u8,
    cdb: [u8; 32],
    data_out: Vec<u8>,
    /// How the volume answers.
    answer: u8,
    /// A task management function afterwards.
    manage: u8,
    /// What changes between the decoding of the command and its execution.
    change: u8,
}

fn unit(id: u64) -> LogicalUnitSpec {
    let mut naa = [0x60; 16];
    naa[15] = id as u8;
    LogicalUnitSpec {
        naa,
        size_bytes: SIZE,
        block_length: if id == 3 { LogicalBlockLength::B4096 } else { LogicalBlockLength::B512 },
        physical_block_exponent: 0,
        thin: id != 2,
    }
}

fn target() -> DeviceServer {
    let identity = Identity::gantry("iqn.2026-11.io.gantry:fuzz");
    let mut target = DeviceServer::new(Identity { long_cdbs: true, ..identity });
    target.set_token_key([7; 32]);
    for id in 1..=3 {
        target.add_unit(VolumeId(id), unit(id));
        let space = RodTokenSpace { volume: VolumeId(9), size_bytes: SIZE };
        target.set_rod_token_space(VolumeId(id), space);
    }
    for nexus in 0..2 {
        let luns = BTreeMap::from([(0, VolumeId(1)), (1, VolumeId(2)), (2, VolumeId(3))]);
        let spec = NexusSpec {
            initiator_name: format!("iqn.host-{nexus}"),
            isid: [nexus as u8; 6],
            relative_target_port: 1,
            target_portal_group: 1,
            luns,
            switches_off: SwitchesOff::NONE,
        };
        target.open_nexus(NexusId(nexus), spec);
    }
    target
}

/// Changes what a command finds when it is executed.
fn change(target: &mut DeviceServer, how: u8) {
    let luns = |one, two| BTreeMap::from([(0, VolumeId(one)), (1, VolumeId(two))]);
    match how % 16 {
        0 => target.set_luns(NexusId(0), luns(1, 2)),
        1 => target.set_luns(NexusId(0), luns(3, 1)),
        2 => target.resize_unit(VolumeId(1), SIZE / 2),
        3 => target.resize_unit(VolumeId(1), SIZE),
        4 => target.set_write_protected(VolumeId(1), true),
        5 => target.set_write_protected(VolumeId(1), false),
        6 => target.set_unit_access(VolumeId(1), AccessState::Standby),
        7 => target.set_unit_access(VolumeId(1), AccessState::ActiveOptimized),
        8 => target.set_switches_off(Switch::ALL.into_iter().collect()),
        9 => target.set_switches_off(SwitchesOff::NONE),
        _ => {}
    }
}

/// What a volume might say; ranges beyond its end never get here.
fn answer(request: &Request, how: u8) -> Result<Response, BlockError> {
    let inside = |range: &ByteRange| assert!(range.end() <= SIZE, "{request:?}");
    match how % 16 {
        0 => return Err(BlockError::OutOfSpace),
        1 => return Err(BlockError::Medium { offset: 4096 }),
        2 => return Err(BlockError::DifferentPool),
        3 => return Err(BlockError::Busy),
        4 => return Err(BlockError::Miscompare { offset: 7 }),
        _ => {}
    }
    Ok(match request {
        Request::Read { range } => {
            inside(range);
            let mut rope = Rope::new();
            rope.push_zeros(range.length as usize);
            Response::Data(rope)
        }
        Request::MapStatus { range, .. } => {
            inside(range);
            Response::Map(vec![MapExtent { range: *range, state: MapState::Mapped }])
        }
        Request::Write { range, data } => {
            inside(range);
            assert_eq!(range.length, data.len() as u64);
            Response::Done
        }
        Request::WriteSame { range, .. } | Request::CompareAndWrite { range, .. } => {
            inside(range);
            Response::Done
        }
        Request::Unmap { ranges } => {
            ranges.iter().for_each(inside);
            Response::Done
        }
        Request::Copy { source_offset, destination, length, .. } => {
            assert!(source_offset + length <= SIZE && destination + length <= SIZE);
            Response::Done
        }
        Request::Flush => Response::Done,
    })
}

fn function(code: u8, task: TaskId) -> Option<TaskManagement> {
    Some(match code % 16 {
        0 => TaskManagement::LogicalUnitReset,
        1 => TaskManagement::AbortTask(task),
        2 => TaskManagement::AbortTaskSet,
        3 => TaskManagement::ClearTaskSet,
        4 => TaskManagement::ItNexusReset,
        5 => TaskManagement::TargetWarmReset,
        6 => TaskManagement::QueryTask(task),
        _ => return None,
    })
}

/// Carries out requests until there is none.
fn settle(target: &mut DeviceServer, how: u8) {
    let mut requests = 0;
    loop {
        if let Some((id, ..)) = target.next_save() {
            target.saved(id, how % 4 != 0);
            continue;
        }
        let Some((id, _, request)) = target.next_request() else { return };
        target.completed(id, answer(&request, how));
        requests += 1;
        assert!(requests < 100_000, "a command never ends");
    }
}

fuzz_target!(|steps: Vec<Step>| {
    let mut target = target();
    for (number, step) in steps.iter().take(32).enumerate() {
        let task = TaskId(number as u64);
        let nexus = NexusId(u64::from(step.nexus));
        let lun = u64::from(step.lun % 5) << 48;
        let attribute = match step.attribute % 8 {
            0 => TaskAttribute::Ordered,
            1 => TaskAttribute::HeadOfQueue,
            2 => TaskAttribute::Aca,
            _ => TaskAttribute::Simple,
        };
        let decoded = target.decode(nexus, lun, &step.cdb);
        let mut data = step.data_out.clone();
        data.resize((decoded.data_out_length() as usize).min(1 << 20), 0);
        let expected = Expected { data_out: data.len() as u64, data_in: u64::MAX };
        let (data_out, since) = (data.into(), target.now());
        // Another block length, size or LUN map between decoding and execution.
        change(&mut target, step.change);
        target.execute(task, Command { decoded, attribute, expected, data_out, since });
        if let Some(function) = function(step.manage, task) {
            target.manage(TaskId(1000), nexus, lun, function);
        }
        settle(&mut target, step.answer);
        // A SANITIZE goes on at its pace, whoever waits for it.
        for tick in 1..=100 {
            if target.tasks_under_way() == 0 {
                break;
            }
            target.tick(Duration::from_secs(number as u64 * 1000 + tick * 10));
            settle(&mut target, step.answer);
        }
        while target.next_done().is_some() || target.next_aborted().is_some() {}
        while target.next_management_done().is_some() {}
        assert_eq!(target.tasks_under_way(), 0, "a command is left behind");
    }
});

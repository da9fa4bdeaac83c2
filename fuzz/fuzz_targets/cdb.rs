//! Any CDBs with any parameter lists, task management in between: the device server stays up,
//! every command ends, and nothing is left behind.

#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use block::{
    BlockError, Buffer, LogicalBlockLength, MapExtent, MapState, Request, Response, Rope, VolumeId,
};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use scsi::{
    Command, Identity, LogicalUnitSpec, NexusId, NexusSpec, Target, TaskAttribute, TaskId,
    TaskManagement, emit_lun,
};

const NEXUS: NexusId = NexusId(1);
const UNITS: [(u16, VolumeId, LogicalBlockLength); 3] = [
    (0, VolumeId(0), LogicalBlockLength::B512),
    (1, VolumeId(1), LogicalBlockLength::B512),
    (2, VolumeId(2), LogicalBlockLength::B4096),
];
const UNIT_BYTES: u64 = 1 << 30;

/// Answers to requests that are not the expected one.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Fault {
    None,
    Miscompare,
    OutOfSpace,
    Medium,
    DifferentPool,
    Busy,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Command { lun: u8, attribute: u8, cdb: Vec<u8>, data: Vec<u8>, offered: u32 },
    Answer(Fault),
    Abort(u8),
    Reset(u8),
    Resize(u8, u64),
    ReopenNexus,
}

fuzz_target!(|steps: Vec<Step>| {
    let mut world = World::new();
    for step in steps {
        world.apply(step);
    }
    while world.answer(Fault::None) {}
    while world.target.next_done().is_some() {}
    assert_eq!(world.target.tasks_under_way(), 0);
});

struct World {
    target: Target,
    last_task: u64,
}

impl World {
    fn new() -> Self {
        let mut target = Target::new(Identity::gantry("iqn.2026-01.example:fuzz"));
        for (_, volume, block_length) in UNITS {
            let naa = [volume.0 as u8; 16];
            let spec = LogicalUnitSpec { naa, size_bytes: UNIT_BYTES, block_length, thin: true };
            target.add_unit(volume, spec);
        }
        let mut world = Self { target, last_task: 0 };
        world.open_nexus();
        world
    }

    /// Opens the nexus and takes its power-on conditions.
    fn open_nexus(&mut self) {
        let luns: BTreeMap<_, _> = UNITS.iter().map(|&(lun, volume, _)| (lun, volume)).collect();
        let spec = NexusSpec {
            initiator_name: "iqn.2026-01.example:initiator".to_owned(),
            isid: [0; 6],
            relative_target_port: 1,
            target_portal_group: 1,
            luns,
        };
        self.target.open_nexus(NEXUS, spec);
        for (lun, ..) in UNITS {
            self.execute(emit_lun(lun), TaskAttribute::Simple, &[0; 6], &[], 0);
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Command { lun, attribute, cdb, data, offered } => {
                let attribute = match attribute % 16 {
                    0 => TaskAttribute::Ordered,
                    1 => TaskAttribute::HeadOfQueue,
                    2 => TaskAttribute::Aca,
                    _ => TaskAttribute::Simple,
                };
                self.execute(emit_lun(u16::from(lun % 4)), attribute, &cdb, &data, offered);
            }
            Step::Answer(fault) => {
                self.answer(fault);
            }
            Step::Abort(back) => {
                let task = TaskId(self.last_task.saturating_sub(u64::from(back)));
                self.manage(0, TaskManagement::AbortTask(task));
            }
            Step::Reset(lun) => self.manage(lun, TaskManagement::LogicalUnitReset),
            Step::Resize(unit, size) => {
                let (_, volume, _) = UNITS[usize::from(unit) % UNITS.len()];
                self.target.resize_unit(volume, size % UNIT_BYTES);
            }
            Step::ReopenNexus => {
                self.target.close_nexus(NEXUS);
                self.open_nexus();
            }
        }
    }

    fn execute(
        &mut self,
        lun: u64,
        attribute: TaskAttribute,
        cdb: &[u8],
        data: &[u8],
        offered: u32,
    ) {
        self.last_task += 1;
        let wanted = self.target.data_out_length(NEXUS, lun, cdb) as usize;
        // Long transfers are zeros behind what the input has.
        let length = wanted.min(offered as usize).min(4 << 20);
        let mut buffer = Buffer::zeroed(length);
        let given = data.len().min(length);
        buffer[..given].copy_from_slice(&data[..given]);
        let command = Command { nexus: NEXUS, lun, attribute, cdb, data_out: buffer.freeze() };
        self.target.execute_offered(TaskId(self.last_task), command, u64::from(offered));
    }

    fn manage(&mut self, lun: u8, function: TaskManagement) {
        self.last_task += 1;
        let lun = emit_lun(u16::from(lun % 4));
        self.target.manage(TaskId(self.last_task), NEXUS, lun, function);
        while self.target.next_management_done().is_some() {}
    }

    /// Answers one request; returns whether there was one.
    fn answer(&mut self, fault: Fault) -> bool {
        let Some((id, _, request)) = self.target.next_request() else { return false };
        let result = match fault {
            Fault::None => Ok(response(&request)),
            Fault::Miscompare => Err(BlockError::Miscompare { offset: 7 }),
            Fault::OutOfSpace => Err(BlockError::OutOfSpace),
            Fault::Medium => Err(BlockError::Medium { offset: 1 << 20 }),
            Fault::DifferentPool if matches!(request, Request::Copy { .. }) => {
                Err(BlockError::DifferentPool)
            }
            Fault::DifferentPool | Fault::Busy => Err(BlockError::Busy),
        };
        self.target.completed(id, result);
        true
    }
}

fn response(request: &Request) -> Response {
    match request {
        Request::Read { range } => {
            assert!(range.length > 0 && range.is_aligned(block::SECTOR));
            let mut rope = Rope::from(Bytes::from_static(&[7; 512]));
            rope.push_zeros(range.length as usize - 512);
            Response::Data(rope)
        }
        Request::Write { range, data } => {
            assert_eq!(range.length, data.len() as u64);
            Response::Done
        }
        Request::MapStatus { range, .. } => {
            Response::Map(vec![MapExtent { range: *range, state: MapState::Mapped }])
        }
        _ => Response::Done,
    }
}

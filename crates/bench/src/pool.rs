//! Driver of an engine and its devices in one thread.

use std::time::{Duration, Instant};

use block::{ByteRange, DeviceOperation, DeviceResult, Request, VolumeId};
use bytes::Bytes;
use store::{
    Change, Comparison, DeviceSpec, Difference, IoId, MemberSpec, OpenContext, Options, Outcome,
    PoolSpec, SlotSpec, Store, Tag, VolumeSpec,
};

/// The tag of what is waited for.
const WAITED: Tag = Tag(u64::MAX);

/// What one turn of the daemon's loop may change of a map.
const TURN_BLOCKS: u64 = 1024;

/// What the engine's wishes go to.
pub(crate) trait Devices {
    fn submit(&mut self, device: u8, id: u64, operation: DeviceOperation);
    /// Hands wishes over and takes results; waits for one if nothing else can go on.
    fn reap(&mut self, wait: bool, done: &mut Vec<(u64, DeviceResult)>);
}

/// An engine that works.
pub(crate) struct Pool<D> {
    pub(crate) store: Store,
    pub(crate) devices: D,
    done: Vec<(u64, DeviceResult)>,
    /// The last answer to a comparison.
    difference: Difference,
    started: Instant,
}

impl<D: Devices> Pool<D> {
    pub(crate) fn format(devices: D, sizes: &[u64], options: Options) -> Self {
        let device = |(index, &size_bytes)| {
            DeviceSpec::plain(MemberSpec {
                uuid: [index as u8 + 2; 16],
                slot: index as u8,
                size_bytes,
            })
        };
        let spec = PoolSpec {
            pool_uuid: [1; 16],
            devices: sizes.iter().enumerate().map(device).collect(),
        };
        Self::started(Store::format(&spec, options, WAITED), devices)
    }

    /// One mirror of so many members, in slots from 0 on.
    pub(crate) fn format_mirror(devices: D, members: usize, size: u64, options: Options) -> Self {
        let member = |slot: usize| MemberSpec {
            uuid: [slot as u8 + 2; 16],
            slot: slot as u8,
            size_bytes: size,
        };
        let mirror = DeviceSpec::mirror([1; 16], (0..members).map(member).collect());
        let spec = PoolSpec { pool_uuid: [1; 16], devices: vec![mirror] };
        Self::started(Store::format(&spec, options, WAITED), devices)
    }

    pub(crate) fn open(devices: D, sizes: &[u64], options: Options) -> Self {
        let slots = SlotSpec::numbered(sizes);
        Self::started(Store::open(&slots, OpenContext::default(), options, WAITED), devices)
    }

    fn started(store: Store, devices: D) -> Self {
        let started = Instant::now();
        let difference = Difference::default();
        let mut pool = Self { store, devices, done: Vec::new(), difference, started };
        pool.wait();
        pool
    }

    /// Carries wishes and results; appends the tags of requests that ended.
    pub(crate) fn pump(&mut self, ended: &mut Vec<Tag>) {
        self.store.tick(self.started.elapsed());
        let before = ended.len();
        while let Some(io) = self.store.next_io() {
            self.devices.submit(io.device, io.id.0, io.operation);
        }
        // Nobody opens these pools again: that lists of members were kept is said at once.
        while let Some(membership) = self.store.next_membership() {
            self.store.membership_witnessed(membership);
        }
        self.take_done(ended);
        self.devices.reap(ended.len() == before, &mut self.done);
        for (id, result) in self.done.drain(..) {
            self.store.completed(IoId(id), result);
        }
        self.take_done(ended);
    }

    fn take_done(&mut self, ended: &mut Vec<Tag>) {
        while let Some(done) = self.store.next_done() {
            match done.result {
                Ok(Outcome::Response(_) | Outcome::Changed) => ended.push(done.tag),
                Ok(Outcome::Difference(difference)) => {
                    self.difference = difference;
                    ended.push(done.tag);
                }
                Err(failure) => panic!("the engine refused: {failure}"),
            }
        }
    }

    fn wait(&mut self) {
        let mut ended = Vec::new();
        while !ended.contains(&WAITED) {
            self.pump(&mut ended);
        }
    }

    pub(crate) fn change(&mut self, change: Change) {
        self.store.change(WAITED, change);
        self.wait();
    }

    /// Compares snapshots in turns as those of the daemon; one answer.
    pub(crate) fn compare(&mut self, comparison: Comparison) -> Difference {
        self.store.compare(WAITED, comparison);
        let mut ended = Vec::new();
        while !ended.contains(&WAITED) {
            self.store.begin_turn(TURN_BLOCKS);
            self.pump(&mut ended);
        }
        std::mem::take(&mut self.difference)
    }

    /// The pool as a restart finds it: nothing of it is in memory.
    pub(crate) fn reopened(mut self, sizes: &[u64], options: Options) -> Self {
        self.change(Change::Close);
        Self::open(self.devices, sizes, options)
    }

    pub(crate) fn create(&mut self, id: u64, size_bytes: u64) -> VolumeId {
        self.change(Change::CreateVolume(spec(id, size_bytes)));
        VolumeId(id)
    }

    /// Carries out `count` requests, up to `depth` at once, or as many as fit in `limit`; returns
    /// how many ended.
    pub(crate) fn run(
        &mut self,
        depth: usize,
        count: u64,
        limit: Duration,
        mut request: impl FnMut(u64) -> (VolumeId, Request),
    ) -> u64 {
        let until = Instant::now() + limit;
        let (mut begun, mut finished) = (0, 0);
        let mut ended = Vec::new();
        loop {
            let more = begun < count && (begun % 64 != 0 || Instant::now() < until);
            while more && begun < count && begun - finished < depth as u64 {
                let (volume, request) = request(begun);
                self.store.submit(Tag(begun), volume, request);
                begun += 1;
                if begun % 64 == 0 {
                    break;
                }
            }
            if begun == finished {
                return finished;
            }
            self.pump(&mut ended);
            finished += ended.drain(..).len() as u64;
        }
    }
}

pub(crate) fn spec(id: u64, size_bytes: u64) -> VolumeSpec {
    VolumeSpec {
        id: VolumeId(id),
        name: id.to_string(),
        size_bytes,
        thick: false,
        naa: [id as u8; 16],
        snapshot: false,
        created: 0,
    }
}

pub(crate) fn write(offset: u64, data: &Bytes) -> Request {
    Request::Write { range: ByteRange::new(offset, data.len() as u64), data: data.clone() }
}

pub(crate) fn copy(source: VolumeId, from: u64, to: u64, length: u64) -> Request {
    Request::Copy { source, source_offset: from, destination: to, length }
}

/// Data that is nowhere zero, aligned as the devices want it.
pub(crate) fn data(length: usize) -> Bytes {
    block::Buffer::copy_of(&vec![0xa5; length]).freeze()
}

/// Numbers in no order, the same each time.
pub(crate) fn scattered(number: u64, below: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 32) % below
}

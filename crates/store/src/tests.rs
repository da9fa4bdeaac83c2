//! The engine on a device in memory, without faults; the simulator adds those.

use block::{
    BLOCK, BlockError, ByteRange, DeviceError, DeviceOperation, DeviceResult, Pattern, Request,
    Response, VolumeId,
};
use bytes::Bytes;

use crate::{
    Change, ChangeError, DeviceSpec, Failure, Health, MemberSpec, OpenContext, OpenError, Options,
    Outcome, PoolSpec, SlotSpec, Store, Tag, VolumeSpec,
};

mod ahead;
mod comparisons;
mod damage;
mod departures;
mod devices;
mod fenced;
mod full;
mod golden;
mod golden_full;
mod groups;
mod holes;
mod mirrors;
mod paging;
mod preallocation;
pub(crate) mod random;
mod reclaim;
mod records;
mod resilver;
mod snapshots;
mod turns;
mod waiting;

pub(crate) const SIZE: u64 = 256 << 20;
pub(crate) const A: VolumeId = VolumeId(1);
pub(crate) const B: VolumeId = VolumeId(2);

/// A store, and the bytes of its devices.
pub(crate) struct Pool {
    pub(crate) store: Store,
    pub(crate) devices: Vec<Vec<u8>>,
    options: Options,
    written: u64,
    reads: u64,
    /// Whether the devices' backing stores have no space but what they gave already.
    refuse_space: bool,
    backed: std::collections::HashSet<(usize, u64, u64)>,
    next_tag: u64,
}

pub(crate) fn volume(id: VolumeId, name: &str, size_bytes: u64) -> VolumeSpec {
    let name = name.to_owned();
    VolumeSpec { id, name, size_bytes, thick: false, naa: [6; 16], snapshot: false, created: 0 }
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self::with(&[SIZE], Options::default())
    }

    pub(crate) fn with(sizes: &[u64], options: Options) -> Self {
        let device = |(index, &size_bytes)| {
            DeviceSpec::plain(MemberSpec {
                uuid: [2 + index as u8; 16],
                slot: index as u8,
                size_bytes,
            })
        };
        let spec = PoolSpec {
            pool_uuid: [1; 16],
            devices: sizes.iter().enumerate().map(device).collect(),
        };
        let store = Store::format(&spec, options.clone(), Tag(0));
        let devices = sizes.iter().map(|&size| vec![0; size as usize]).collect();
        let mut pool = Self::on(store, devices, options);
        pool.wait(0).unwrap();
        pool.create(A, "a", 64 << 20);
        pool.create(B, "b", 64 << 20);
        pool
    }

    pub(crate) fn on(store: Store, devices: Vec<Vec<u8>>, options: Options) -> Self {
        let backed = std::collections::HashSet::new();
        Self {
            store,
            devices,
            options,
            written: 0,
            reads: 0,
            refuse_space: false,
            backed,
            next_tag: 0,
        }
    }

    pub(crate) fn slots(&self) -> Vec<SlotSpec> {
        let sizes: Vec<u64> = self.devices.iter().map(|device| device.len() as u64).collect();
        SlotSpec::numbered(&sizes)
    }

    /// The faults that a check finds after a restart without any warning.
    pub(crate) fn faults(&self) -> Vec<String> {
        let read = |device: u8, offset: u64, buffer: &mut [u8]| {
            let bytes = &self.devices[usize::from(device)][offset as usize..];
            buffer.copy_from_slice(&bytes[..buffer.len()]);
            Ok(())
        };
        crate::verify(&self.slots(), crate::Depth::Data, read).unwrap().faults
    }

    /// What a restart without any warning makes of the pool, which must be sound.
    pub(crate) fn reopen(self) -> Self {
        assert_eq!(self.faults(), Vec::<String>::new());
        self.reopen_damaged().unwrap()
    }

    pub(crate) fn reopen_damaged(self) -> Result<Self, Failure> {
        let context = OpenContext::expecting(Some([1; 16]));
        let store = Store::open(&self.slots(), context, self.options.clone(), Tag(0));
        let mut pool = Self { store, ..self };
        pool.wait(0).map(|_| pool)
    }

    pub(crate) fn pump(&mut self) {
        while let Some(io) = self.store.next_io() {
            let result = self.serve(usize::from(io.device), io.operation);
            self.store.completed(io.id, result);
        }
    }

    pub(crate) fn serve(&mut self, device: usize, operation: DeviceOperation) -> DeviceResult {
        let bytes = &mut self.devices[device];
        match operation {
            DeviceOperation::Read { offset, mut buffer } => {
                self.reads += 1;
                let length = buffer.len();
                buffer.copy_from_slice(&bytes[offset as usize..][..length]);
                return Ok(Some(buffer));
            }
            DeviceOperation::Write { offset, data } => {
                self.written += data.len() as u64;
                bytes[offset as usize..][..data.len()].copy_from_slice(&data.to_vec());
            }
            DeviceOperation::Reserve { offset, length } => {
                let range = (device, offset, length);
                if self.refuse_space && !self.backed.contains(&range) {
                    return Err(DeviceError::Os(28));
                }
                self.backed.insert(range);
            }
            DeviceOperation::Flush => {}
        }
        Ok(None)
    }

    pub(crate) fn wait(&mut self, tag: u64) -> Result<Outcome, Failure> {
        loop {
            self.pump();
            // A turn that was cut short goes on when the caller begins another one.
            for _ in 0..100 {
                if self.store.has_more() {
                    self.pump();
                }
            }
            let done = self.store.next_done().expect("every request comes to its end");
            if done.tag == Tag(tag) {
                return done.result;
            }
        }
    }

    pub(crate) fn ask(&mut self, volume: VolumeId, request: Request) -> Result<Response, Failure> {
        self.next_tag += 1;
        self.store.submit(Tag(self.next_tag), volume, request);
        match self.wait(self.next_tag)? {
            Outcome::Response(response) => Ok(response),
            Outcome::Changed | Outcome::Difference(_) => {
                unreachable!("requests are answered with responses")
            }
        }
    }

    pub(crate) fn change(&mut self, change: Change) -> Result<(), Failure> {
        self.next_tag += 1;
        self.store.change(Tag(self.next_tag), change);
        self.wait(self.next_tag).map(drop)
    }

    pub(crate) fn create(&mut self, id: VolumeId, name: &str, size_bytes: u64) {
        self.change(Change::CreateVolume(volume(id, name, size_bytes))).unwrap();
    }

    pub(crate) fn clone_volume(&mut self, source: VolumeId, id: VolumeId, name: &str) {
        let spec = VolumeSpec { size_bytes: 0, ..volume(id, name, 0) };
        self.change(Change::CloneVolumes(vec![(source, spec)])).unwrap();
    }

    pub(crate) fn write(&mut self, volume: VolumeId, offset: u64, data: &[u8]) {
        let range = ByteRange::new(offset, data.len() as u64);
        let data = Bytes::copy_from_slice(data);
        self.ask(volume, Request::Write { range, data }).unwrap();
    }

    pub(crate) fn read(&mut self, volume: VolumeId, offset: u64, length: u64) -> Vec<u8> {
        let range = ByteRange::new(offset, length);
        match self.ask(volume, Request::Read { range }).unwrap() {
            Response::Data(rope) => rope.to_vec(),
            other => unreachable!("{other:?}"),
        }
    }

    pub(crate) fn copy(
        &mut self,
        source: VolumeId,
        from: u64,
        volume: VolumeId,
        to: u64,
        length: u64,
    ) {
        let request = Request::Copy { source, source_offset: from, destination: to, length };
        self.ask(volume, request).unwrap();
    }

    pub(crate) fn settle(&mut self) {
        for _ in 0..3 {
            self.change(Change::Checkpoint).unwrap();
        }
    }

    pub(crate) fn used(&mut self) -> u64 {
        self.settle();
        let mapped: u64 = self.store.volumes().map(|volume| volume.mapped_bytes).sum();
        assert_eq!(self.store.pool().volumes.mapped_bytes(), mapped, "the sum over all volumes");
        self.store.space().used
    }
}

/// Bytes that differ everywhere and depend on `seed`.
pub(crate) fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mix = |at: u64| {
        let word = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (seed + 1) << 32;
        (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let mut bytes = vec![0; length];
    for (at, place) in (0..).zip(bytes.chunks_mut(8)) {
        // No byte is zero.
        let word = mix(at) | 0x0101_0101_0101_0101;
        place.copy_from_slice(&word.to_le_bytes()[..place.len()]);
    }
    bytes
}

#[test]
fn what_was_written_is_read_also_after_a_restart() {
    let mut pool = Pool::new();
    let cases = [(0, 4096), (8192, 1 << 20), (512, 512), (4096 + 3584, 1024), (60 << 20, 8192)];
    let mut model = vec![0; 64 << 20];
    for (seed, (offset, length)) in cases.into_iter().enumerate() {
        let data = pattern(seed as u64, length);
        pool.write(A, offset, &data);
        model[offset as usize..][..length].copy_from_slice(&data);
    }
    for _ in 0..2 {
        assert!(pool.read(A, 0, 64 << 20) == model);
        assert_eq!(pool.read(A, 512, 1024), model[512..1536]);
        pool = pool.reopen();
    }
    pool.settle();
    pool = pool.reopen();
    assert!(pool.read(A, 0, 64 << 20) == model);
}

#[test]
fn an_aligned_copy_moves_no_data() {
    let mut pool = Pool::new();
    let data = pattern(1, 4 << 20);
    pool.write(A, 0, &data);
    pool.settle();
    let (before, used) = (pool.written, pool.store.space().used);
    pool.copy(A, 0, B, 8 << 20, 4 << 20);
    assert_eq!(pool.written - before, 4096, "one commit block");
    assert_eq!(pool.store.statistics().cloned_bytes, 4 << 20);
    assert!(pool.used() - used <= 8 * BLOCK);
    pool.write(A, 4096, &pattern(9, 4096));
    pool.write(B, 8 << 20, &pattern(8, 512));
    pool = pool.reopen();
    assert!(pool.read(B, (8 << 20) + 512, (4 << 20) - 512) == data[512..]);
    assert_eq!(pool.read(A, 0, 4096), data[..4096]);
}

#[test]
fn copies_of_every_alignment_are_exact() {
    let mut pool = Pool::new();
    let data = pattern(3, 6 << 20);
    pool.write(A, 0, &data);
    let cases: [(usize, usize, usize); 5] = [
        (4096, 8192, 3 << 20),
        (512, 4096 + 512, (2 << 20) + 1024),
        (512, 1024, 2 << 20),
        (0, 3584, 512),
        (1 << 20, 5 << 20, 1 << 20),
    ];
    for (from, to, length) in cases {
        let mut model = pool.read(B, 0, 8 << 20);
        pool.copy(A, from as u64, B, to as u64, length as u64);
        model[to..to + length].copy_from_slice(&data[from..from + length]);
        assert!(pool.read(B, 0, 8 << 20) == model, "{from} {to} {length}");
    }
}

#[test]
fn overlapping_copies_read_the_source_first() {
    // The last two lie alike within blocks but not on their boundaries: the destination's first
    // block, written in part, is also a block of the source that another one refers to.
    for (from, to) in [
        (0, 4096),
        (8192, 0),
        (0, 512),
        (1536, 0),
        (0, 1 << 20),
        (1 << 20, 0),
        (3072, 3072 + (32 << 10)),
        (512 + (32 << 10), 512),
    ] {
        let mut pool = Pool::new();
        let mut model = pattern(from as u64 + to as u64, 5 << 20);
        pool.write(A, 0, &model);
        pool.copy(A, from as u64, A, to as u64, 3 << 20);
        model.copy_within(from..from + (3 << 20), to);
        assert!(pool.read(A, 0, 5 << 20) == model, "{from} to {to}");
    }
}

#[test]
fn zeros_take_no_space_and_come_back_as_zeros() {
    let mut pool = Pool::new();
    let empty = pool.used();
    let mut model = pattern(5, 8 << 20);
    pool.write(A, 0, &model);
    let same = |range, pattern| Request::WriteSame { range, pattern };
    pool.ask(A, same(ByteRange::new(512, 3 << 20), Pattern::Zero)).unwrap();
    model[512..512 + (3 << 20)].fill(0);
    let block = Bytes::from(vec![7; 512]);
    pool.ask(A, same(ByteRange::new((4 << 20) + 512, 1 << 20), Pattern::Block(block))).unwrap();
    model[(4 << 20) + 512..(5 << 20) + 512].fill(7);
    assert!(pool.read(A, 0, 8 << 20) == model);
    pool.write(A, 0, &vec![0; 8 << 20]);
    assert_eq!(pool.used(), empty);
    pool = pool.reopen();
    assert!(pool.read(A, 0, 8 << 20).iter().all(|&byte| byte == 0));
}

#[test]
fn two_halves_of_a_block_free_the_whole() {
    let mut pool = Pool::new();
    let empty = pool.used();
    pool.write(A, 0, &pattern(1, 1 << 20));
    let half = |first: u64| {
        (0..256).map(|block| ByteRange::new(block * BLOCK + first, BLOCK / 2)).collect()
    };
    pool.ask(A, Request::Unmap { ranges: half(0) }).unwrap();
    assert!(pool.used() > empty + (1 << 20) - 1);
    pool.ask(A, Request::Unmap { ranges: half(BLOCK / 2) }).unwrap();
    assert_eq!(pool.used(), empty);
}

#[test]
fn compare_and_write_says_where_it_differs_and_then_changes_nothing() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 4096));
    let mut expected = pattern(1, 4096)[512..1536].to_vec();
    let range = ByteRange::new(512, 1024);
    let write = Bytes::from(vec![9; 1024]);
    let exchange = |compare: &[u8]| Request::CompareAndWrite {
        range,
        compare: Bytes::copy_from_slice(compare),
        write: write.clone(),
    };
    for offset in [0, 511, 512, 1023] {
        expected[offset] ^= 1;
        let failure = pool.ask(A, exchange(&expected)).unwrap_err();
        assert_eq!(failure, BlockError::Miscompare { offset: offset as u64 }.into());
        expected[offset] ^= 1;
    }
    pool.ask(A, exchange(&expected)).unwrap();
    assert_eq!(pool.read(A, 512, 1024), write);
    assert_eq!(pool.read(A, 0, 512), pattern(1, 4096)[..512]);
}

#[test]
fn deleting_everything_returns_all_space() {
    let mut pool = Pool::new();
    let empty = pool.used();
    pool.write(A, 0, &pattern(1, 8 << 20));
    pool.clone_volume(A, VolumeId(3), "c");
    pool.write(VolumeId(3), 4096, &pattern(2, 4096));
    assert_eq!(pool.read(A, 4096, 4096), pattern(1, 8 << 20)[4096..8192]);
    pool.copy(A, 0, B, 512, 2 << 20);
    pool = pool.reopen();
    pool.change(Change::DeleteVolume(A)).unwrap();
    assert_eq!(pool.read(VolumeId(3), 8192, 4096), pattern(1, 8 << 20)[8192..12288]);
    pool.change(Change::DeleteVolume(VolumeId(3))).unwrap();
    pool.change(Change::DeleteVolume(B)).unwrap();
    let used = pool.used();
    assert!(used < empty, "{used} {empty}");
    assert_eq!(pool.store.volumes().count(), 0);
    assert_eq!(used, 0);
}

#[test]
fn a_full_pool_refuses_only_what_needs_space() {
    let mut pool = Pool::new();
    pool.create(VolumeId(3), "c", 1 << 30);
    let data = pattern(1, 4 << 20);
    let mut written = 0;
    let full = loop {
        let range = ByteRange::new(written, 4 << 20);
        let data = Bytes::copy_from_slice(&data);
        match pool.ask(VolumeId(3), Request::Write { range, data }) {
            Ok(_) => written += 4 << 20,
            Err(failure) => break failure,
        }
    };
    assert_eq!(full, BlockError::OutOfSpace.into());
    assert!(written > SIZE / 2);
    assert!(pool.read(VolumeId(3), written - (4 << 20), 4 << 20) == data);
    let ranges = vec![ByteRange::new(0, written)];
    pool.ask(VolumeId(3), Request::Unmap { ranges }).unwrap();
    pool.write(VolumeId(3), 0, &data);
    pool = pool.reopen();
    assert!(pool.read(VolumeId(3), 0, 4 << 20) == data);
}

/// Overwriting needs free blocks until the next checkpoint; a full pool has only its reserve.
#[test]
fn a_reserved_volume_is_overwritten_in_a_full_pool() {
    let mut pool = Pool::new();
    let id = VolumeId(9);
    let size_bytes = 8 << 20;
    let spec = VolumeSpec { thick: true, ..volume(id, "thick", size_bytes) };
    pool.change(Change::CreateVolume(spec)).unwrap();
    pool.write(id, 0, &pattern(1, size_bytes as usize));
    pool.change(Change::ResizeVolume { id: B, size_bytes: 1 << 30 }).unwrap();
    let fill = |at: u64| Request::Write {
        range: ByteRange::new(at << 20, 1 << 20),
        data: Bytes::from(pattern(at, 1 << 20)),
    };
    assert!((0..1024).any(|at| pool.ask(B, fill(at)).is_err()), "the pool is never full");
    for at in 0..16 {
        pool.write(id, (at % 8) << 20, &pattern(100 + at, 1 << 20));
    }
    assert!(pool.read(id, 7 << 20, 1 << 20) == pattern(115, 1 << 20));
}

#[test]
fn wrong_requests_are_refused() {
    let mut pool = Pool::new();
    let read = |offset, length| Request::Read { range: ByteRange::new(offset, length) };
    let beyond = Failure::from(BlockError::OutOfRange);
    for (offset, length) in [(64 << 20, 512), (u64::MAX - 511, 512), (1, 512), (0, 100)] {
        assert_eq!(pool.ask(A, read(offset, length)).unwrap_err(), beyond);
    }
    assert_eq!(pool.ask(VolumeId(9), read(0, 512)).unwrap_err(), BlockError::NoSuchVolume.into());
    let spec = |name: &str, size_bytes| VolumeSpec {
        thick: size_bytes > SIZE,
        ..volume(VolumeId(77), name, size_bytes)
    };
    let mut refused = |change| pool.change(change).unwrap_err();
    let taken = Failure::Change(ChangeError::NameTaken("a".to_owned()));
    assert_eq!(refused(Change::CreateVolume(spec("a", BLOCK))), taken);
    assert_eq!(refused(Change::CreateVolume(spec("x", 0))), ChangeError::VolumeSize.into());
    assert_eq!(refused(Change::CreateVolume(spec("x", 1 << 40))), ChangeError::NoSpace.into());
    assert_eq!(refused(Change::DeleteVolume(VolumeId(9))), ChangeError::NoSuchVolume.into());
}

#[test]
fn volumes_grow_and_shrink() {
    let mut pool = Pool::new();
    pool.write(A, (64 << 20) - 4096, &pattern(1, 4096));
    pool.change(Change::ResizeVolume { id: A, size_bytes: 1 << 40 }).unwrap();
    pool.write(A, (1 << 40) - 4096, &pattern(2, 4096));
    pool = pool.reopen();
    assert_eq!(pool.read(A, (64 << 20) - 4096, 4096), pattern(1, 4096));
    assert_eq!(pool.read(A, (1 << 40) - 4096, 4096), pattern(2, 4096));
    pool.change(Change::ResizeVolume { id: A, size_bytes: 4096 }).unwrap();
    pool.change(Change::ResizeVolume { id: A, size_bytes: 64 << 20 }).unwrap();
    pool = pool.reopen();
    assert_eq!(pool.read(A, (64 << 20) - 4096, 4096), vec![0; 4096]);
    assert_eq!(pool.store.volume(A).unwrap().mapped_bytes, 0);
}

#[test]
fn damaged_data_is_an_error_and_never_other_data() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 8192));
    let second = &pattern(1, 8192)[4096..];
    let at = pool.devices[0].chunks(4096).position(|block| block == second).unwrap();
    pool.devices[0][at * 4096] ^= 1;
    let range = ByteRange::new(0, 8192);
    let failure = pool.ask(A, Request::Read { range }).unwrap_err();
    assert_eq!(failure, BlockError::Medium { offset: 4096 }.into());
    assert_eq!(pool.read(A, 0, 4096), pattern(1, 8192)[..4096]);
}

#[test]
fn what_is_no_pool_or_not_whole_is_refused_unchanged() {
    let open = |device: &[u8], uuid| {
        let slots = SlotSpec::numbered(&[device.len() as u64]);
        let context = OpenContext::expecting(uuid);
        let mut store = Store::open(&slots, context, Options::default(), Tag(0));
        while let Some(io) = store.next_io() {
            let DeviceOperation::Read { offset, mut buffer } = io.operation else {
                panic!("opening wrote to what is no pool");
            };
            let at = offset as usize;
            let length = buffer.len();
            buffer.copy_from_slice(&device[at..at + length]);
            store.completed(io.id, Ok(Some(buffer)));
        }
        let done = store.next_done().unwrap();
        assert_eq!(store.health(), Health::Closed);
        match done.result.unwrap_err() {
            Failure::Open(error) => error,
            other => panic!("{other}"),
        }
    };
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 8192));
    assert_eq!(open(&vec![0; 1 << 20], None), OpenError::Foreign);
    assert!(matches!(open(&vec![0; 4096], None), OpenError::Short { .. }));
    assert_eq!(open(&pool.devices[0], Some([9; 16])), OpenError::OtherPool);
    assert!(matches!(open(&pool.devices[0][..128 << 20], None), OpenError::Short { .. }));
    let mut broken = pool.devices[0].clone();
    for block in [16, 17, 32, 33] {
        broken[block * 4096 + 100] ^= 1;
    }
    assert!(matches!(open(&broken, None), OpenError::Damaged(_)));
}

#[test]
fn closing_leaves_nothing_to_replay() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 8192));
    pool.change(Change::Close).unwrap();
    assert_eq!(pool.store.health(), Health::Closed);
    pool = pool.reopen();
    assert_eq!(pool.store.statistics().replayed_units, 0);
    assert_eq!(pool.read(A, 0, 8192), pattern(1, 8192));
}

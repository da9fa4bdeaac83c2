//! Fuzz target: opening and checking a device with anything on it ends in an answer, never in a
//! panic.

#![no_main]

use std::collections::HashMap;
use std::sync::OnceLock;

use block::{ByteRange, DeviceOperation, Request, VolumeId};
use libfuzzer_sys::fuzz_target;
use store::{
    Change, Depth, DeviceSpec, MemberSpec, Options, PoolSpec, SlotSpec, Store, Tag, VolumeSpec,
    verify,
};

const SIZE: u64 = 64 << 20;
const BLOCK: u64 = 4096;

type Image = HashMap<u64, Vec<u8>>;

/// A small pool with a volume, a clone, and units in the journal.
fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let device = DeviceSpec::plain(MemberSpec { uuid: [2; 16], size_bytes: SIZE, slot: 0 });
        let spec = PoolSpec { pool_uuid: [1; 16], devices: vec![device] };
        let options = Options { journal_bytes: 4 << 20, ..Options::default() };
        let mut store = Store::format(&spec, options, Tag(0));
        let mut image = Image::new();
        pump(&mut store, &mut image);
        let volume = |id: u64| VolumeSpec {
            id: VolumeId(id),
            name: id.to_string(),
            size_bytes: 8 << 20,
            thick: false,
            naa: [6; 16],
            snapshot: false,
            created: 0,
        };
        store.change(Tag(1), Change::CreateVolume(volume(1)));
        pump(&mut store, &mut image);
        for at in 0..3_u64 {
            let range = ByteRange::new(at << 20, 64 << 10);
            let data = vec![at as u8 + 1; 64 << 10].into();
            store.submit(Tag(2), VolumeId(1), Request::Write { range, data });
            pump(&mut store, &mut image);
        }
        store.change(Tag(3), Change::CloneVolumes(vec![(VolumeId(1), volume(2))]));
        store.change(Tag(4), Change::Checkpoint);
        pump(&mut store, &mut image);
        let range = ByteRange::new(0, 4096);
        let data = vec![9; 4096].into();
        store.submit(Tag(5), VolumeId(1), Request::Write { range, data });
        pump(&mut store, &mut image);
        image
    })
}

fn pump(store: &mut Store, image: &mut Image) {
    while let Some(io) = store.next_io() {
        let result = match io.operation {
            DeviceOperation::Read { offset, mut buffer } => {
                read(image, offset, &mut buffer);
                Some(buffer)
            }
            DeviceOperation::Write { offset, data } => {
                for (number, block) in data.to_vec().chunks(BLOCK as usize).enumerate() {
                    image.insert(offset / BLOCK + number as u64, block.to_vec());
                }
                None
            }
            DeviceOperation::Flush | DeviceOperation::Reserve { .. } => None,
        };
        store.completed(io.id, Ok(result));
    }
    while store.next_done().is_some() {}
}

fn read(image: &Image, offset: u64, buffer: &mut [u8]) {
    for (number, part) in (offset / BLOCK..).zip(buffer.chunks_mut(BLOCK as usize)) {
        match image.get(&number) {
            Some(block) => part.copy_from_slice(&block[..part.len()]),
            None => part.fill(0),
        }
    }
}

// Each five bytes of input change one byte of a block that is in use: which block (two bytes), where
// in it (two bytes), and its new value.
fuzz_target!(|input: &[u8]| {
    let mut blocks: Vec<u64> = image().keys().copied().collect();
    blocks.sort_unstable();
    let mut patched: Image = HashMap::new();
    for patch in input.chunks_exact(5).take(64) {
        let number = blocks[usize::from(u16::from_le_bytes([patch[0], patch[1]])) % blocks.len()];
        let at = usize::from(u16::from_le_bytes([patch[2], patch[3]])) % BLOCK as usize;
        patched.entry(number).or_insert_with(|| image()[&number].clone())[at] = patch[4];
    }
    let _ = verify(&SlotSpec::numbered(&[SIZE]), Depth::Data, |_, offset, buffer| {
        read(image(), offset, buffer);
        for (number, part) in (offset / BLOCK..).zip(buffer.chunks_mut(BLOCK as usize)) {
            if let Some(block) = patched.get(&number) {
                part.copy_from_slice(&block[..part.len()]);
            }
        }
        Ok(())
    });
});

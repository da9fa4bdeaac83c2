//! A pool that is full while snapshots hold a part of it: what still works, what is refused, and
//! that all of the space comes back.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::load::{Place, Worker};
use harness::pdu::{Answer, RawSession, cdb16_of_bytes};
use harness::random::Random;
use harness::{Array, Value, initiator, number, space_adds_up};

const MIB: u64 = 1 << 20;
const NAME: &str = "iqn.2026-01.org.example:full";
const OUT_OF_SPACE: Option<(u8, u8, u8)> = Some((7, 0x27, 7));
const SPACE_COMING: Option<(u8, u8, u8)> = Some((2, 4, 0x14));

/// Of the thin volume: what was written before the snapshot and after it; the rest came later.
const OVERWRITTEN: u64 = 16 * MIB;
const SHARED_END: u64 = 64 * MIB;

/// How long space may take to come back on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of records of volumes and logical units that were deleted, at most.
const RECORDS_BYTES_MAX: u64 = 64 << 10;

struct Bench {
    array: Array,
    session: RawSession,
    thin: u8,
    thick: u8,
    kept: u8,
    place: Place,
    workers: Vec<JoinHandle<Result<Worker>>>,
    /// Where in the thin volume nothing was written yet.
    end: u64,
    /// Bytes in use when all volumes were empty.
    used_at_first: u64,
    random: Random,
}

fn map(array: &Array, path: &str) -> Result<u8> {
    let map = array.gantry_json(&["volume", "map", path, "--host", "any"])?;
    Ok(u8::try_from(number(&map, "/lun")?)?)
}

fn pool(array: &Array) -> Result<Value> {
    array.gantry_json(&["pool", "show", "p"])
}

fn space(array: &Array, part: &str) -> Result<u64> {
    number(&pool(array)?, &format!("/space/{part}_bytes"))
}

/// The numbers of `pool show` add up, always.
fn assert_adds_up(array: &Array) -> Result<()> {
    let pool = pool(array)?;
    let part = |name: &str| number(&pool, &format!("/space/{name}_bytes"));
    space_adds_up(&pool)?;
    assert_eq!(part("data")? + part("metadata")?, part("used")?, "{pool}");
    assert!(part("promised")? <= part("free")?, "{pool}");
    Ok(())
}

fn io(array: &Array, lun: u8, commands: &[&str]) -> Result<String> {
    initiator::qemu_io(&["-f", "raw", &array.lun_url(lun.into())?], commands)
}

impl Bench {
    /// A pool of 2 GiB with a thin volume of twice its size, a thick one, a verified load on
    /// another thick one, and snapshots of the thin volume and of the load.
    fn start() -> Result<Self> {
        let mut array = Array::start()?;
        array.create_pool("p", "2G")?;
        let thin = u8::try_from(array.create_lun("p/thin", "4G")?)?;
        for (path, size) in [("p/thick", "256M"), ("p/load", "64M")] {
            array.gantry(&["volume", "create", path, "--size", size, "--thick"])?;
        }
        let (thick, load) = (map(&array, "p/thick")?, map(&array, "p/load")?);
        // The table of volumes takes its place with the first checkpoint.
        assert!(array.stop()?.success());
        array.restart()?;
        let used_at_first = space(&array, "used")?;
        io(&array, thin, &["write -P 1 0 64M"])?;
        let place = Place { portal: array.portal(), target: array.target_name()?, lun: load };
        let workers =
            (0..2).map(|number| Worker::new(number).start(&place)).collect::<Result<_>>()?;
        array.gantry(&["snapshot", "create", "--group", "s", "p/thin", "p/load"])?;
        io(&array, thin, &["write -P 2 0 16M"])?;
        let kept = map(&array, "p/thin.s")?;
        let session = RawSession::log_in(array.portal(), NAME, &array.target_name()?)?;
        let (end, random) = (SHARED_END, Random::new(3));
        Ok(Self { array, session, thin, thick, kept, place, workers, end, used_at_first, random })
    }

    /// Runs commands in a session of their own, which may take long; afterwards ours, which has not
    /// answered a ping meanwhile, begins anew.
    fn io(&mut self, lun: u8, commands: &[&str]) -> Result<()> {
        io(&self.array, lun, commands)?;
        self.session = RawSession::log_in(self.array.portal(), NAME, &self.place.target)?;
        Ok(())
    }

    /// Writes one block's worth or more of content that was never there before.
    fn write(&mut self, lun: u8, at: u64, bytes: u64) -> Result<Answer> {
        let data = self.random.bytes(usize::try_from(bytes)?);
        self.session.write(lun, &cdb16_of_bytes(0x8a, 0, at, bytes), &data)
    }

    /// Fills the pool through the thin volume until not even one block is taken any more.
    fn fill(&mut self) -> Result<()> {
        let free = space(&self.array, "free")? - space(&self.array, "promised")?;
        let mut left = free.saturating_sub(48 * MIB) / MIB;
        while left > 0 {
            let length = left.min(128);
            let command = format!("write -P 3 {}M {length}M", self.end / MIB);
            self.io(self.thin, &[&command])?;
            self.end += length * MIB;
            left -= length;
        }
        self.fill_by(64 << 10)?;
        self.fill_by(4 << 10)
    }

    fn fill_by(&mut self, bytes: u64) -> Result<()> {
        let most = self.end + 256 * MIB;
        while self.end < most {
            let answer = self.write(self.thin, self.end, bytes)?;
            if answer.code() == OUT_OF_SPACE {
                // What comes next begins at a megabyte again.
                self.end = self.end.next_multiple_of(MIB);
                return Ok(());
            }
            answer.good()?;
            self.end += bytes;
        }
        anyhow::bail!("a full pool takes more and more")
    }

    fn assert_full(&mut self) -> Result<()> {
        self.until_refused(3, |bench, to| Ok(bench.write(bench.thin, to, 64 << 10)?.code()))?;
        assert_adds_up(&self.array)
    }

    fn reads_are_right(&mut self) -> Result<()> {
        let kept = self.array.lun_url(self.kept.into())?;
        initiator::qemu_io(&["-r", "-f", "raw", &kept], &["read -P 1 0 64M"])?;
        self.io(self.thin, &["read -P 2 0 16M", "read -P 1 16M 48M", "read -P 3 80M 64M"])
    }

    /// Data that no snapshot shares is overwritten as if there was space, however often.
    fn own_data_is_overwritten(&mut self) -> Result<()> {
        for number in 0..400 {
            let start = if number % 4 == 0 { 0 } else { 144 * MIB };
            let at = start + self.random.below(OVERWRITTEN / 4096) * 4096;
            self.write(self.thin, at, 4096)?.good()?;
        }
        for megabyte in 0..16 {
            self.write(self.thin, 144 * MIB + megabyte * MIB, MIB)?.good()?;
        }
        self.io(self.thin, &["write -P 2 0 16M"])
    }

    /// The old data stays for the snapshot, so that the new data would need space. Short overwrites
    /// may be of metadata, and get a quarter of the reserve for that.
    fn shared_data_is_not_overwritten(&mut self) -> Result<()> {
        let blocks = space(&self.array, "metadata_reserve")? / 4 / 4096 + 64;
        let first = OVERWRITTEN;
        assert!(first + blocks * 4096 < SHARED_END);
        for number in 0..blocks {
            let answer = self.write(self.thin, first + number * 4096, 4096)?;
            if answer.code() == OUT_OF_SPACE {
                return Ok(());
            }
            answer.good()?;
        }
        anyhow::bail!("{blocks} blocks that a snapshot shares were overwritten in a full pool")
    }

    /// A pattern, and copies by reference and by reading and writing, where nothing was written. The
    /// pattern is written wholly or not at all; of a copy, each block has what it had or what was
    /// copied.
    fn offloads_that_need_space_are_refused(&mut self) -> Result<()> {
        let pattern = |bench: &mut Self, to| {
            let same = cdb16_of_bytes(0x93, 0, to, 31 * MIB);
            Ok(bench.session.write(bench.thin, &same, &[9; 512])?.code())
        };
        let to = self.until_refused(0, pattern)?;
        self.io(self.thin, &[&format!("read -P 0 {}M 33M", to / MIB - 1)])?;
        for (series, from) in [(1, 80 * MIB), (2, 80 * MIB + 512)] {
            let to = self.until_refused(series, |bench, to| bench.copy(from, to, 4 * MIB))?;
            self.assert_blocks_are_of(to, &[0, 3])?;
            for megabyte in [to / MIB - 1, to / MIB + 4] {
                self.io(self.thin, &[&format!("read -P 0 {megabyte}M 1M")])?;
            }
        }
        Ok(())
    }

    /// Repeats a command at places of its own until there is no space for it, and returns where: a
    /// checkpoint may give back what maps and overwrites had borrowed.
    fn until_refused(
        &mut self,
        series: u64,
        command: impl Fn(&mut Self, u64) -> Result<Option<(u8, u8, u8)>>,
    ) -> Result<u64> {
        for attempt in 0..8 {
            self.fill_by(4 << 10)?;
            let to =
                self.end.next_multiple_of(64 * MIB) + (512 + 320 * series + 40 * attempt) * MIB;
            match command(self, to)? {
                OUT_OF_SPACE => return Ok(to),
                None => {}
                other => anyhow::bail!("{other:02x?} in a full pool"),
            }
        }
        anyhow::bail!("a full pool has space again and again")
    }

    /// Each block of 4 MiB from `at` consists of one of these bytes.
    fn assert_blocks_are_of(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        for start in (at..at + 4 * MIB).step_by(1 << 16) {
            let read =
                self.session.read(self.thin, &cdb16_of_bytes(0x88, 0, start, 1 << 16), 1 << 16)?;
            for block in read.good()?.chunks(512) {
                ensure!(bytes.iter().any(|byte| block.iter().all(|is| is == byte)), "at {start}");
            }
        }
        Ok(())
    }

    /// EXTENDED COPY within the thin volume, one segment of blocks.
    fn copy(&mut self, from: u64, to: u64, bytes: u64) -> Result<Option<(u8, u8, u8)>> {
        let page = self.session.read(self.thin, &[0x12, 1, 0x83, 1, 0, 0], 256)?.good()?;
        let mut list = vec![0; 16];
        (list[1], list[3], list[11]) = (0x18, 32, 28);
        list.extend([0xe4, 0, 0, 0]);
        list.extend(&page[4..24]);
        list.extend([0, 0, 0, 0, 0, 0, 2, 0]);
        list.extend([0x02, 0, 0, 0x18, 0, 0, 0, 0, 0, 0]);
        list.extend(u16::try_from(bytes / 512)?.to_be_bytes());
        list.extend((from / 512).to_be_bytes());
        list.extend((to / 512).to_be_bytes());
        let cdb = cdb16_of_bytes(0x83, 0, 0, 512 * list.len() as u64);
        Ok(self.session.write(self.thin, &cdb, &list)?.code())
    }

    /// From when an extension begins to its end, whoever finds no space may try again.
    fn extend_while_writing(&mut self) -> Result<()> {
        let at = self.end;
        std::thread::scope(|scope| {
            let array = &self.array;
            let extension = scope.spawn(|| array.gantry(&["pool", "extend", "p", "--size", "3G"]));
            let mut told_to_wait = false;
            while !extension.is_finished() {
                let data = self.random.bytes(64 << 10);
                let answer =
                    self.session.write(self.thin, &cdb16_of_bytes(0x8a, 0, at, 64 << 10), &data)?;
                ensure!(
                    answer.status == 0
                        || answer.code() == SPACE_COMING
                        || (answer.code() == OUT_OF_SPACE && !told_to_wait),
                    "{:02x?}",
                    answer.code()
                );
                told_to_wait |= answer.code() == SPACE_COMING;
            }
            extension.join().expect("the command line returns its errors")?;
            Ok(())
        })
    }

    fn locks_work(&mut self) -> Result<()> {
        let lock = 80 * MIB;
        for (compare, write) in [(3, 4), (4, 5), (5, 3)] {
            let mut cdb = cdb16_of_bytes(0x89, 0, lock, 0);
            cdb[13] = 1;
            let data = [[compare; 512], [write; 512]].concat();
            self.session.write(self.thin, &cdb, &data)?.good()?;
            let again = self.session.write(self.thin, &cdb, &data)?;
            assert_eq!(again.code(), Some((0xe, 0x1d, 0)), "a miscompare");
        }
        for (action, kind, key, new) in [(0, 0, 0, 7), (1, 5, 7, 0), (2, 5, 7, 0), (0, 0, 7, 0)] {
            let list = [u64::to_be_bytes(key), u64::to_be_bytes(new), [0; 8]].concat();
            let cdb = [0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0];
            self.session.write(self.thin, &cdb, &list)?.good()?;
        }
        Ok(())
    }

    /// Commands that tell something or make durable what is there.
    fn questions_are_answered(&mut self) -> Result<()> {
        let questions: [(&[u8], u32); 12] = [
            (&[0; 6], 0),
            (&[0x12, 0, 0, 0, 255, 0], 255),
            (&[0x12, 1, 0xb2, 0, 255, 0], 255),
            (&[0x1a, 8, 0x3f, 0, 255, 0], 255),
            (&[0x4d, 0, 0x4c, 0, 0, 0, 0, 0, 255, 0], 255),
            (&[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 256),
            (&[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0], 32),
            (&[0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0], 64),
            (&[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0),
            (&[0x2f, 0, 0, 0, 0, 0, 0, 0, 8, 0], 0),
            (&[0x5e, 0, 0, 0, 0, 0, 0, 0, 255, 0], 255),
            (&[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0], 255),
        ];
        for (cdb, length) in questions {
            let answer = self.session.read(self.thin, cdb, length)?;
            ensure!(answer.status == 0, "{cdb:02x?}: {:02x?}", answer.sense);
        }
        Ok(())
    }

    /// UNMAP and WRITE SAME give space back. It fills the metadata reserve first, of which short
    /// overwrites drew a quarter, and the rest is used again at once.
    fn given_back_space_is_used_again(&mut self) -> Result<()> {
        let start = 96 * MIB;
        let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
        list.extend((start / 512).to_be_bytes());
        list.extend(u32::try_from(8 * MIB / 512)?.to_be_bytes());
        list.extend([0; 4]);
        self.session.write(self.thin, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &list)?.good()?;
        let same = cdb16_of_bytes(0x93, 0x08, start + 8 * MIB, 8 * MIB);
        self.session.write(self.thin, &same, &[0; 512])?.good()?;
        self.io(self.thin, &["read -P 0 96M 16M", "write -P 3 96M 4M"])?;
        self.fill()?;
        self.io(self.thin, &["read -P 3 96M 4M"])
    }

    /// Waits until nothing but what was there at first is in use, and everything else is free.
    fn wait_for_space(&self) -> Result<Duration> {
        let begun = Instant::now();
        loop {
            assert_adds_up(&self.array)?;
            // The pool keeps a few records of what was deleted, which count as its map.
            let used = space(&self.array, "used")?;
            let records = used.saturating_sub(self.used_at_first).min(RECORDS_BYTES_MAX);
            let left = used.saturating_sub(self.used_at_first + records);
            let pending = space(&self.array, "pending")?;
            if (left, pending) == (0, 0) {
                return Ok(begun.elapsed());
            }
            ensure!(begun.elapsed() < PATIENCE, "{left} bytes in use, {pending} pending");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_full_pool_serves_all_but_new_data_and_gives_all_space_back() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.fill()?;
    bench.assert_full()?;
    bench.reads_are_right()?;
    bench.own_data_is_overwritten()?;
    bench.shared_data_is_not_overwritten()?;
    bench.offloads_that_need_space_are_refused()?;
    bench.locks_work()?;
    bench.questions_are_answered()?;
    bench.io(bench.thick, &["write -P 6 0 256M", "write -P 7 64M 64M"])?;
    bench.given_back_space_is_used_again()?;
    bench.assert_full()?;
    bench.io(bench.thick, &["read -P 6 0 64M", "read -P 7 64M 64M"])?;

    bench.array.gantry(&["volume", "unmap", "p/thin.s", "--host", "any"])?;
    bench.array.gantry(&["snapshot", "delete", "p/thin.s"])?;
    bench.io(bench.thin, &["write -P 8 0 64M"])?;
    bench.fill()?;
    bench.extend_while_writing()?;
    let at = bench.end;
    bench.write(bench.thin, at, 64 << 10)?.good()?;
    bench.io(bench.thin, &["read -P 8 0 64M"])?;

    // The load never stopped, and nothing of it is lost.
    bench.array.kill()?;
    let workers = std::mem::take(&mut bench.workers).into_iter();
    let workers = workers.map(|worker| worker.join().expect("a worker returns its errors"));
    let mut workers = workers.collect::<Result<Vec<_>>>()?;
    bench.array.restart()?;
    workers.iter_mut().try_for_each(|worker| worker.verify(&bench.place))?;
    assert!(workers.iter().map(Worker::writes).sum::<u64>() > 100);

    for path in ["p/thin", "p/thick", "p/load"] {
        bench.array.gantry(&["volume", "unmap", path, "--host", "any"])?;
        bench.array.gantry(&["volume", "delete", path])?;
    }
    bench.array.gantry(&["snapshot", "delete", "p/load.s"])?;
    println!("all space was back {:?} after the last deletion", bench.wait_for_space()?);
    Ok(())
}

//! kill -9 of the daemon at random points under a verified write load.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use harness::load::{Place, Worker};
use harness::random::Random;
use harness::{Array, text};

const KILLS: usize = 50;
const WORKERS: u32 = 4;
const RESTART_MAX: Duration = Duration::from_secs(5);

/// Bounds of the time that the load runs between two kills, in milliseconds.
const LOAD_MS: (u64, u64) = (5, 250);

fn run_load(
    array: &mut Array,
    place: &Place,
    workers: Vec<Worker>,
    ms: u64,
) -> Result<Vec<Worker>> {
    let threads: Vec<_> =
        workers.into_iter().map(|worker| worker.start(place)).collect::<Result<_>>()?;
    thread::sleep(Duration::from_millis(ms));
    array.kill()?;
    threads.into_iter().map(|thread| thread.join().expect("a worker returns its errors")).collect()
}

#[test]
fn every_acknowledged_write_survives_fifty_kills() -> Result<()> {
    let mut array = Array::start()?;
    array.create_pool("p", "2G")?;
    let lun = array.create_lun("p/v", "1G")?;
    let place =
        Place { portal: array.portal(), target: array.target_name()?, lun: u8::try_from(lun)? };
    let mut workers: Vec<_> = (0..WORKERS).map(Worker::new).collect();
    let mut random = Random::new(9);
    let mut slowest = Duration::ZERO;
    for kill in 1..=KILLS {
        let ms = LOAD_MS.0 + random.below(LOAD_MS.1 - LOAD_MS.0);
        workers = run_load(&mut array, &place, workers, ms)?;
        let took = array.restart()?;
        assert!(took < RESTART_MAX, "restart after kill {kill} took {took:?}");
        slowest = slowest.max(took);
        assert_eq!(text(&array.gantry_json(&["pool", "show", "p"])?, "/state")?, "ready");
        for worker in &mut workers {
            let verified = worker.verify(&place);
            verified
                .map_err(|error| error.context(format!("after kill {kill}\n{}", array.log())))?;
        }
    }
    let writes: u64 = workers.iter().map(Worker::writes).sum();
    assert!(writes > 50 * KILLS as u64, "{writes} acknowledged writes are too few to prove much");
    println!("{KILLS} kills, {writes} acknowledged writes, slowest restart {slowest:?}");
    Ok(())
}

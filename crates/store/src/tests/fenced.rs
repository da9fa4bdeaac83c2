//! A pool that another owner took, at every point of its work: nothing more is asked of its devices, and
//! hosts hear of no error of the medium.

use super::*;

/// Lets the engine work until the device has done `count` operations, and then refuses what is under
/// way and says that another owner is there; what became of each request.
fn cut_after(pool: &mut Pool, count: usize) -> Vec<(Tag, Result<Outcome, Failure>)> {
    for number in 0..8 {
        let range = ByteRange::new(number * 8192 + 512, 8192);
        let data = Bytes::from(pattern(number, 8192));
        pool.store.submit(Tag(100 + number), A, Request::Write { range, data });
        let range = ByteRange::new(number << 20, 4096);
        pool.store.submit(Tag(200 + number), A, Request::Read { range });
    }
    pool.store.change(Tag(300), Change::Checkpoint);
    let mut served = 0;
    let mut under_way = Vec::new();
    while served < count {
        let Some(io) = pool.store.next_io() else { break };
        let result = pool.serve(usize::from(io.device), io.operation);
        pool.store.completed(io.id, result);
        served += 1;
    }
    while let Some(io) = pool.store.next_io() {
        under_way.push(io.id);
    }
    pool.store.withdraw();
    for id in under_way {
        pool.store.completed(id, Err(DeviceError::Fenced));
    }
    pool.store.withdraw();
    std::iter::from_fn(|| pool.store.next_done()).map(|done| (done.tag, done.result)).collect()
}

#[test]
fn a_pool_that_was_taken_writes_nothing_more_and_answers_that_it_is_closed() {
    let closed = |failure: &Failure| {
        matches!(failure, Failure::Block(BlockError::Closed) | Failure::Change(ChangeError::Closed))
    };
    let mut whole = 0;
    for count in 0..60 {
        let mut pool = Pool::new();
        pool.write(A, 0, &pattern(77, 4 << 20));
        let done = cut_after(&mut pool, count);
        assert_eq!(done.len(), 17, "{count}: each request is answered once");
        for (tag, result) in &done {
            assert!(result.as_ref().err().is_none_or(closed), "{count}, {tag:?}: {result:?}");
        }
        assert_eq!(pool.store.health(), Health::Closed);
        assert!(!pool.store.has_io());
        let range = ByteRange::new(0, 512);
        let late = pool.ask(A, Request::Read { range }).unwrap_err();
        assert_eq!(late, BlockError::Closed.into());
        assert!(pool.store.next_io().is_none(), "{count}");
        let mut pool = pool.reopen();
        for number in 0..8 {
            let wanted = pattern(number, 8192);
            let is_done =
                done.iter().any(|(tag, result)| *tag == Tag(100 + number) && result.is_ok());
            whole += usize::from(is_done);
            let found = pool.read(A, number * 8192 + 512, 8192);
            assert!(!is_done || found == wanted, "{count}: what was answered is there");
        }
    }
    assert!(whole > 0, "some were answered before");
}

#[test]
fn a_pool_that_is_closed_or_read_only_can_be_withdrawn_too() {
    let mut pool = Pool::new();
    let range = ByteRange::new(0, 4096);
    let data = Bytes::from(vec![1; 4096]);
    pool.store.submit(Tag(1000), A, Request::Write { range, data });
    while let Some(io) = pool.store.next_io() {
        pool.store.completed(io.id, Err(DeviceError::Os(5)));
    }
    assert!(matches!(pool.store.health(), Health::ReadOnly { .. }));
    pool.store.withdraw();
    pool.store.withdraw();
    assert_eq!(pool.store.health(), Health::Closed);
}

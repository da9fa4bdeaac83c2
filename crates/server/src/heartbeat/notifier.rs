//! Service notification (sd_notify): a thread tells systemd, whose socket may be full, so that the
//! reactor never waits for it.
//!
//! Each word waits at most once, so none is ever left out for want of room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use crate::limits::OUTPUT_PATIENCE;

/// Something to tell systemd; the value is the bit by which it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Word {
    Ready = 1,
    Watchdog = 2,
    Stopping = 4,
}

/// In the order in which they are told when several wait.
const WORDS: [Word; 3] = [Word::Ready, Word::Watchdog, Word::Stopping];

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Notifier {
    /// Bits of the words that were not told yet.
    untold: Arc<AtomicU8>,
    wake: SyncSender<()>,
}

impl Notifier {
    /// Starts the thread, which tells nobody if the daemon is not systemd's service. Without the
    /// thread nothing is told.
    pub(super) fn start() -> Self {
        Self::telling(|word| {
            if let Err(error) = sd_notify::notify(&[state(word)]) {
                tracing::debug!(%error, "systemd was not told");
            }
        })
    }

    fn telling(tell: impl Fn(Word) + Send + 'static) -> Self {
        let untold = Arc::new(AtomicU8::new(0));
        let (wake, woken) = sync_channel(1);
        let waiting = Arc::clone(&untold);
        let thread = thread::Builder::new().name("notify".to_owned());
        if let Err(error) = thread.spawn(move || tell_all(&waiting, &woken, tell)) {
            tracing::warn!(%error, "systemd is not told");
        }
        Self { untold, wake }
    }

    /// Lets a word be told. Never waits.
    pub(super) fn tell(&self, word: Word) {
        self.untold.fetch_or(word as u8, Ordering::Release);
        // If there is no room, the thread is about to look anyway.
        let _ = self.wake.try_send(());
    }

    /// Waits until everything is told, a second at most.
    pub(super) fn wait_until_told(&self) {
        let deadline = Instant::now() + OUTPUT_PATIENCE;
        while self.untold.load(Ordering::Acquire) != 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn state(word: Word) -> NotifyState<'static> {
    match word {
        Word::Ready => NotifyState::Ready,
        Word::Watchdog => NotifyState::Watchdog,
        Word::Stopping => NotifyState::Stopping,
    }
}

/// The thread.
fn tell_all(untold: &AtomicU8, woken: &Receiver<()>, tell: impl Fn(Word)) {
    for () in woken {
        for word in WORDS {
            if untold.load(Ordering::Acquire) & word as u8 != 0 {
                tell(word);
                untold.fetch_and(!(word as u8), Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn each_word_is_told_however_many_came_while_the_socket_was_full() {
        let (told, heard) = channel();
        let (let_on, may_go_on) = sync_channel::<()>(0);
        let notifier = Notifier::telling(move |word| {
            let _ = may_go_on.recv();
            let _ = told.send(word);
        });
        notifier.tell(Word::Ready);
        (0..100).for_each(|_| notifier.tell(Word::Watchdog));
        notifier.tell(Word::Stopping);
        drop(let_on);
        notifier.wait_until_told();
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), WORDS);
    }

    #[test]
    fn whoever_ends_waits_a_second_at_most() {
        let (let_on, may_go_on) = sync_channel::<()>(0);
        let notifier = Notifier::telling(move |_| {
            let _ = may_go_on.recv();
        });
        notifier.tell(Word::Stopping);
        notifier.wait_until_told();
        assert_ne!(notifier.untold.load(Ordering::Acquire), 0, "the socket is still full");
        drop(let_on);
    }
}

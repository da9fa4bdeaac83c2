//! Background jobs, each in a thread of its own: making, growing, closing and removing the files of
//! devices. The reactor, and with it every host, goes on meanwhile.

use std::collections::{HashMap, VecDeque};

use api::Problem;

use super::problems::internal;
use super::{Caller, Management, Progress};
use crate::data_plane::DataPlane;
use crate::guard::guarded;
use crate::http::{Mailbox, Message};
use crate::limits::{JOBS_MAX, JOBS_WAITING_MAX};

/// Work for another thread; it gives what the reactor does afterwards.
pub(super) type Job = Box<dyn FnOnce() -> After + Send>;

/// What the reactor does after a job.
pub(super) type After =
    Box<dyn FnOnce(&mut Management, &mut DataPlane) -> Result<Progress, Problem> + Send>;

/// A job that has ended.
pub(crate) struct Finished {
    number: u64,
    after: After,
}

/// Jobs under way, and those that wait for one to end.
pub(super) struct Jobs {
    mailbox: Mailbox,
    last: u64,
    callers: HashMap<u64, Caller>,
    running: usize,
    waiting: VecDeque<(u64, Job)>,
}

impl Jobs {
    pub(super) fn new(mailbox: Mailbox) -> Self {
        let (callers, waiting) = (HashMap::new(), VecDeque::new());
        Self { mailbox, last: 0, callers, running: 0, waiting }
    }

    /// Begins a job; gives the caller back if too many wait already.
    pub(super) fn begin(&mut self, job: Job, caller: Caller) -> Result<(), Caller> {
        if self.waiting.len() >= JOBS_WAITING_MAX {
            return Err(caller);
        }
        self.last += 1;
        self.callers.insert(self.last, caller);
        self.waiting.push_back((self.last, job));
        self.start();
        Ok(())
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.callers.is_empty()
    }

    /// Starts what waits, as far as there may be threads.
    fn start(&mut self) {
        while self.running < JOBS_MAX
            && let Some((number, job)) = self.waiting.pop_front()
        {
            self.running += 1;
            let mailbox = self.mailbox.clone();
            let thread = std::thread::Builder::new().name("job".to_owned());
            let begun = thread.spawn(move || {
                let after = guarded(job).unwrap_or_else(|said| failed(said));
                mailbox.post(Message::Finished(Finished { number, after }));
            });
            if let Err(error) = begun {
                let after = failed(format!("no thread can be started: {error}"));
                self.mailbox.post(Message::Finished(Finished { number, after }));
            }
        }
    }
}

fn failed(said: String) -> After {
    Box::new(move |_, _| Err(internal(&said)))
}

impl Management {
    /// Goes on with what waited for a job.
    pub(crate) fn job_ended(&mut self, plane: &mut DataPlane, finished: Finished) {
        let Finished { number, after } = finished;
        self.jobs.running -= 1;
        self.jobs.start();
        let caller = self.jobs.callers.remove(&number).unwrap_or_default();
        let outcome = self.guarded(|management| after(management, plane));
        self.proceed(plane, outcome, caller);
    }

    /// Has something done that nobody waits for.
    pub(super) fn in_background(&mut self, work: impl FnOnce() + Send + 'static) {
        let job: Job = Box::new(move || {
            work();
            Box::new(|_, _| Ok(Progress::done()))
        });
        if self.jobs.begin(job, Caller::default()).is_err() {
            tracing::error!("too much is under way: a file was left as it is");
        }
    }
}

/// A step that another thread does; `then` goes on with what came of it.
pub(super) fn job<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    then: impl FnOnce(&mut Management, &mut DataPlane, T) -> Result<Progress, Problem> + Send + 'static,
) -> Progress {
    Progress::Job(Box::new(move || {
        let result = work();
        Box::new(move |management, plane| then(management, plane, result))
    }))
}

//! Background jobs, each in a thread of its own: making, growing, closing and removing the files of
//! devices. The reactor, and with it every host, goes on meanwhile.

use std::collections::{HashMap, VecDeque};

use api::Problem;
use array::PoolDevice;
use control::devices::{AfterMaking, Growing, Made, Making};
use control::procedures::OpenDevices;
use device::{Device, Grown, Growth};

use super::devices::make_devices;
use super::facts::Facts;
use super::problems::{conflict, gone, internal, unavailable};
use super::resume::{Opened, Opening};
use super::{Caller, Management, Progress};
use crate::data_plane::DataPlane;
use crate::guard::guarded;
use crate::http::{Mailbox, Message};
use crate::limits::{JOBS_MAX, JOBS_WAITING_MAX};
use crate::options::IoMethod;

/// Work for another thread.
pub(super) enum Job {
    /// Something that nobody waits for.
    Background(Box<dyn FnOnce() + Send>),
    /// New devices.
    Make { making: Making, io: IoMethod, then: AfterMaking },
    /// A larger device.
    Grow { growth: Growth, growing: Growing },
    /// The devices of a pool that is opened anew.
    Open(Opening),
}

/// What came of a job, and what goes on.
pub(super) enum After {
    Background(Result<(), Problem>),
    Made(AfterMaking, Result<(Vec<PoolDevice>, Vec<Device>), Problem>),
    Grown(Growing, Result<Grown, Problem>),
    Opened(Opened),
}

impl Job {
    fn run(self) -> After {
        match self {
            Self::Background(work) => {
                work();
                After::Background(Ok(()))
            }
            Self::Make { making, io, then } => After::Made(then, make_devices(making, io)),
            Self::Grow { growth, growing } => {
                let grown = growth.to(growing.size_bytes).map_err(|error| conflict(&error));
                After::Grown(growing, grown)
            }
            Self::Open(opening) => After::Opened(opening.run()),
        }
    }

    /// What goes on if the job is not done, or ends by a mistake of ours.
    fn failed(&self) -> Box<dyn FnOnce(Problem) -> After + Send> {
        match self {
            Self::Background(_) => Box::new(|problem| After::Background(Err(problem))),
            Self::Make { then, .. } => {
                let then = then.clone();
                Box::new(|problem| After::Made(then, Err(problem)))
            }
            Self::Grow { growing, .. } => {
                let growing = growing.clone();
                Box::new(|problem| After::Grown(growing, Err(problem)))
            }
            Self::Open(opening) => {
                let failed = opening.failed();
                Box::new(|problem| After::Opened(failed(problem)))
            }
        }
    }
}

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

    /// Whether another job may begin.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < JOBS_WAITING_MAX
    }

    /// Begins a job. To be asked only while there is room.
    pub(super) fn begin(&mut self, job: Job, caller: Caller) {
        self.last += 1;
        self.callers.insert(self.last, caller);
        self.waiting.push_back((self.last, job));
        self.start();
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
            let (mailbox, failed, not_begun) = (self.mailbox.clone(), job.failed(), job.failed());
            let thread = std::thread::Builder::new().name("job".to_owned());
            let begun = thread.spawn(move || {
                let after = guarded(|| job.run()).unwrap_or_else(|said| failed(internal(&said)));
                mailbox.post(Message::Finished(Finished { number, after }));
            });
            if let Err(error) = begun {
                let after = not_begun(internal(&format!("no thread can be started: {error}")));
                self.mailbox.post(Message::Finished(Finished { number, after }));
            }
        }
    }
}

impl Management {
    /// Goes on with what would wait for a job, if too many wait already.
    pub(super) fn refuse_job(
        &mut self,
        plane: &mut DataPlane,
        job: &Job,
    ) -> Result<Progress, Problem> {
        let detail = &"too much is under way already: try again in a moment";
        let after = job.failed()(unavailable(detail));
        self.after_job(plane, 0, after)
    }

    /// Goes on with what waited for a job.
    pub(crate) fn job_ended(&mut self, plane: &mut DataPlane, finished: Finished) {
        let Finished { number, after } = finished;
        self.jobs.running -= 1;
        self.jobs.start();
        let caller = self.jobs.callers.remove(&number).unwrap_or_default();
        let outcome = self.guarded(|management| management.after_job(plane, number, after));
        self.proceed(plane, outcome, caller);
    }

    fn after_job(
        &mut self,
        plane: &mut DataPlane,
        number: u64,
        after: After,
    ) -> Result<Progress, Problem> {
        match after {
            After::Background(done) => done.map(|()| Progress::done()),
            After::Made(then, made) => {
                let made = made.map(|(devices, opened)| {
                    let open = OpenDevices(number);
                    self.open_devices.insert(open, opened);
                    Made { open, devices }
                });
                let stage = then.made(made, &Facts::new(self, plane));
                self.take(plane, stage)
            }
            After::Grown(growing, grown) => {
                let taken = grown.and_then(|grown| take_growth(plane, &growing, grown));
                self.take(plane, growing.grown(taken))
            }
            After::Opened(opened) => self.devices_opened(plane, opened),
        }
    }

    /// Has something done that nobody waits for.
    pub(super) fn in_background(&mut self, work: impl FnOnce() + Send + 'static) {
        if self.jobs.has_room() {
            self.jobs.begin(Job::Background(Box::new(work)), Caller::default());
        } else {
            tracing::error!("too much is under way: a file was left as it is");
        }
    }
}

fn take_growth(plane: &mut DataPlane, growing: &Growing, grown: Grown) -> Result<(), Problem> {
    let mut pool = plane.pools.get_mut(growing.pool).ok_or_else(gone)?;
    pool.devices.get_mut(growing.device).ok_or_else(gone)?.take_growth(grown);
    Ok(())
}

//! Background jobs, each in a thread of its own: making, growing, closing and removing the files of
//! devices. The reactor, and with it every host, goes on meanwhile.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use api::Problem;
use array::PoolDevice;
use control::devices::{AfterMaking, Growing, Made, Making, Origin};
use control::procedures::OpenDevices;
use device::Device;
use tokio::sync::oneshot;

use super::devices::{DeviceGrowth, GrownDevice, grow_devices, make_devices, take_growth};
use super::facts::Facts;
use super::opening::{Opened, Opening};
use super::pool_import::{Looked, Looking};
use super::pool_records::{Compared, Comparing};
use super::problems::{conflict, internal, unavailable};
use super::{Caller, Management, Progress};
use crate::data_plane::DataPlane;
use crate::guard::guarded;
use crate::http::{Mailbox, Message, Reply};
use crate::limits::{JOB_PATIENCE, JOBS_LATE_MAX, JOBS_MAX, JOBS_WAITING_MAX};
use crate::options::IoMethod;
use crate::pool::{OpenDevice, remove_device};

/// Work for another thread.
pub(super) enum Job {
    /// Something that nobody waits for.
    Background(Box<dyn FnOnce() + Send>),
    /// New devices.
    Make { making: Making, io: IoMethod, then: AfterMaking },
    /// A larger device, or larger members of a mirror.
    Grow { growths: Vec<DeviceGrowth>, growing: Growing },
    /// The devices of a pool that is opened anew.
    Open(Box<Opening>),
    /// Records of a pool and the configuration.
    Compare(Comparing),
    /// A pool that is to be imported.
    Look(Looking),
}

/// What came of a job, and what goes on.
pub(super) enum After {
    Background(Result<(), Problem>),
    Made(AfterMaking, Result<(Vec<PoolDevice>, Vec<Device>), Problem>),
    Grown(Growing, Result<Vec<GrownDevice>, Problem>),
    Opened(Opened),
    Compared(Compared),
    Looked(Looked),
}

impl Job {
    fn run(self) -> After {
        match self {
            Self::Background(work) => {
                work();
                After::Background(Ok(()))
            }
            Self::Make { making, io, then } => After::Made(then, make_devices(making, io)),
            Self::Grow { growths, growing } => {
                let grown = grow_devices(growths, growing.size_bytes);
                After::Grown(growing, grown)
            }
            Self::Open(opening) => After::Opened(opening.run()),
            Self::Compare(comparing) => After::Compared(comparing.run()),
            Self::Look(looking) => After::Looked(looking.run()),
        }
    }

    /// Whether it opens what may hang, so that it has a thread beside those of other jobs.
    pub(super) fn has_own_thread(&self) -> bool {
        match self {
            Self::Open(_) => true,
            Self::Make { making, .. } => making.origin == Origin::There,
            // A device may hang while it is looked at.
            Self::Look(_) => true,
            // Hosts of a pool wait for it.
            Self::Compare(_) => true,
            Self::Background(_) | Self::Grow { .. } => false,
        }
    }

    /// What goes on instead if a device does not answer; `None` if nothing waits for the job, or it is never given
    /// up.
    fn instead(&self) -> Option<Failed> {
        match self {
            Self::Make { making, .. } if making.origin == Origin::There => None,
            Self::Make { .. } | Self::Grow { .. } => Some(self.failed()),
            Self::Background(_) | Self::Open(_) | Self::Compare(_) | Self::Look(_) => None,
        }
    }

    /// What goes on if the job is not done, or ends by a mistake of ours.
    fn failed(&self) -> Failed {
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
            Self::Compare(comparing) => {
                let failed = comparing.failed();
                Box::new(|problem| After::Compared(failed(problem)))
            }
            Self::Look(looking) => {
                let failed = looking.failed();
                Box::new(|problem| After::Looked(failed(problem)))
            }
        }
    }
}

/// What goes on without the job's result.
type Failed = Box<dyn FnOnce(Problem) -> After + Send>;

/// A job that was begun.
struct UnderWay {
    caller: Caller,
    /// When it got a thread.
    since: Option<Instant>,
    instead: Option<Failed>,
}

impl UnderWay {
    /// Whether it should have ended: a device does not answer.
    fn is_late(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) >= JOB_PATIENCE)
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
    under_way: HashMap<u64, UnderWay>,
    /// Jobs that others do not wait for any more, since a device does not answer: they have threads besides.
    late: HashSet<u64>,
    running: usize,
    waiting: VecDeque<(u64, Job)>,
    /// Jobs that open what is there, and the pools whose devices they open, or no name for a member.
    /// Each has a thread of its own beside the others, so that devices that hang keep no other job
    /// waiting; there is one for each pool and lost member at most, besides those that administrators
    /// ask for.
    opening: HashMap<u64, String>,
}

impl Jobs {
    pub(super) fn new(mailbox: Mailbox) -> Self {
        let (under_way, waiting, opening) = (HashMap::new(), VecDeque::new(), HashMap::new());
        let late = HashSet::new();
        Self { mailbox, last: 0, under_way, late, running: 0, waiting, opening }
    }

    /// Whether another job may begin.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < JOBS_WAITING_MAX && self.late.len() < JOBS_LATE_MAX
    }

    /// Begins a job. One that somebody asks for is begun only while there is room.
    pub(super) fn begin(&mut self, job: Job, caller: Caller) {
        self.last += 1;
        let instead = job.instead();
        self.under_way.insert(self.last, UnderWay { caller, since: None, instead });
        if job.has_own_thread() {
            let pool = if let Job::Open(opening) = &job { opening.name() } else { "" };
            self.opening.insert(self.last, pool.to_owned());
            return self.spawn(self.last, job);
        }
        self.waiting.push_back((self.last, job));
        self.start();
    }

    /// Whether a job is under way, besides those that open devices, and those whose device does not answer.
    pub(super) fn is_busy(&self) -> bool {
        self.running > 0 || !self.waiting.is_empty()
    }

    /// Whether devices of a pool are being opened.
    pub(super) fn opens(&self, pool: &str) -> bool {
        self.opening.values().any(|name| name == pool)
    }

    /// Who waits for that.
    pub(super) fn caller_of_opening(&mut self, pool: &str) -> Option<&mut Caller> {
        let (number, _) = self.opening.iter().find(|(_, name)| *name == pool)?;
        self.under_way.get_mut(number).map(|job| &mut job.caller)
    }

    /// A job has ended: others may begin. Returns who waits for it; `None` if it was given up.
    fn end(&mut self, number: u64) -> Option<Caller> {
        let has_own_thread = self.opening.remove(&number).is_some();
        if !self.late.remove(&number) && !has_own_thread {
            self.running -= 1;
            self.start();
        }
        self.under_way.remove(&number).map(|job| job.caller)
    }

    /// Who waits for jobs with threads of their own that are late.
    fn take_late_replies(&mut self, now: Instant) -> Vec<oneshot::Sender<Reply>> {
        let Self { under_way, opening, .. } = self;
        let own = under_way.iter_mut().filter(|(number, _)| opening.contains_key(number));
        let late = own.filter(|(_, job)| job.is_late(now));
        late.filter_map(|(_, job)| job.caller.reply.take()).collect()
    }

    /// The other jobs that have just become late: more may begin in their place. Those that are given up are returned,
    /// with who waits for them and what goes on instead.
    fn give_up_late(&mut self, now: Instant) -> Vec<(u64, Caller, Failed)> {
        let is_new =
            |number: &u64| !self.opening.contains_key(number) && !self.late.contains(number);
        let late = self.under_way.iter().filter(|(number, job)| is_new(number) && job.is_late(now));
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        self.running -= late.len();
        self.late.extend(&late);
        self.start();
        let mut given_up = Vec::new();
        for number in late {
            if let Some(instead) =
                self.under_way.get_mut(&number).and_then(|job| job.instead.take())
                && let Some(UnderWay { caller, .. }) = self.under_way.remove(&number)
            {
                given_up.push((number, caller, instead));
            }
        }
        given_up
    }

    /// Starts what waits, as far as there may be threads.
    fn start(&mut self) {
        while self.running < JOBS_MAX
            && let Some((number, job)) = self.waiting.pop_front()
        {
            self.running += 1;
            self.spawn(number, job);
        }
    }

    fn spawn(&mut self, number: u64, job: Job) {
        if let Some(begun) = self.under_way.get_mut(&number) {
            begun.since = Some(Instant::now());
        }
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

const GOES_ON: &str =
    "a device has not answered for 30 s: the array goes on when it does; see to that device";

const GIVEN_UP: &str =
    "a device has not answered for 30 s: nothing was changed; see to it, or choose another one";

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
        let Some(caller) = self.jobs.end(number) else {
            return self.undo_job(after);
        };
        let outcome = self.guarded(|management| management.after_job(plane, number, after));
        self.proceed(plane, outcome, caller);
    }

    /// Goes on without jobs whose devices do not answer.
    pub(super) fn give_up_late_jobs(&mut self, plane: &mut DataPlane) {
        let now = Instant::now();
        for reply in self.jobs.take_late_replies(now) {
            let caller = Caller { reply: Some(reply), ..Caller::default() };
            self.answer(caller, Err(conflict(&GOES_ON)));
        }
        for (number, caller, instead) in self.jobs.give_up_late(now) {
            let after = instead(conflict(&GIVEN_UP));
            let outcome = self.guarded(|management| management.after_job(plane, number, after));
            self.proceed(plane, outcome, caller);
        }
    }

    /// A job has ended that was given up: devices that were made are closed, and their new files removed.
    fn undo_job(&mut self, after: After) {
        if let After::Made(_, Ok((devices, opened))) = after {
            self.in_background(move || {
                drop(opened);
                devices.iter().for_each(remove_device);
            });
        }
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
                    let names = devices.iter().map(|configured| configured.device.clone());
                    let opened =
                        names.zip(opened).map(|(name, device)| OpenDevice::new(name, device));
                    let opened = opened.collect();
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
            After::Compared(compared) => self.records_compared(plane, compared),
            After::Looked(looked) => self.pool_looked_for(plane, looked),
        }
    }

    /// Has something done that nobody waits for, whatever else is under way: given up here it would close devices
    /// on this thread.
    pub(super) fn in_background(&mut self, work: impl FnOnce() + Send + 'static) {
        self.jobs.begin(Job::Background(Box::new(work)), Caller::default());
    }
}

//! Group commit of the configuration. A change is made on a copy, `next`; a thread saves the copy
//! with fsync; only then does it take the place of what is in effect, hosts see it, and whoever
//! asked is answered. Changes that come while a save is under way are saved together by the next
//! one. If a save fails, everything that is not saved is taken back and everybody who waits is told
//! (docs/decisions/0077).

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use api::{Problem, Severity};
use array::{Configuration, RecordKey, Secrets};
use control::change::{ConfigurationChange, Draft, Touched};

use super::facts::Facts;
use super::problems::internal;
use super::{Caller, Management, Next, Progress};
use crate::data_directory::DataDirectory;
use crate::data_plane::DataPlane;
use crate::events::now;
use crate::guard::guarded;
use crate::http::{Mailbox, Message};
use crate::yielding::{lower_priority, yielding};

#[cfg(test)]
mod tests;

/// Where the configuration and what was changed of it stand.
pub(super) struct Saving {
    writer: Sender<Save>,
    /// What is in effect, with every change that is not saved yet.
    next: Version,
    /// The number of the last change.
    changed: u64,
    /// The number of the last change that is saved, or that was taken back.
    saved: u64,
    /// What the thread saves now.
    in_flight: Option<(u64, Version, Touched)>,
    /// Whom the changes touch that no save under way has.
    touched: Touched,
    waiting: VecDeque<Waiting>,
    /// Whether the files may hold something that was taken back.
    in_doubt: bool,
    /// Since when saves fail, seconds since 1970, if the last one did: it is told once.
    failing_since: Option<u64>,
    /// When the save under way began.
    began: Instant,
}

/// Configuration and secrets that belong together.
#[derive(Clone)]
struct Version {
    configuration: Arc<Configuration>,
    secrets: Arc<Secrets>,
}

/// Somebody who waits until a change is saved.
struct Waiting {
    version: u64,
    next: Next,
    caller: Caller,
}

/// Work for the thread.
struct Save {
    number: u64,
    wanted: Version,
    /// What is put back if that fails.
    before: Version,
    /// Whether the files may be others than `before`.
    in_doubt: bool,
}

/// Why nothing was saved.
#[derive(Debug)]
pub(crate) struct SaveFailed {
    reason: String,
    /// Whether the files could not be put back, so that they may hold what was taken back.
    in_doubt: bool,
}

impl Saving {
    /// Starts the thread that saves.
    pub(super) fn start(
        directory: Arc<DataDirectory>,
        mailbox: Mailbox,
        configuration: &Arc<Configuration>,
        secrets: &Arc<Secrets>,
    ) -> anyhow::Result<Self> {
        let (writer, inbox) = channel();
        std::thread::Builder::new()
            .name("configuration".to_owned())
            .spawn(move || keep(&*directory, &inbox, &mailbox))?;
        let next =
            Version { configuration: Arc::clone(configuration), secrets: Arc::clone(secrets) };
        Ok(Self {
            writer,
            next,
            changed: 0,
            saved: 0,
            in_flight: None,
            touched: Touched::Nobody,
            waiting: VecDeque::new(),
            in_doubt: false,
            failing_since: None,
            began: Instant::now(),
        })
    }

    /// The configuration with every change that was accepted, saved or not.
    pub(super) fn next(&self) -> Arc<Configuration> {
        Arc::clone(&self.next.configuration)
    }

    /// The same, with the secrets that belong to it.
    pub(super) fn next_with_secrets(&self) -> (Arc<Configuration>, Arc<Secrets>) {
        let Version { configuration, secrets } = self.next.clone();
        (configuration, secrets)
    }

    /// The same, to look at.
    pub(super) fn accepted(&self) -> &Configuration {
        &self.next.configuration
    }

    /// A copy of that to be changed, which shares what is the same.
    pub(super) fn draft(&self) -> Draft {
        Draft {
            array: Configuration::clone(&self.next.configuration),
            secrets: Secrets::clone(&self.next.secrets),
        }
    }

    pub(super) fn is_saved(&self, version: u64) -> bool {
        version <= self.saved
    }

    pub(super) fn wait(&mut self, version: u64, next: Next, caller: Caller) {
        self.waiting.push_back(Waiting { version, next, caller });
    }

    pub(super) fn is_busy(&self) -> bool {
        self.in_flight.is_some() || !self.waiting.is_empty()
    }

    /// Since when saves fail, seconds since 1970; `None` if the last one did not.
    pub(super) fn failing_since(&self) -> Option<u64> {
        self.failing_since
    }

    /// How long the save that is under way has taken; nothing if there is none.
    pub(super) fn under_way(&self) -> Duration {
        self.in_flight.as_ref().map_or(Duration::ZERO, |_| self.began.elapsed())
    }

    /// Has the thread save what is not saved yet, unless it is busy.
    fn save(&mut self, in_effect: Version) {
        if self.in_flight.is_some() || self.changed == self.saved {
            return;
        }
        let (number, wanted) = (self.changed, self.next.clone());
        let touched = std::mem::take(&mut self.touched);
        self.in_flight = Some((number, wanted.clone(), touched));
        self.began = Instant::now();
        let save = Save { number, wanted, before: in_effect, in_doubt: self.in_doubt };
        self.writer.send(save).expect("the thread lives as long as this value");
    }
}

impl Management {
    /// Makes a change of the configuration. When it is saved, and in effect, what follows is
    /// performed, and the caller is answered; if it cannot be saved nothing has changed.
    pub(super) fn make(
        &mut self,
        plane: &DataPlane,
        change: &impl ConfigurationChange,
    ) -> Result<Progress, Problem> {
        let mut draft = self.saving.draft();
        let facts = Facts::new(self, plane);
        let applied = change.apply(&mut draft, now(), &facts)?;
        let opened = facts.into_opened();
        self.portals.keep(opened);
        let version = self.accept(draft, applied.touched.clone());
        Ok(Progress::Saved { version, next: Next::Applied(applied) })
    }

    /// Says what a change would come to.
    pub(super) fn try_out(
        &self,
        plane: &DataPlane,
        change: &impl ConfigurationChange,
    ) -> Result<Progress, Problem> {
        let applied = change.apply(&mut self.saving.draft(), now(), &Facts::new(self, plane))?;
        self.describe_answer(plane, applied.answer)
    }

    /// Makes a draft the next version, and has it saved. Returns the number of the version that
    /// holds it: if nothing has changed, the last one.
    pub(super) fn accept(&mut self, draft: Draft, touched: Touched) -> u64 {
        let Draft { mut array, secrets } = draft;
        let next = &mut self.saving.next;
        let is_other = array != *next.configuration;
        let are_other = secrets != *next.secrets;
        if is_other || are_other {
            let generation = array.generation.max(next.configuration.generation) + 1;
            array.generation = generation;
            next.configuration = Arc::new(array);
        }
        if are_other {
            next.secrets = Arc::new(secrets);
        }
        if is_other || are_other {
            let before = std::mem::take(&mut self.saving.touched);
            self.saving.touched = before.and(touched);
            self.saving.changed += 1;
            self.save();
        }
        self.saving.changed
    }

    /// The thread has saved, or could not.
    pub(crate) fn saved(
        &mut self,
        plane: &mut DataPlane,
        number: u64,
        result: Result<BTreeSet<RecordKey>, SaveFailed>,
    ) {
        let is_this = |flying: &mut (u64, Version, Touched)| flying.0 == number;
        let Some((_, version, touched)) = self.saving.in_flight.take_if(is_this) else { return };
        match result {
            Ok(changed) => {
                self.saving.in_doubt = false;
                if let Some(since) = self.saving.failing_since.take() {
                    let seconds = now().saturating_sub(since);
                    let message = format!("can be saved again, after {seconds} s");
                    self.events.note(Severity::Information, "configuration".to_owned(), message);
                }
                self.saving.saved = number;
                self.take_effect_of(version, touched);
                self.note_changed_records(changed);
                self.hold_back(number);
            }
            Err(failed) => self.take_back(plane, failed),
        }
        self.save();
        self.look_after_records(plane);
    }

    fn take_effect_of(&mut self, version: Version, touched: Touched) {
        let before = self.in_effect();
        self.end_sessions_of_changed_hosts(
            (&before.configuration, &before.secrets),
            (&version.configuration, &version.secrets),
        );
        self.configuration = version.configuration;
        self.secrets = version.secrets;
        self.luns_changed = std::mem::take(&mut self.luns_changed).and(touched);
        let limited = self.configuration.limits_changed_since(&before.configuration);
        self.limits_changed.extend(limited);
    }

    /// Nothing that is not saved has ever been; later changes were built on those that failed.
    fn take_back(&mut self, plane: &mut DataPlane, failed: SaveFailed) {
        self.release_held_back(plane);
        if self.saving.failing_since.is_none() {
            self.saving.failing_since = Some(now());
            let message = format!(
                "cannot be saved: {}; every change that was not saved is taken back",
                failed.reason
            );
            self.events.note(Severity::Error, "configuration".to_owned(), message);
        }
        self.saving.in_doubt = failed.in_doubt;
        self.saving.next = self.in_effect();
        self.saving.touched = Touched::Nobody;
        self.saving.saved = self.saving.changed;
        self.peers.hearing.begin_anew();
        let reason = format!("the configuration cannot be saved: {}", failed.reason);
        self.go_on(plane, self.saving.changed, Some(internal(&reason)));
    }

    /// Goes on with everything that waited for a change up to that number.
    pub(super) fn go_on(&mut self, plane: &mut DataPlane, number: u64, problem: Option<Problem>) {
        let waiting = std::mem::take(&mut self.saving.waiting);
        let (ready, waiting): (VecDeque<_>, VecDeque<_>) =
            waiting.into_iter().partition(|waiting| waiting.version <= number);
        self.saving.waiting = waiting;
        for Waiting { next, caller, .. } in ready {
            let saved = problem.clone().map_or(Ok(()), Err);
            let outcome = self.guarded(|management| management.go_on_after(plane, next, saved));
            self.proceed(plane, outcome, caller);
        }
    }

    fn in_effect(&self) -> Version {
        Version {
            configuration: Arc::clone(&self.configuration),
            secrets: Arc::clone(&self.secrets),
        }
    }

    fn save(&mut self) {
        let in_effect = self.in_effect();
        self.saving.save(in_effect);
    }

    /// Saves what is in effect once more if the files may hold something else.
    pub(super) fn save_again(&mut self) {
        if self.saving.in_doubt && !self.saving.is_busy() {
            self.saving.changed += 1;
            self.save();
        }
    }
}

/// Where versions are kept.
trait Files {
    fn save(&self, configuration: &Configuration) -> anyhow::Result<()>;
    fn save_secrets(&self, secrets: &Secrets) -> anyhow::Result<()>;
}

impl Files for DataDirectory {
    fn save(&self, configuration: &Configuration) -> anyhow::Result<()> {
        Self::save(self, configuration)
    }

    fn save_secrets(&self, secrets: &Secrets) -> anyhow::Result<()> {
        Self::save_secrets(self, secrets)
    }
}

fn keep(files: &dyn Files, inbox: &Receiver<Save>, mailbox: &Mailbox) {
    lower_priority();
    for save in inbox {
        let number = save.number;
        let run = || save.run(files).map(|()| save.changed_records());
        let result = guarded(|| yielding(run))
            .unwrap_or_else(|reason| Err(SaveFailed { reason, in_doubt: true }));
        mailbox.post(Message::Saved { number, result });
    }
}

impl Save {
    /// The records of objects that are others than before.
    fn changed_records(&self) -> BTreeSet<RecordKey> {
        let (wanted, before) = (&self.wanted, &self.before);
        let mut changed = wanted.configuration.changed_since(&before.configuration);
        let discovery =
            |secrets: &Secrets| (secrets.discovery.clone(), secrets.sealed_discovery.clone());
        if discovery(&wanted.secrets) != discovery(&before.secrets) {
            changed.insert(RecordKey::Array);
        }
        changed.extend(wanted.secrets.hosts_changed_since(&before.secrets).map(RecordKey::Host));
        changed
    }

    /// Secrets go first: after a crash in between, a host whose secret is not there yet, or no more,
    /// is kept out.
    fn run(&self, files: &dyn Files) -> Result<(), SaveFailed> {
        let (wanted, before) = (&self.wanted, &self.before);
        let secrets_differ = self.in_doubt || wanted.secrets != before.secrets;
        let configuration_differs = self.in_doubt || wanted.configuration != before.configuration;
        let save = || {
            if secrets_differ {
                files.save_secrets(&wanted.secrets)?;
            }
            if configuration_differs {
                files.save(&wanted.configuration)?;
            }
            Ok(())
        };
        save().map_err(|error: anyhow::Error| SaveFailed {
            reason: format!("{error:#}"),
            // A rename may have been done although its fsync failed.
            in_doubt: files.save(&before.configuration).is_err()
                || secrets_differ && files.save_secrets(&before.secrets).is_err(),
        })
    }
}

//! Resilvers as tasks: one for each member that is filled, from when it joins or comes back until it is
//! current, fails or leaves.

use std::time::Duration;

use api::{Problem, TaskKind, TaskState, TaskUnit};
use store::{MemberState, ResilverStatus};

use super::{Amount, Known, Tasks};
use crate::problems::conflict;

/// A member of a mirror that may be being filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filling {
    /// The object of its task: 'member POOL/DEVICE'.
    pub object: String,
    /// The name of its pool.
    pub pool: String,
    /// Its UUID.
    pub member: [u8; 16],
}

impl Tasks {
    /// Looks at a member of a mirror; of one that is being filled `status` says how far that is, once
    /// it has begun.
    pub fn look_at_member(
        &mut self,
        now: u64,
        filling: Filling,
        state: MemberState,
        status: Option<ResilverStatus>,
    ) {
        let index = self.filling(&filling.pool, filling.member);
        match (state, index) {
            (MemberState::Resilvering, index) => {
                let known = match index {
                    Some(index) => &mut self.known[index],
                    None => {
                        let object = filling.object.clone();
                        let known = self.begin(now, TaskKind::Resilver, object);
                        known.filling = Some(filling);
                        known
                    }
                };
                known.fills(status.unwrap_or_default());
            }
            (MemberState::Current, Some(index)) => {
                let known = &mut self.known[index];
                known.task.done = known.task.total;
                let unreadable = known.task.problem.take();
                known.end(now, TaskState::Done, unreadable);
            }
            (MemberState::Absent, Some(index)) => {
                let problem = "the member failed, does not answer or is away: it goes on when that \
                               is back";
                self.known[index].end(now, TaskState::Failed, Some(problem.to_owned()));
            }
            (MemberState::Current | MemberState::Absent, None)
            | (MemberState::Witness | MemberState::WitnessAbsent, _) => {}
        }
    }

    /// Ends the tasks of members that have left the mirrors of a pool.
    pub fn end_resilvers(&mut self, now: u64, pool: &str, is_member: impl Fn([u8; 16]) -> bool) {
        for known in &mut self.known {
            let of_pool = known.filling.as_ref().filter(|filling| filling.pool == pool);
            let has_left = of_pool.is_some_and(|filling| !is_member(filling.member));
            if has_left && known.task.state == TaskState::Running {
                let problem = "the member has left its mirror".to_owned();
                known.end(now, TaskState::Cancelled, Some(problem));
            }
        }
    }

    /// The pool and the member of the resilver of that number, if it runs.
    ///
    /// # Errors
    /// When there is no such task, or it is no resilver that runs.
    pub fn resilver(&self, id: &str) -> Result<(String, [u8; 16]), Problem> {
        let known = self.find_known(id)?;
        if known.task.state != TaskState::Running {
            return Err(conflict(&"the task has ended"));
        }
        let filling = known.filling.as_ref();
        let filling = filling.ok_or_else(|| conflict(&"this task cannot be paused"))?;
        Ok((filling.pool.clone(), filling.member))
    }

    /// The task of a member that is being filled.
    fn filling(&self, pool: &str, member: [u8; 16]) -> Option<usize> {
        self.known.iter().position(|known| {
            let filling = known.filling.as_ref();
            known.task.state == TaskState::Running
                && filling.is_some_and(|filling| filling.pool == pool && filling.member == member)
        })
    }
}

impl Known {
    /// How far the filling of its member is.
    fn fills(&mut self, status: ResilverStatus) {
        let ResilverStatus { copied_bytes, total_bytes, remaining, paused, .. } = status;
        // What was in use when it began may have been freed since, and other space be used.
        let done = copied_bytes.min(total_bytes);
        self.reaches(Amount { done, total: total_bytes, unit: TaskUnit::Bytes });
        let task = &mut self.task;
        task.paused = paused;
        let left = (total_bytes - done) as f64;
        let rate = |remaining: Duration| (left / remaining.as_secs_f64()) as u64;
        let moves = remaining.filter(|remaining| !paused && !remaining.is_zero());
        task.rate_bytes = moves.map(rate);
        task.remaining_seconds = moves.map(|remaining| remaining.as_secs());
        let unreadable = status.unreadable_blocks;
        task.problem = (unreadable > 0).then(|| {
            format!("{unreadable} block(s) could be read from no member: they are lost on all")
        });
    }
}

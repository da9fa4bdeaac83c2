//! Report of acknowledged commits that a damaged journal lost.

use std::fmt;

use block::VolumeId;

/// Commits at the end of the journal that cannot be applied, although hosts may have been told that
/// they are on stable storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalLoss {
    /// The first one: it is damaged.
    pub first_commit: u64,
    /// The newest one that was found.
    pub last_commit: u64,
    /// The newest one that is known to have been on stable storage.
    pub stable_commit: u64,
    /// How many behind the first one are intact, but build on what is lost.
    pub intact_commits: u64,
    /// Changes that those are made of.
    pub intact_changes: u64,
    /// Volumes that those changes name, at most 64.
    pub volumes: Vec<VolumeId>,
}

impl JournalLoss {
    /// How many commits are lost.
    pub fn commits(&self) -> u64 {
        self.last_commit + 1 - self.first_commit
    }
}

impl fmt::Display for JournalLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first_commit, last_commit, stable_commit, intact_commits, .. } = self;
        write!(
            f,
            "commit {first_commit} of the journal is damaged: {} commit(s), {first_commit} to \
             {last_commit}, are lost, of which those up to {stable_commit} were acknowledged; \
             {intact_commits} of them are intact, but build on what is damaged. They hold what was \
             written since the last checkpoint, which is never more than a minute older than the \
             last commit",
            self.commits()
        )
    }
}

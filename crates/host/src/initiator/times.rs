//! Time-outs of the initiator and of the path layer above it, as ESXi has them: one value for the
//! whole process, chosen once by its command line.

use std::sync::OnceLock;
use std::time::Duration;

/// Time-outs. All are divided by the same number in tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// A command without an answer is aborted (ABORT TASK) after so long.
    pub command: Duration,
    /// The same of a datastore's heartbeat.
    pub heartbeat: Duration,
    /// A task management function that is not answered for so long costs the session. With
    /// `heartbeat` together it is less than a lease of 16 s.
    pub management: Duration,
    /// With a command under way, and nothing received for so long, a NOP-Out is sent:
    /// NoopOutInterval.
    pub noop_interval: Duration,
    /// A NOP-Out that is not answered for so long costs the session: NoopOutTimeout.
    pub noop_timeout: Duration,
    /// From connecting to the end of the login: LoginTimeout.
    pub login: Duration,
    /// For the answer to a logout.
    pub logout: Duration,
    /// Between two attempts to connect while no path is left.
    pub reconnect: Duration,
    /// Without any path, commands wait so long: Misc.APDTimeout. 0: they fail at once.
    pub all_paths_down: Duration,
    /// A LUN that says BUSY or TASK SET FULL is asked again for so long.
    pub busy: Duration,
    /// Attempts at a command that is never answered; then it ends without an answer.
    pub unanswered_max: u32,
    /// Attempts at a command with which the connection ends each time; likewise.
    pub dropped_max: u32,
}

impl Times {
    /// A host's: a command is tried for as long as there is hope.
    pub const HOST: Self = Self {
        command: Duration::from_secs(30),
        heartbeat: Duration::from_secs(8),
        management: Duration::from_secs(5),
        noop_interval: Duration::from_secs(15),
        noop_timeout: Duration::from_secs(10),
        login: Duration::from_secs(5),
        logout: Duration::from_secs(5),
        reconnect: Duration::from_secs(1),
        all_paths_down: Duration::from_secs(140),
        busy: Duration::from_secs(60),
        unanswered_max: 20,
        dropped_max: 20,
    };

    /// A judge's: what is not answered once is a finding, and an array that is away for longer than
    /// a restart takes is not waited for.
    pub const JUDGE: Self = Self {
        all_paths_down: Duration::from_secs(20),
        unanswered_max: 1,
        dropped_max: 3,
        ..Self::HOST
    };

    /// The same, so many times as fast.
    #[must_use]
    pub fn divided(self, by: u32) -> Self {
        let by = by.max(1);
        Self {
            command: self.command / by,
            heartbeat: self.heartbeat / by,
            management: self.management / by,
            noop_interval: self.noop_interval / by,
            noop_timeout: self.noop_timeout / by,
            // A healthy array on a busy machine must be able to answer.
            login: (self.login / by).max(Duration::from_secs(1)),
            logout: self.logout / by,
            reconnect: self.reconnect / by,
            all_paths_down: self.all_paths_down / by,
            // Many looks at a busy LUN take long on a busy machine.
            busy: (self.busy / by).max(Duration::from_secs(10)),
            unanswered_max: self.unanswered_max,
            dropped_max: self.dropped_max,
        }
    }

    /// How often to look whether one of them is over.
    pub fn tick(&self) -> Duration {
        (self.management / 10).clamp(Duration::from_millis(2), Duration::from_millis(250))
    }
}

static CHOSEN: OnceLock<Times> = OnceLock::new();

/// Chooses the time-outs of this process. Only the first choice counts, and none after the first
/// look.
pub fn choose(times: Times) {
    // A second choice changes nothing, as promised.
    let _ = CHOSEN.set(times);
}

/// The time-outs of this process; a host's if none were chosen.
pub fn times() -> &'static Times {
    CHOSEN.get_or_init(|| Times::HOST)
}

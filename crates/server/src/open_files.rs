//! Limit of open files (RLIMIT_NOFILE): raises it as far as the system allows, and divides it so
//! that connections never take the last ones. Every connection is an open file, and so is every
//! device of a pool.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::DESCRIPTORS_KEPT;

/// How many connections the open files are enough for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFiles {
    /// Of initiators.
    pub(crate) iscsi: usize,
    /// Of administrators over TCP.
    pub(crate) http: usize,
}

impl OpenFiles {
    /// Raises the limit, and divides it. Says so if it is too low for what was asked for.
    pub(crate) fn prepare(connections_max: u64, http_connections_max: u64) -> Self {
        let limit = raise();
        let shares = Self::divide(limit, connections_max, http_connections_max);
        if (shares.iscsi as u64) < connections_max {
            tracing::warn!(
                connections_max,
                allowed = shares.iscsi,
                open_files = limit,
                "the limit of open files allows fewer connections than --connections-max: raise it \
                 ('ulimit -Hn', LimitNOFILE= of systemd)"
            );
        }
        shares
    }

    fn divide(limit: u64, connections_max: u64, http_connections_max: u64) -> Self {
        let kept = DESCRIPTORS_KEPT.max(limit / 16);
        let available = limit.saturating_sub(kept);
        let http = http_connections_max.min(available / 4).max(1);
        let iscsi = connections_max.min(available.saturating_sub(http)).max(1);
        Self { iscsi: iscsi as usize, http: http as usize }
    }
}

/// Raises the limit, which a shell often sets to 1,024, and returns what it is.
fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_pools_and_for_administrators() {
        for (limit, iscsi, http) in [
            (u64::MAX, 4096, 512),
            (1 << 20, 4096, 512),
            (1024, 672, 224),
            (256, 96, 32),
            (128, 1, 1),
            (0, 1, 1),
        ] {
            assert_eq!(OpenFiles::divide(limit, 4096, 512), OpenFiles { iscsi, http }, "{limit}");
        }
    }
}

//! The file descriptors of this process, and how listeners share them.
//!
//! ```text
//!   all that the process may open
//!   | in use at the   | a few for each  | a share for each     | another share for each      |
//!   | start, and some | listener of     | other listener:      | listener of the proxy:      |
//!   | for later files | administrators  | clients and refusals | connections to upstreams    |
//! ```
//!
//! So clients that are connected, and do nothing, never take the descriptor of an upstream, of the
//! state file or of another listener's client.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The descriptors that are kept for later files: rules, state, certificates, stores.
const LATER: usize = 64;

/// Of few descriptors, at most this part is kept for that.
const LATER_PART: usize = 4;

/// The most descriptors of a listener of administrators, and its part of those that are left.
const ADMIN: usize = 128;
const ADMIN_PART: usize = 16;

/// The most connections above the limit that are answered at a time.
const REFUSED: usize = 256;

/// Of a share, the part that connections above the limit may take; and how many they may take in
/// any case, if those are no more than a larger part.
const REFUSED_PART: usize = 16;
const FEW_REFUSED: usize = 32;
const LARGE_PART: usize = 4;

/// How the descriptors of a process are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// All that the process may open.
    pub all: usize,
    /// Those of the process itself.
    pub kept: usize,
    /// Those of a listener of administrators.
    pub admin: usize,
    /// Those of another listener's clients, and, of one of the proxy, as many for upstreams.
    pub each: usize,
}

/// How many connections a listener has at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Those that are served.
    pub most: usize,
    /// Those above that are answered. More are closed without an answer.
    pub(crate) refused: usize,
}

impl Shares {
    /// Raises the limit of descriptors as far as this process may, and shares them among so many
    /// listeners of administrators, and so many shares of others. `None`: there is no limit.
    pub fn claim(admins: usize, shares: usize) -> Option<Self> {
        let all = usize::try_from(raise_limit()?).unwrap_or(usize::MAX);
        Some(Self::of(all, in_use(), admins, shares))
    }

    /// Shares `all` descriptors, of which some are in use.
    fn of(all: usize, in_use: usize, admins: usize, shares: usize) -> Self {
        let kept = in_use + LATER.min(all / LATER_PART);
        let left = all.saturating_sub(kept);
        let admin = (left / ADMIN_PART / admins.max(1)).min(ADMIN);
        Self { all, kept, admin, each: (left - admin * admins) / shares.max(1) }
    }
}

impl Room {
    /// The room of a listener that is to have at most so many connections, in its share.
    pub fn of(most: usize, share: Option<usize>) -> Self {
        let share = share.unwrap_or(usize::MAX);
        let few = FEW_REFUSED.min(share / LARGE_PART);
        let refused = (share / REFUSED_PART).max(few).clamp(1, REFUSED);
        // One more is open before it is known to be refused.
        let left = share.saturating_sub(refused + 1).max(1);
        Self { most: most.min(left), refused }
    }
}

/// Raises the soft limit to the hard one. Returns the limit that is in force.
fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Where the system refuses, as macOS does without a limit, the soft one stays.
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(_) => current,
    }
}

/// The descriptors that are open now, where the system tells.
fn in_use() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(LATER, Iterator::count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_refusals_never_exceed_what_there_is() {
        for all in [0, 1, 63, 64, 255, 256, 1024, 20_000, usize::MAX] {
            for (in_use, admins, count) in [(0, 0, 1), (40, 1, 2), (40, 1, 3), (90, 2, 11)] {
                let Shares { kept, admin, each, .. } = Shares::of(all, in_use, admins, count);
                assert!(kept >= in_use, "{all} {in_use}");
                assert!(all < kept || kept + admin * admins + each * count <= all, "{all} {in_use}");
                for share in [admin, each] {
                    let Room { most, refused } = Room::of(10_000, Some(share));
                    assert!((1..=10_000).contains(&most) && (1..=REFUSED).contains(&refused));
                    assert!(most + refused < share || most == 1, "{share} of {all}");
                }
            }
        }
        assert_eq!(Room::of(10_000, None), Room { most: 10_000, refused: 256 });
        let enough = Shares::of(20_000, 40, 1, 1);
        assert_eq!(Room::of(10_000, Some(enough.each)), Room { most: 10_000, refused: 256 });
        let few = Shares::of(256, 40, 1, 2);
        assert_eq!((few.kept, few.admin, few.each, Room::of(10_000, Some(few.each)).most), (104, 9, 71, 53));
        // Newcomers to a listener of administrators wait while silent connections end.
        assert_eq!(Room::of(10_000, Some(ADMIN)), Room { most: 95, refused: 32 });
    }
}

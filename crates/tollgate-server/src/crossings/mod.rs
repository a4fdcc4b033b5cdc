//! Everything at once: all verbs of the server over the same keys.
//!
//! | file | what |
//! |------|------|
//! | `rooms` | a server without sockets, which restarts with its state |
//! | `rules` | the rules files that programs use |
//! | `mirror` | the same rules, asked directly |
//! | `counts` | naive models of `CL.THROTTLE` and of files of envoyproxy/ratelimit |
//! | `program` | random programs of one thread, answer by answer |
//! | `threads` | several threads, and what no key may pass |
//! | `quotas` | several threads, and limits of `quota_mode` in files of envoyproxy/ratelimit |
//! | `table` | which verbs follow which: each follows each |

mod counts;
mod mirror;
mod program;
mod quotas;
mod rooms;
mod rules;
mod table;
mod threads;

/// xorshift64*.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `most`.
    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % most
    }
}

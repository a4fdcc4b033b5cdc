//! Redis clients without connections, for tests and fuzz targets.

use std::sync::Arc;

use tollgate::ManualClock;
use tollgate_net::listen::Peer;
use tollgate_rules::LiveRules;
use tollgate_rules_file::{Memory, read};

use super::client::{Next, Shared, Slow};
use super::session::Session;
use crate::clock::ServerClock;
use crate::core::Core;
use crate::settings::Settings;

/// What Redis clients are served with, on a clock that shows what it is told.
pub struct Probe {
    shared: Shared,
    /// The clock.
    pub clock: ManualClock,
}

/// What a client was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// All answers.
    pub output: Vec<u8>,
    /// Whether the connection ends.
    pub is_closed: bool,
}

impl Probe {
    /// One rule, `each`, of `10/s,burst=20` by the label `user`.
    ///
    /// # Panics
    ///
    /// Without memory.
    #[must_use]
    pub fn new(max_keys: usize, settings: &Settings) -> Self {
        const RULES: &str = "version = 1\n[[rule]]\nname = 'each'\nkey = 'label.user'\n\
            limits = '10/s,burst=20'\n";
        let clock = ManualClock::new();
        let shown: ServerClock = Arc::new(clock.clone());
        let rules = read("rules.toml", &Memory::new("rules.toml", RULES)).into_rules().expect("no mistakes");
        let live = LiveRules::new(rules, [0; 32], Arc::clone(&shown)).expect("there is memory");
        let core = Core::new(live, shown, max_keys, false).expect("there is memory");
        Self { shared: Shared::new(Arc::new(core), settings), clock }
    }

    /// Clients of a server that is there.
    pub(crate) fn of(core: &Arc<Core>, settings: &Settings, clock: ManualClock) -> Self {
        Self { shared: Shared::new(Arc::clone(core), settings), clock }
    }

    /// What a new client is answered whose bytes arrive in these pieces.
    ///
    /// # Panics
    ///
    /// If the server would.
    #[must_use]
    pub fn answers<'b>(&self, pieces: impl IntoIterator<Item = &'b [u8]>) -> Answered {
        let mut session = Session::new(&self.shared, Peer::Unix);
        let (mut input, mut answered) = (Vec::new(), Answered { output: Vec::new(), is_closed: false });
        for piece in pieces {
            input.extend_from_slice(piece);
            let mut next = Next::Turn;
            while next != Next::Read {
                let mut output = Vec::new();
                let progress = session.answer(&self.shared, &input, &mut output);
                input.drain(..progress.used);
                next = progress.next;
                if let Next::Slow(slow) = next {
                    session.answer_slow(self.do_slowly(slow), &mut output);
                }
                answered.output.append(&mut output);
                if next == Next::Close {
                    answered.is_closed = true;
                    return answered;
                }
            }
        }
        answered
    }

    fn do_slowly(&self, slow: Slow) -> Option<i64> {
        match slow {
            Slow::CountKeys => Some(self.shared.core.calls.load().usage().live_keys as i64),
            Slow::ForgetKeys => {
                self.shared.core.calls.clear().expect("there is memory");
                None
            }
        }
    }
}

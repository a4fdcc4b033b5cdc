//! Which verbs follow which, as `docs/correctness.md` shows it.

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verb {
    Throttle,
    Delete,
    TgCheck,
    TgPeek,
    Check,
    Peek,
    Reserve,
    Acquire,
    Batch,
    Together,
    Auth,
    Settle,
    CallByRules,
    CallByFiles,
    Reset,
    Credit,
    Reload,
    Restart,
    ClockAhead,
    ClockBack,
}

pub(super) const VERBS: [Verb; 20] = [
    Verb::Throttle,
    Verb::Delete,
    Verb::TgCheck,
    Verb::TgPeek,
    Verb::Check,
    Verb::Peek,
    Verb::Reserve,
    Verb::Acquire,
    Verb::Batch,
    Verb::Together,
    Verb::Auth,
    Verb::Settle,
    Verb::CallByRules,
    Verb::CallByFiles,
    Verb::Reset,
    Verb::Credit,
    Verb::Reload,
    Verb::Restart,
    Verb::ClockAhead,
    Verb::ClockBack,
];

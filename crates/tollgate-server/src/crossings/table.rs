//! Which verbs follow which, as `docs/proof/claims.md` shows it.

use std::collections::BTreeSet;

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

impl Verb {
    /// As the page calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Throttle => "`CL.THROTTLE`",
            Self::Delete => "`DEL`",
            Self::TgCheck => "`TG.CHECK`",
            Self::TgPeek => "`TG.PEEK`",
            Self::Check => "check",
            Self::Peek => "peek",
            Self::Reserve => "reserve",
            Self::Acquire => "acquire",
            Self::Batch => "batch",
            Self::Together => "batch together",
            Self::Auth => "auth",
            Self::Settle => "settle, release",
            Self::CallByRules => "RLS by rules",
            Self::CallByFiles => "RLS by files",
            Self::Reset => "reset",
            Self::Credit => "credit",
            Self::Reload => "reload",
            Self::Restart => "save, restart",
            Self::ClockAhead => "clock ahead",
            Self::ClockBack => "clock back",
        }
    }
}

/// Whether threads run it, too.
fn is_in_threads(verb: Verb) -> bool {
    use Verb::{CallByFiles, ClockAhead, ClockBack, Delete, Restart};
    !matches!(verb, CallByFiles | Delete | Restart | ClockAhead | ClockBack)
}

/// Which verbs came before which in these programs, at once or later.
fn crossed(programs: &[Vec<Verb>]) -> BTreeSet<(Verb, Verb)> {
    let pairs = programs.iter().flat_map(|verbs| {
        let later = |(index, first): (usize, &Verb)| {
            verbs[index + 1..].iter().map(|then| (*first, *then)).collect::<Vec<_>>()
        };
        verbs.iter().enumerate().flat_map(later)
    });
    pairs.collect()
}

/// The rows of the page.
fn rows(crossed: &BTreeSet<(Verb, Verb)>) -> Vec<String> {
    // No program of threads has two of these.
    let is_order = |verb: Verb| matches!(verb, Verb::Credit | Verb::Reload | Verb::Reset);
    let is_apart = |one: Verb, other: Verb| one != other && is_order(one) && is_order(other);
    let cell = |first: Verb, then: Verb| match crossed.contains(&(first, then)) {
        true if is_apart(first, then) => "p",
        true if is_in_threads(first) && is_in_threads(then) => "pt",
        true => "p",
        false => "",
    };
    let row = |first: Verb| {
        let cells: Vec<&str> = VERBS.iter().map(|then| cell(first, *then)).collect();
        format!("| {} | {} |", first.name(), cells.join(" | "))
    };
    VERBS.iter().map(|first| row(*first)).collect()
}

#[test]
fn the_page_shows_which_verbs_of_the_server_cross() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/proof/claims.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows = rows(&crossed(&super::program::play(0..12, 60)));
    let missing: Vec<&String> = rows.iter().filter(|row| !page.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "rows for docs/proof/claims.md:\n{}", rows.join("\n"));
}

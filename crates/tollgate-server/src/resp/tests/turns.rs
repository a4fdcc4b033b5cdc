//! How much of a pipeline is answered before others get a turn.

use std::sync::Arc;

use tollgate::ManualClock;
use tollgate_net::listen::Peer;
use tollgate_rules::LiveRules;
use tollgate_rules_file::{Memory, read};

use crate::core::Core;
use crate::resp::client::{Next, Shared};
use crate::resp::session::{COMMANDS_A_TURN, Session, UNREAD_BYTES};
use crate::settings::Settings;

fn shared() -> Shared {
    let rules = read("rules.toml", &Memory::new("rules.toml", "version = 1")).into_rules().unwrap();
    let clock = Arc::new(ManualClock::new());
    let live = LiveRules::new(rules, [0; 32], Arc::clone(&clock) as _).unwrap();
    Shared::new(Arc::new(Core::new(live, clock, 10_000, false).unwrap()), &Settings::new("none.toml"))
}

#[test]
fn a_turn_has_1024_commands_of_any_kind() {
    let shared = shared();
    for (command, answer) in [
        ("PING\r\n", "+PONG\r\n"),
        ("CL.THROTTLE k 0 1 60 0\r\n", "*5\r\n:0\r\n:1\r\n:1\r\n:-1\r\n:0\r\n"),
        // Nothing is answered, but it is read.
        ("\r\n", ""),
    ] {
        let (said, mut output) = (command.repeat(3_000), Vec::new());
        let mut session = Session::new(&shared, Peer::Unix);
        let mut left = said.as_bytes();
        for commands in [COMMANDS_A_TURN, COMMANDS_A_TURN, 3_000 - 2 * COMMANDS_A_TURN] {
            output.clear();
            let progress = session.answer(&shared, left, &mut output);
            assert_eq!(
                (progress.used, &*output),
                (commands * command.len(), answer.repeat(commands).as_bytes())
            );
            left = &left[progress.used..];
            assert_eq!(progress.next, if left.is_empty() { Next::Read } else { Next::Turn });
        }
    }
    assert_eq!(COMMANDS_A_TURN, 1024);
}

#[test]
fn a_turn_ends_where_answers_are_unread() {
    let (shared, mut output) = (shared(), vec![0; UNREAD_BYTES - 1]);
    let mut session = Session::new(&shared, Peer::Unix);
    let progress = session.answer(&shared, "PING\r\n".repeat(9).as_bytes(), &mut output);
    assert_eq!((progress.used, progress.next), (6, Next::Turn), "one more, and then its client reads");
}

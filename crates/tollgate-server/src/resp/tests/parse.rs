//! Commands in pieces.

use proptest::prelude::*;

use super::probe;
use crate::resp::parse::{CommandLimits, Parsed, Parser};

/// Commands of all kinds, and one that is none at the end.
const SAID: &[u8] = b"*1\r\n$4\r\nPING\r\n\r\nECHO 'a b' \r\n*5\r\n$11\r\ncl.throttle\r\n$1\r\nk\r\n$2\r\n15\r\n\
    $2\r\n30\r\n$2\r\n60\r\nCL.THROTTLE k 15 30 60 \"\\x31\"\n*0\r\n*-1\r\nhello 3 setname x\r\n\
    *2\r\n$4\r\nECHO\r\n$0\r\n\r\nGET none\r\nCL.THROTTLE k 15 0 60\r\nCL.THROTTLE k x\r\nDEL k\r\nTG.CHECK each k\r\n\
    *2\r\n$6\r\nEXISTS\r\n$1\r\nk\r\nDBSIZE\r\nFLUSHALL\r\nNONE\r\n*1\r\n$4\r\nPINGxx\r\nPING\r\n";

#[test]
fn a_command_may_be_cut_at_any_byte() {
    let whole = probe().answers([SAID]);
    assert!(whole.is_closed && whole.output.ends_with(b"-ERR Protocol error: expected CRLF\r\n"));
    for cut in 0..=SAID.len() {
        let (first, second) = SAID.split_at(cut);
        assert_eq!(probe().answers([first, second]), whole, "cut at {cut}");
    }
    assert_eq!(probe().answers(SAID.chunks(1)), whole, "byte by byte");
}

#[test]
fn a_partial_command_is_not_answered() {
    for end in 0..b"*1\r\n$4\r\nPING\r\n".len() {
        let answered = probe().answers([&b"*1\r\n$4\r\nPING\r\n"[..end]]);
        assert!(answered.output.is_empty() && !answered.is_closed, "{end} bytes");
    }
}

/// A command as an array.
fn array(arguments: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A command as a line, all of it quoted.
fn line(arguments: &[Vec<u8>]) -> Vec<u8> {
    let quoted = |argument: &Vec<u8>| {
        let escaped: String = argument.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("\"{escaped}\"")
    };
    (arguments.iter().map(quoted).collect::<Vec<_>>().join(" ") + "\r\n").into_bytes()
}

proptest! {
    #[test]
    fn arguments_of_any_bytes_are_read(
        arguments in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..12),
        behind in prop::collection::vec(any::<u8>(), 0..20),
        is_line: bool,
        cuts in prop::collection::vec(0.0..1.0, 0..4),
    ) {
        let command = if is_line { line(&arguments) } else { array(&arguments) };
        let bytes = [&command[..], &behind].concat();
        let mut parser = Parser::default();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| (cut * command.len() as f64) as usize).collect();
        cuts.sort_unstable();
        for cut in cuts {
            let parsed = parser.read(&bytes[..cut], CommandLimits::KNOWN);
            prop_assert_eq!(parsed, Ok(Parsed::Partial));
        }
        prop_assert_eq!(parser.read(&bytes, CommandLimits::KNOWN), Ok(Parsed::Command(command.len())));
        let read: Vec<_> = parser.arguments(&bytes).from(0).map(<[u8]>::to_vec).collect();
        prop_assert_eq!(read, arguments);
    }

    #[test]
    fn any_bytes_are_answered_alike_in_pieces(
        commands in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..30),
            "[*$:+-]?[0-9]{0,4}(\r\n)?".prop_map(String::into_bytes),
            "(PING|ECHO|CL.THROTTLE|DEL|TG.CHECK|HELLO|RESET)( [k0-9'\"x-]{0,3}){0,5}\r?\n"
                .prop_map(String::into_bytes),
        ], 0..12),
        size in 1_usize..40,
    ) {
        let said = commands.concat();
        prop_assert_eq!(probe().answers(said.chunks(size)), probe().answers([&said[..]]));
    }
}

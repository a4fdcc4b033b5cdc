//! The commands other than `CL.THROTTLE`.

use super::access::Role;
use super::call::{Call, Effect, SHOWN};
use super::client::{Client, Next};
use super::connect;
use super::info;
use super::keys;
use super::reply::Reply;
use super::rules;

/// The longest name of a command.
const LONGEST: usize = 12;

impl Call<'_> {
    /// Answers the command.
    pub(super) fn answer(&self, client: &mut Client, output: &mut Vec<u8>) -> Effect {
        let mut name = [0; LONGEST];
        let given = self.arguments.get(0);
        let name = match name.get_mut(..given.len()) {
            Some(name) => {
                name.copy_from_slice(given);
                name.make_ascii_uppercase();
                &*name
            }
            None => &[],
        };
        let is_open = matches!(name, b"AUTH" | b"HELLO" | b"QUIT" | b"RESET");
        let mut reply = Reply::new(output, client.version);
        if client.role == Role::Unknown && !is_open {
            reply.error("NOAUTH Authentication required.");
            return Effect::None;
        }
        if !self.has_arguments(name) {
            self.wrong_number(&mut reply);
            return Effect::None;
        }
        match name {
            b"PING" if self.arguments.len() == 1 => reply.status("PONG"),
            b"PING" | b"ECHO" => reply.bulk(self.arguments.get(1)),
            b"QUIT" => {
                reply.ok();
                return Effect::Then(Next::Close);
            }
            b"TG.CHECK" => rules::answer(self, false, &mut reply),
            b"TG.PEEK" => rules::answer(self, true, &mut reply),
            b"AUTH" => connect::auth(self, client, &mut reply),
            b"HELLO" => connect::hello(self, client, output),
            b"RESET" => connect::reset(self, client, output),
            b"SELECT" => connect::select(self, &mut reply),
            b"CLIENT" => connect::client(self, client, &mut reply),
            b"COMMAND" => info::command(self, &mut reply),
            b"CONFIG" => info::config(self, &mut reply),
            b"INFO" => info::info(self, &mut reply),
            b"TIME" => info::time(&mut reply),
            b"EXISTS" => keys::exists(self, &mut reply),
            b"TTL" => keys::time_to_live(self, keys::Unit::Seconds, &mut reply),
            b"PTTL" => keys::time_to_live(self, keys::Unit::Milliseconds, &mut reply),
            b"GET" => keys::get(self, &mut reply),
            b"DEL" | b"UNLINK" => keys::delete(self, &mut reply),
            b"DBSIZE" => return keys::count(),
            b"FLUSHALL" | b"FLUSHDB" => return keys::forget_all(self, client, &mut reply),
            b"KEYS" | b"SCAN" | b"RANDOMKEY" => {
                reply.error("ERR keys are not kept, only fingerprints of them")
            }
            b"MULTI" | b"EXEC" | b"DISCARD" | b"WATCH" | b"UNWATCH" => {
                reply.error("ERR transactions are not supported: send commands without MULTI");
            }
            _ => {
                let given = &given[..given.len().min(SHOWN)];
                reply.error_about("ERR unknown command: ", given);
            }
        }
        Effect::None
    }

    /// Whether a command has as many arguments as it may have.
    fn has_arguments(&self, name: &[u8]) -> bool {
        let range = match name {
            b"ECHO" | b"SELECT" | b"TTL" | b"PTTL" | b"GET" => 2..=2,
            b"QUIT" | b"RESET" | b"TIME" | b"DBSIZE" => 1..=1,
            b"PING" | b"FLUSHALL" | b"FLUSHDB" => 1..=2,
            b"AUTH" => 2..=3,
            b"CLIENT" | b"CONFIG" | b"EXISTS" | b"DEL" | b"UNLINK" => 2..=usize::MAX,
            b"TG.CHECK" | b"TG.PEEK" => 3..=usize::MAX,
            _ => 1..=usize::MAX,
        };
        range.contains(&self.arguments.len())
    }
}

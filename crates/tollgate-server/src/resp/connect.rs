//! What clients send when they connect: `HELLO`, `AUTH`, `CLIENT`, `SELECT`, `RESET`.

use std::fmt;

use tollgate_net::listen::Peer;

use super::access::Role;
use super::call::Call;
use super::client::Client;
use super::reply::{Reply, Version};

/// `AUTH [user] password`.
pub(super) fn auth(call: &Call<'_>, client: &mut Client, reply: &mut Reply<'_>) {
    let last = call.arguments.len() - 1;
    let user = (last == 2).then(|| call.arguments.get(1));
    match call.shared.access.role(user, call.arguments.get(last)) {
        Ok(role) => {
            client.role = role;
            reply.ok();
        }
        Err(denied) => reply.error(denied.message()),
    }
}

/// What `HELLO` asks for.
struct Hello<'c> {
    version: Version,
    role: Role,
    name: Option<&'c [u8]>,
}

/// `HELLO [2|3 [AUTH user password] [SETNAME name]]`. Its answer is in the version that it asks
/// for. An error changes nothing.
pub(super) fn hello(call: &Call<'_>, client: &mut Client, output: &mut Vec<u8>) {
    match asked(call, client) {
        Ok(Hello { version, role, name }) => {
            (client.version, client.role) = (version, role);
            if let Some(name) = name {
                client.name = name.to_vec();
            }
            let mut reply = Reply::new(output, version);
            reply.map(7);
            for (key, value) in [("server", "tollgate"), ("version", env!("CARGO_PKG_VERSION"))] {
                reply.bulk(key.as_bytes());
                reply.bulk(value.as_bytes());
            }
            reply.bulk(b"proto");
            reply.integer(if version == Version::Resp3 { 3 } else { 2 });
            reply.bulk(b"id");
            reply.integer(client.id as i64);
            for (key, value) in [("mode", "standalone"), ("role", "master")] {
                reply.bulk(key.as_bytes());
                reply.bulk(value.as_bytes());
            }
            reply.bulk(b"modules");
            reply.array(0);
        }
        Err(error) => Reply::new(output, client.version).error(error),
    }
}

fn asked<'c>(call: &Call<'c>, client: &Client) -> Result<Hello<'c>, &'static str> {
    let arguments = call.arguments;
    let version = match arguments.get(1) {
        b"" if arguments.len() == 1 => client.version,
        b"2" => Version::Resp2,
        b"3" => Version::Resp3,
        other if other.iter().all(u8::is_ascii_digit) && !other.is_empty() => {
            return Err("NOPROTO unsupported protocol version");
        }
        _ => return Err("ERR Protocol version is not an integer or out of range"),
    };
    let mut hello = Hello { version, role: client.role, name: None };
    let mut index = 2;
    while index < arguments.len() {
        let left = arguments.len() - index - 1;
        if call.is(index, "AUTH") && left >= 2 {
            let (user, password) = (arguments.get(index + 1), arguments.get(index + 2));
            hello.role =
                call.shared.access.role(Some(user), password).map_err(super::access::Denied::message)?;
            index += 3;
        } else if call.is(index, "SETNAME") && left >= 1 {
            let name = arguments.get(index + 1);
            hello.name = Some(is_name(name).then_some(name).ok_or(BAD_NAME)?);
            index += 2;
        } else {
            return Err("ERR Syntax error in HELLO option");
        }
    }
    if hello.role == Role::Unknown {
        return Err("NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the \
             RESP protocol version at the same time");
    }
    Ok(hello)
}

/// `RESET`: as if the client had just connected.
pub(super) fn reset(call: &Call<'_>, client: &mut Client, output: &mut Vec<u8>) {
    client.name.clear();
    (client.version, client.role) = (Version::default(), call.shared.access.at_first());
    Reply::new(output, client.version).status("RESET");
}

/// `SELECT 0`: there is one database.
pub(super) fn select(call: &Call<'_>, reply: &mut Reply<'_>) {
    let number = std::str::from_utf8(call.arguments.get(1)).ok().and_then(|text| text.parse::<i64>().ok());
    match number {
        Some(0) => reply.ok(),
        Some(_) => reply.error("ERR DB index is out of range"),
        None => reply.error("ERR value is not an integer or out of range"),
    }
}

const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

fn is_name(name: &[u8]) -> bool {
    name.iter().all(u8::is_ascii_graphic)
}

/// `CLIENT ID|INFO|GETNAME|SETNAME|SETINFO`.
pub(super) fn client(call: &Call<'_>, client: &mut Client, reply: &mut Reply<'_>) {
    let count = call.arguments.len();
    if call.is(1, "ID") && count == 2 {
        reply.integer(client.id as i64);
    } else if call.is(1, "INFO") && count == 2 {
        reply.text(format_args!("{client}\n"));
    } else if call.is(1, "GETNAME") && count == 2 {
        if client.name.is_empty() { reply.null() } else { reply.bulk(&client.name) }
    } else if call.is(1, "SETNAME") && count == 3 {
        let name = call.arguments.get(2);
        if is_name(name) {
            client.name = name.to_vec();
            reply.ok();
        } else {
            reply.error(BAD_NAME);
        }
    } else if call.is(1, "SETINFO") && count == 4 {
        // Taken note of by no one: it is the client library's name or version.
        let is_known = call.is(2, "LIB-NAME") || call.is(2, "LIB-VER");
        if is_known { reply.ok() } else { reply.error("ERR Unrecognized option") }
    } else {
        call.unknown_subcommand(reply);
    }
}

/// A client, as `CLIENT INFO` shows it.
impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "id={} addr=", self.id)?;
        match self.peer {
            Peer::Tcp(address) => address.fmt(f)?,
            Peer::Unix => f.write_str("unix:0")?,
        }
        let name = String::from_utf8_lossy(&self.name);
        let user = if self.role == Role::Admin { "admin" } else { "default" };
        let version = if self.version == Version::Resp3 { 3 } else { 2 };
        write!(f, " name={name} db=0 user={user} resp={version}")
    }
}

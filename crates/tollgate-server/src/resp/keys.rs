//! Commands on the keys of `CL.THROTTLE`. A key is there while it is in debt: until its TAT.

use std::time::Duration;

use tollgate::{CallQuota, Clock};

use super::access::Role;
use super::call::{Call, Effect};
use super::client::{Client, Next, Slow};
use super::reply::Reply;

/// What a time is told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

/// How long a key is still there; `None` if it is not.
fn debt(call: &Call<'_>, key: &[u8]) -> Option<Duration> {
    // So small a tolerance inherits no other key's debt: a key without a slot has none of its own.
    let quota = CallQuota::from_nanos(1, 1).ok()?.lend();
    let look = call.limiter.account(key).under(&quota).peek_n(0);
    Some(look.reset_after()).filter(|debt| !look.is_full() && !debt.is_zero())
}

/// `EXISTS key...`: how many are there, one that is named twice counting twice.
pub(super) fn exists(call: &Call<'_>, reply: &mut Reply<'_>) {
    let keys = call.arguments.from(1);
    reply.integer(keys.filter(|key| debt(call, key).is_some()).count() as i64);
}

/// `TTL` and `PTTL`: milliseconds rounded up; seconds rounded as in Redis.
pub(super) fn time_to_live(call: &Call<'_>, unit: Unit, reply: &mut Reply<'_>) {
    reply.integer(match debt(call, call.arguments.get(1)) {
        None => -2,
        Some(debt) => {
            let milliseconds = debt.as_nanos().div_ceil(1_000_000) as i64;
            if unit == Unit::Seconds { (milliseconds + 500) / 1000 } else { milliseconds }
        }
    });
}

/// `GET`: the TAT in nanoseconds since 1970, as redis-cell stores it.
pub(super) fn get(call: &Call<'_>, reply: &mut Reply<'_>) {
    let now = call.limiter.now();
    let Some(debt) = debt(call, call.arguments.get(1)) else { return reply.null() };
    let at_zero = call.shared.core.clock.unix_at_zero();
    reply.text((at_zero + Duration::from_nanos(now.as_nanos()) + debt).as_nanos());
}

/// `DEL` and `UNLINK`: how many were there.
pub(super) fn delete(call: &Call<'_>, reply: &mut Reply<'_>) {
    let delete = |key: &&[u8]| debt(call, key).is_some() && call.limiter.account(key).reset();
    reply.integer(call.arguments.from(1).filter(delete).count() as i64);
}

/// `DBSIZE`: how many keys are there.
pub(super) fn count() -> Effect {
    Effect::Then(Next::Slow(Slow::CountKeys))
}

/// `FLUSHALL`: for an admin.
pub(super) fn forget_all(call: &Call<'_>, client: &Client, reply: &mut Reply<'_>) -> Effect {
    if call.arguments.len() == 2 && !call.is(1, "SYNC") && !call.is(1, "ASYNC") {
        reply.error("ERR syntax error");
        return Effect::None;
    }
    if client.role != Role::Admin {
        reply.error("NOPERM this forgives all keys: it needs AUTH admin <password>, the admin password");
        return Effect::None;
    }
    Effect::Then(Next::Slow(Slow::ForgetKeys))
}

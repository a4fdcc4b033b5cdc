//! `TG.CHECK rule value... [COST n]` and `TG.PEEK`: a rule of the file, a value for each part of
//! its key, and the answer of `CL.THROTTLE`.

use std::time::Duration;

use tollgate_http::LONGEST_WAIT;
use tollgate_rules::{AskRule, AskRuleError, Key, Limit, Limits, Line, Rule, Ruling, Verdict};

use super::call::Call;
use super::reply::Reply;
use super::throttle::Five;
use crate::clock::ServerClock;
use crate::core::Decider;
use crate::metrics::{Listener, Metrics};

/// Answers either command.
///
/// A rule with `charge_if` is only looked at: a Redis client tells no status. What would have to
/// wait in a queue is refused, and not charged.
pub(super) fn answer(call: &Call<'_>, is_peek: bool, reply: &mut Reply<'_>) {
    let name = std::str::from_utf8(call.arguments.get(1)).unwrap_or_default();
    let mut decider = call.shared.core.decider();
    let Some(rule) = decider.handle().refresh().rule(name) else { return unknown(call, reply) };
    if counts_in_flight(rule) {
        return reply.error("ERR the rule limits requests in flight, which a Redis client cannot end");
    }
    if rule.store.is_some() {
        return reply.error("ERR a store keeps the counts of the rule: ask over HTTP or gRPC");
    }
    let is_peek = is_peek || rule.charge_if.is_some();
    let parts = match &rule.key {
        Key::Everyone => 1,
        Key::Attributes(parts) => parts.len(),
    };
    // A value may be `COST`: the key says how many there are.
    let after = 2 + parts;
    let cost = match call.arguments.len() {
        length if length == after => None,
        length if length == after + 2 && call.is(after, "COST") => {
            let text = std::str::from_utf8(call.arguments.get(after + 1)).ok();
            let Some(cost) = text.and_then(|text| text.parse::<u64>().ok()) else {
                return reply.error("ERR value is not an integer or out of range");
            };
            Some(cost)
        }
        _ => return wrong_syntax(&rule.key, reply),
    };
    let values = |number: usize| call.arguments.get(2 + number);
    let mut few = [&[][..]; 4];
    let many: Vec<&[u8]>;
    let key = if parts <= few.len() {
        few.iter_mut().take(parts).enumerate().for_each(|(number, value)| *value = values(number));
        &few[..parts]
    } else {
        many = (0..parts).map(values).collect();
        &many
    };
    match five(&mut decider, call, AskRule { name, key, cost, is_peek }) {
        Ok(five) => reply.five(five),
        Err(AskRuleError::NoRule) => unknown(call, reply),
        Err(error) => reply.error(format_args!("ERR {error}")),
    }
}

fn wrong_syntax(key: &Key, reply: &mut Reply<'_>) {
    let values = match key {
        Key::Attributes(parts) if parts.len() > 1 => {
            let parts: Vec<_> = parts.iter().map(ToString::to_string).collect();
            format!("a value for each of {}", parts.join(", "))
        }
        _ => "key".to_owned(),
    };
    reply.error(format_args!("ERR syntax error: write rule, {values}, and maybe COST and a number"));
}

fn unknown(call: &Call<'_>, reply: &mut Reply<'_>) {
    let name = call.arguments.get(1);
    reply.error_about("ERR no such rule: ", &name[..name.len().min(128)]);
}

fn counts_in_flight(rule: &Rule) -> bool {
    let Limits::Each(limits) = &rule.limits else { return false };
    limits.iter().any(|limit| matches!(limit, Limit::InFlight { .. }))
}

fn five(decider: &mut Decider, call: &Call<'_>, ask: AskRule<'_>) -> Result<Five, AskRuleError> {
    let metrics = &call.shared.core.metrics;
    if may_queue(decider.handle().refresh().rule(ask.name).ok_or(AskRuleError::NoRule)?) {
        let look = decider.ask_rule(AskRule { is_peek: true, ..ask })?;
        if ask.is_peek || !look.is_admitted() || !look.delay().is_zero() {
            return Ok(told(metrics, &look));
        }
    }
    let verdict = decider.ask_rule(ask)?;
    let five = told(metrics, &verdict);
    if verdict.is_admitted() && !verdict.delay().is_zero() {
        // Another request came in between.
        verdict.cancel();
    }
    Ok(five)
}

fn may_queue(rule: &Rule) -> bool {
    let Limits::Each(limits) = &rule.limits else { return false };
    limits.iter().any(|limit| matches!(limit, Limit::Quota(quota) if quota.is_queue()))
}

fn told(metrics: &Metrics, verdict: &Verdict<'_, ServerClock>) -> Five {
    metrics.decided(Listener::Resp, verdict);
    let Some(line) = verdict.lines().first() else {
        // The rule does not concern a request without a key.
        return [0, i64::MAX, i64::MAX, -1, 0];
    };
    if verdict.is_admitted() && !verdict.delay().is_zero() {
        return refused_to_wait(line, verdict.delay());
    }
    let retry_after = verdict.retry_after().map_or(-1, seconds);
    let limited = i64::from(verdict.outcome() != Ruling::Admitted);
    [limited, number(line.limit), number(line.remaining), retry_after, seconds(line.reset_after)]
}

fn refused_to_wait(line: &Line, delay: Duration) -> Five {
    [1, number(line.limit), 0, seconds(delay), seconds(line.reset_after)]
}

/// Whole seconds, rounded up: a client that waits so long is not refused again.
fn seconds(time: Duration) -> i64 {
    let time = time.min(LONGEST_WAIT);
    number(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

//! Rules that a listener cannot keep.

use tollgate_rules::Rules;
use tollgate_rules_file::{Listener as Asking, Problem};

use crate::metrics::Listener;

/// What to warn of where this listener is open: each mistake once, although `http` is asked in two
/// ways. `parks` says whether there is a file for requests that are kept for later.
pub(crate) fn unserved(rules: &Rules, listener: Listener, parks: bool) -> Vec<Problem> {
    let ways: &[Asking] = match listener {
        Listener::Http => &[Asking::Check, Asking::Auth],
        Listener::Grpc => &[Asking::RateLimitService],
        Listener::Resp => &[Asking::Redis],
        Listener::Proxy if !parks => &[Asking::ProxyWithoutPark],
        // The proxy serves the requests itself.
        Listener::Admin | Listener::Proxy => &[],
    };
    let mut problems: Vec<Problem> = Vec::new();
    for problem in ways.iter().flat_map(|&way| tollgate_rules_file::unserved(rules, way)) {
        if problems.iter().all(|known| known.message != problem.message) {
            problems.push(problem);
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use tollgate_rules_file::{Memory, read};

    use super::*;

    #[test]
    fn each_listener_warns_of_what_it_cannot_keep() {
        let text = "version = 1
            rule = [
                { name = 'failed', key = 'client', limits = '5/min', charge_if.status = [401] },
                { name = 'exports', key = 'client', limits = 'in-flight:2' },
                { name = 'plain', key = 'client', limits = '5/min' },
                { name = 'later', key = 'client', limits = '5/min', on_refusal = 'park' },
            ]";
        let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
        for (listener, warned) in [
            (Listener::Http, &["`exports`", "`later`", "`failed`"][..]),
            (Listener::Grpc, &["`failed`", "`exports`", "`later`"]),
            (Listener::Resp, &["`failed`", "`exports`", "`later`"]),
            (Listener::Proxy, &["`later`"]),
            (Listener::Admin, &[]),
        ] {
            let problems = unserved(&rules, listener, false);
            let named = problems.iter().map(|problem| problem.message.split(' ').next().unwrap());
            assert_eq!(named.collect::<Vec<_>>(), warned, "{}", listener.name());
        }
        assert!(unserved(&rules, Listener::Proxy, true).is_empty());
    }
}

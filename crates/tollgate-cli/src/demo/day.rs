//! The requests of the made-up day in the order of time.
//!
//! Visits overlap, so a heap holds the requests that are made but not yet due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Request;
use super::personas::{HOUR, Personas, SECOND, SLOT};

/// 2026-01-15T00:00:00Z.
const MIDNIGHT: u64 = 1_768_435_200 * SECOND;
const DAY: u64 = 24 * HOUR;

/// The requests of the day that a seed determines, in the order of time.
pub(crate) fn day(seed: u64) -> impl Iterator<Item = Request> {
    Day { personas: Personas::new(seed), slot: 0, pending: BinaryHeap::new() }
}

struct Day {
    personas: Personas,
    /// When the next slot begins, in nanoseconds of the day. `pending` has all earlier requests.
    slot: u64,
    pending: BinaryHeap<Reverse<Request>>,
}

impl Iterator for Day {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        loop {
            match self.pending.peek() {
                // A late visit goes on after midnight; those requests are not part of this day.
                Some(Reverse(request)) if request.t_ns >= DAY => return None,
                Some(Reverse(request)) if request.t_ns < self.slot => break,
                None if self.slot >= DAY => return None,
                _ => {
                    let pending = &mut self.pending;
                    self.personas.requests_from(self.slot, |request| pending.push(Reverse(request)));
                    self.slot += SLOT;
                }
            }
        }
        let Reverse(request) = self.pending.pop()?;
        Some(Request { t_ns: MIDNIGHT + request.t_ns, ..request })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};
    use std::net::IpAddr;

    use super::super::personas::{
        ASSAULT, ASSAULTS, BRUTE_FORCER, CRAWL, CRAWLER, CROWD, FLASH, MINUTE, PEOPLE,
    };
    use super::*;

    const SEED: u64 = 1;

    /// The key of `--key client`: the address, or for IPv6 its /64.
    fn key(client: IpAddr) -> IpAddr {
        match client {
            IpAddr::V4(_) => client,
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        }
    }

    fn in_crowd(client: IpAddr) -> bool {
        matches!(client, IpAddr::V6(address) if address.segments()[2] == 0xf1a5)
    }

    #[test]
    fn a_seed_always_makes_the_same_day() {
        assert!(day(SEED).eq(day(SEED)));
        assert!(day(SEED).ne(day(SEED + 1)));
    }

    #[test]
    fn requests_come_in_order_within_one_day() {
        let times: Vec<u64> = day(SEED).map(|request| request.t_ns).collect();
        assert!(times.is_sorted());
        assert!(times.iter().all(|t| (MIDNIGHT..MIDNIGHT + DAY).contains(t)));
        assert!((200_000..300_000).contains(&times.len()), "{}", times.len());
    }

    #[test]
    fn every_address_is_reserved_for_documentation() {
        let documented = |client| match client {
            IpAddr::V4(address) => address.is_documentation(),
            IpAddr::V6(address) => address.segments()[..2] == [0x2001, 0xdb8],
        };
        assert!(day(SEED).all(|request| documented(request.client)));
    }

    #[test]
    fn the_brute_forcer_tries_six_passwords_a_second_in_bursts() {
        let tries: Vec<Request> = day(SEED).filter(|request| request.client == BRUTE_FORCER).collect();
        let rate = tries.len() as f64 / (ASSAULTS.len() as u64 * ASSAULT / SECOND) as f64;
        assert!((5.8..6.2).contains(&rate), "{rate}");
        assert!(tries.iter().all(|request| request.method == "POST" && request.path.to_string() == "/login"));
    }

    #[test]
    fn the_crawler_requests_two_or_three_pages_a_second() {
        let mut by_minute = HashMap::new();
        for request in day(SEED).filter(|request| request.client == CRAWLER) {
            *by_minute.entry((request.t_ns - MIDNIGHT) / MINUTE).or_insert(0_u32) += 1;
        }
        assert_eq!(by_minute.len() as u64, (CRAWL.1 - CRAWL.0) / MINUTE);
        assert!(by_minute.values().all(|pages| (90..220).contains(pages)));
    }

    #[test]
    fn the_crowd_comes_within_a_minute() {
        let crowd: Vec<Request> = day(SEED).filter(|request| in_crowd(request.client)).collect();
        let members: HashSet<IpAddr> = crowd.iter().map(|request| key(request.client)).collect();
        assert_eq!(members.len(), CROWD as usize);
        let (start, end) = (MIDNIGHT + FLASH, MIDNIGHT + FLASH + MINUTE + 2 * SECOND);
        assert!(crowd.iter().all(|request| (start..end).contains(&request.t_ns)));
    }

    #[test]
    fn ordinary_clients_are_many_and_come_mostly_by_day() {
        let (mut requests, mut by_hour) = (HashMap::new(), [0_u32; 24]);
        for request in day(SEED) {
            if ![BRUTE_FORCER, CRAWLER].contains(&request.client) && !in_crowd(request.client) {
                *requests.entry(key(request.client)).or_insert(0_u32) += 1;
                by_hour[((request.t_ns - MIDNIGHT) / HOUR) as usize] += 1;
            }
        }
        assert!((PEOPLE as usize * 9 / 10..=PEOPLE as usize).contains(&requests.len()));
        let (busiest, total) = (requests.values().max().unwrap(), requests.values().sum::<u32>());
        assert!((0.08..0.16).contains(&(f64::from(*busiest) / f64::from(total))));
        assert!(by_hour[20] > 8 * by_hour[3]);
    }

    /// The limit of the first example in the manual: 60 a minute, burst 20.
    #[test]
    fn a_token_bucket_stops_brute_force_and_crawler_only() {
        let mut buckets: HashMap<IpAddr, (f64, u64)> = HashMap::new();
        let mut seen: HashMap<&str, (u32, u32)> = HashMap::new();
        for request in day(SEED) {
            let (tokens, last) = buckets.entry(key(request.client)).or_insert((20.0, request.t_ns));
            *tokens = (*tokens + (request.t_ns - *last) as f64 / SECOND as f64).min(20.0);
            *last = request.t_ns;
            let allowed = *tokens >= 1.0;
            *tokens -= f64::from(u8::from(allowed));
            let persona = match request.client {
                BRUTE_FORCER => "brute force",
                CRAWLER => "crawler",
                client if in_crowd(client) => "crowd",
                _ => "people",
            };
            let (requests, refused) = seen.entry(persona).or_default();
            *requests += 1;
            *refused += u32::from(!allowed);
        }
        let share = |persona: &str| f64::from(seen[persona].1) / f64::from(seen[persona].0);
        assert!((0.75..0.90).contains(&share("brute force")), "{seen:?}");
        assert!((0.50..0.70).contains(&share("crawler")), "{seen:?}");
        assert!(share("crowd") < 0.001, "{seen:?}");
        assert!(share("people") < 0.005, "{seen:?}");
    }
}

//! The clients of the made-up day: who they are, when they come, and what they request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Path, Request};
use crate::random::{SplitMix64, Zipf};

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const MINUTE: u64 = 60 * SECOND;
pub(super) const HOUR: u64 = 60 * MINUTE;
const MILLISECOND: u64 = 1_000_000;

/// The day is made slot by slot; every persona may begin requests in each slot.
pub(super) const SLOT: u64 = 100 * MILLISECOND;

/// How many ordinary clients there are.
pub(super) const PEOPLE: u32 = 3_000;
/// How many clients come with the flash crowd, once each.
pub(super) const CROWD: u32 = 1_500;

pub(super) const BRUTE_FORCER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 66));
pub(super) const CRAWLER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 23));

/// When the brute-forcer begins to try passwords, for [`ASSAULT`] each time.
pub(super) const ASSAULTS: [u64; 7] = [
    HOUR + 10 * MINUTE,
    HOUR + 45 * MINUTE,
    2 * HOUR + 30 * MINUTE,
    3 * HOUR + 5 * MINUTE,
    4 * HOUR + 40 * MINUTE,
    5 * HOUR + 20 * MINUTE,
    22 * HOUR + 15 * MINUTE,
];
pub(super) const ASSAULT: u64 = 8 * MINUTE;
/// From when to when the crawler crawls.
pub(super) const CRAWL: (u64, u64) = (8 * HOUR + 30 * MINUTE, 14 * HOUR + 30 * MINUTE);
/// When the flash crowd begins to come; all of it comes within a minute.
pub(super) const FLASH: u64 = 20 * HOUR;

/// In how many of a million slots an ordinary client begins a visit, hour by hour.
const VISITS_PER_MILLION: [u64; 24] = [
    22_000, 15_000, 11_000, 9_000, 9_000, 13_000, 24_000, 42_000, 62_000, 74_000, 80_000, 83_000, 86_000,
    84_000, 80_000, 78_000, 80_000, 86_000, 98_000, 112_000, 116_000, 98_000, 66_000, 38_000,
];

/// How many of a million pages are galleries.
const GALLERIES_PER_MILLION: u64 = 1_500;

const PAGES: [&str; 6] = ["/", "/search", "/cart", "/about", "/help", "/account"];
const ASSETS: [&str; 5] =
    ["/static/app.js", "/static/app.css", "/static/logo.svg", "/api/session", "/api/cart"];

/// One line about each persona, printed above the outcome.
pub(crate) fn introductions() -> [String; 4] {
    let (from, to) = (CRAWL.0 / MINUTE, CRAWL.1 / MINUTE);
    [
        format!(
            "{PEOPLE} ordinary clients: a few busy, most seldom seen; rarely one opens a gallery of pictures"
        ),
        format!(
            "{BRUTE_FORCER} tries passwords: POST /login, 6 a second, {} times for 8 minutes",
            ASSAULTS.len()
        ),
        format!(
            "{CRAWLER} crawls the archive, 2.5 pages a second from {:02}:{:02} to {:02}:{:02} UTC",
            from / 60,
            from % 60,
            to / 60,
            to % 60
        ),
        format!(
            "{CROWD} newcomers (2001:db8:f1a5::/48) follow a link within the minute after {:02}:00 UTC",
            FLASH / HOUR
        ),
    ]
}

/// All personas, and the random numbers that decide what they do.
#[derive(Debug, Clone)]
pub(super) struct Personas {
    random: SplitMix64,
    popularity: Zipf,
}

impl Personas {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: SplitMix64::new(seed), popularity: Zipf::harmonic(PEOPLE) }
    }

    /// Gives to `request` what begins in the slot that starts at `slot`, in nanoseconds of the day.
    ///
    /// A visit goes on in later slots. No request is earlier than `slot`.
    pub(super) fn requests_from(&mut self, slot: u64, mut request: impl FnMut(Request)) {
        self.people(slot, &mut request);
        self.brute_forcer(slot, &mut request);
        self.crawler(slot, &mut request);
        self.crowd(slot, &mut request);
    }

    fn people(&mut self, slot: u64, request: &mut impl FnMut(Request)) {
        if !self.random.chance(visits_per_million(slot)) {
            return;
        }
        let rank = self.popularity.sample(&mut self.random);
        let client = self.person(rank);
        let mut t_ns = slot + self.random.below(SLOT);
        loop {
            let path = match self.random.below(3) {
                0 => plain(self.random.choose(&PAGES)),
                _ => numbered("/products/", 1 + self.random.below(400)),
            };
            // A gallery loads all its pictures at once: a limit's burst must be large enough for
            // it.
            let is_gallery = self.random.chance(GALLERIES_PER_MILLION);
            let assets = if is_gallery { 20 + self.random.below(20) } else { self.random.below(4) };
            t_ns = self.page(Request { t_ns, client, method: "GET", path }, assets, request);
            if !self.random.chance(350_000) {
                return;
            }
            t_ns += 5 * SECOND + self.random.below(60 * SECOND);
        }
    }

    /// Requests a page and so many assets; returns the time of the last request.
    fn page(&mut self, page: Request, assets: u64, request: &mut impl FnMut(Request)) -> u64 {
        request(page);
        let mut t_ns = page.t_ns;
        for _ in 0..assets {
            t_ns += 20 * MILLISECOND + self.random.below(250 * MILLISECOND);
            request(Request { t_ns, path: plain(self.random.choose(&ASSETS)), ..page });
        }
        t_ns
    }

    fn brute_forcer(&mut self, slot: u64, request: &mut impl FnMut(Request)) {
        let is_active = ASSAULTS.iter().any(|&start| (start..start + ASSAULT).contains(&slot));
        if is_active && self.random.chance(600_000) {
            let t_ns = slot + self.random.below(SLOT);
            request(Request { t_ns, client: BRUTE_FORCER, method: "POST", path: plain("/login") });
        }
    }

    fn crawler(&mut self, slot: u64, request: &mut impl FnMut(Request)) {
        if (CRAWL.0..CRAWL.1).contains(&slot) && self.random.chance(250_000) {
            let t_ns = slot + self.random.below(SLOT);
            let path = numbered("/archive/", 1 + (slot - CRAWL.0) / (4 * SLOT));
            request(Request { t_ns, client: CRAWLER, method: "GET", path });
        }
    }

    fn crowd(&mut self, slot: u64, request: &mut impl FnMut(Request)) {
        const SLOTS: u64 = MINUTE / SLOT;
        let Some(slots_before) = slot.checked_sub(FLASH).map(|since| since / SLOT) else { return };
        if slots_before >= SLOTS {
            return;
        }
        let arrived = |slots: u64| u64::from(CROWD) * slots / SLOTS;
        for newcomer in arrived(slots_before)..arrived(slots_before + 1) {
            let prefix = [0x2001, 0xdb8, 0xf1a5, newcomer as u16];
            let client = self.address_in(prefix);
            let t_ns = slot + self.random.below(SLOT);
            let page = Request { t_ns, client, method: "GET", path: plain("/offers/launch") };
            let assets = self.random.below(4);
            self.page(page, assets, request);
        }
    }

    /// The ordinary client of a rank. Every sixth comes by IPv4, the others by IPv6.
    fn person(&mut self, rank: u32) -> IpAddr {
        if rank.is_multiple_of(6) {
            let number = rank / 6;
            let host = (number % 250 + 1) as u8;
            let network = if number < 250 { [192, 0, 2] } else { [203, 0, 113] };
            return Ipv4Addr::new(network[0], network[1], network[2], host).into();
        }
        self.address_in([0x2001, 0xdb8, 0x1, rank as u16])
    }

    /// A random address within a /64.
    fn address_in(&mut self, [a, b, c, d]: [u16; 4]) -> IpAddr {
        let mut part = || self.random.below(1 << 16) as u16;
        Ipv6Addr::new(a, b, c, d, part(), part(), part(), part()).into()
    }
}

/// [`VISITS_PER_MILLION`] at this time of day, interpolated between the hours.
fn visits_per_million(slot: u64) -> u64 {
    let (hour, into) = ((slot / HOUR) as usize, slot % HOUR);
    let (now, next) = (VISITS_PER_MILLION[hour % 24], VISITS_PER_MILLION[(hour + 1) % 24]);
    (now * (HOUR / SECOND - into / SECOND) + next * (into / SECOND)) / (HOUR / SECOND)
}

fn plain(stem: &'static str) -> Path {
    Path { stem, number: None }
}

fn numbered(stem: &'static str, number: u64) -> Path {
    Path { stem, number: Some(number as u32) }
}

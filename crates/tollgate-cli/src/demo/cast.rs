//! The characters of the day: who they are, when they come, and what they do in a tenth of a second.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::dice::{Dice, Zipf};
use super::{Path, Request};

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const MINUTE: u64 = 60 * SECOND;
pub(super) const HOUR: u64 = 60 * MINUTE;
const MILLISECOND: u64 = 1_000_000;

/// A day goes by in slots of this length; in each, every character may act.
pub(super) const SLOT: u64 = 100 * MILLISECOND;

/// How many ordinary clients there are.
pub(super) const PEOPLE: u32 = 3_000;
/// How many clients come with the flash crowd, each once.
pub(super) const CROWD: u32 = 1_500;

pub(super) const BRUTE_FORCER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 66));
pub(super) const CRAWLER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 23));

/// When the brute-forcer tries passwords: from these times on, for `ASSAULT` each.
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
/// When the crawler crawls.
pub(super) const CRAWL: (u64, u64) = (8 * HOUR + 30 * MINUTE, 14 * HOUR + 30 * MINUTE);
/// When the crowd comes, all within a minute.
pub(super) const FLASH: u64 = 20 * HOUR;

/// Visits of ordinary clients in a million slots, hour by hour.
const VISITS: [u64; 24] = [
    22_000, 15_000, 11_000, 9_000, 9_000, 13_000, 24_000, 42_000, 62_000, 74_000, 80_000, 83_000, 86_000,
    84_000, 80_000, 78_000, 80_000, 86_000, 98_000, 112_000, 116_000, 98_000, 66_000, 38_000,
];

/// Pages in a million that are galleries.
const GALLERIES: u64 = 1_500;

const PAGES: [&str; 6] = ["/", "/search", "/cart", "/about", "/help", "/account"];
const ASSETS: [&str; 5] =
    ["/static/app.js", "/static/app.css", "/static/logo.svg", "/api/session", "/api/cart"];

/// Who is who, one line each, for whoever looks at the outcome.
pub(crate) fn story() -> [String; 4] {
    let (from, to) = (CRAWL.0 / MINUTE, CRAWL.1 / MINUTE);
    [
        format!(
            "{PEOPLE} ordinary clients, a few of them busy, most seldom seen, now and then one in a gallery of pictures"
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

/// All characters, and the dice that decide for them.
#[derive(Debug, Clone)]
pub(super) struct Cast {
    dice: Dice,
    popularity: Zipf,
}

impl Cast {
    pub(super) fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed), popularity: Zipf::new(PEOPLE) }
    }

    /// What everybody does from `slot` on, in nanoseconds of the day: requests in this slot and, where
    /// a visit goes on, in later ones. Never in earlier ones.
    pub(super) fn act(&mut self, slot: u64, mut request: impl FnMut(Request)) {
        self.people(slot, &mut request);
        self.brute_forcer(slot, &mut request);
        self.crawler(slot, &mut request);
        self.crowd(slot, &mut request);
    }

    fn people(&mut self, slot: u64, request: &mut impl FnMut(Request)) {
        if !self.dice.happens(visits(slot)) {
            return;
        }
        let rank = self.popularity.roll(&mut self.dice);
        let client = self.person(rank);
        let mut t_ns = slot + self.dice.below(SLOT);
        loop {
            let path = match self.dice.below(3) {
                0 => plain(self.dice.one_of(&PAGES)),
                _ => numbered("/products/", 1 + self.dice.below(400)),
            };
            // Hardly ever it is a gallery, and its pictures come all at once: the honest client that a
            // burst must be large enough for.
            let gallery = self.dice.happens(GALLERIES);
            let loads = if gallery { 20 + self.dice.below(20) } else { self.dice.below(4) };
            t_ns = self.page(Request { t_ns, client, method: "GET", path }, loads, request);
            if !self.dice.happens(350_000) {
                return;
            }
            t_ns += 5 * SECOND + self.dice.below(60 * SECOND);
        }
    }

    /// A page and the so many things it loads; the time of the last of it.
    fn page(&mut self, page: Request, loads: u64, request: &mut impl FnMut(Request)) -> u64 {
        request(page);
        let mut t_ns = page.t_ns;
        for _ in 0..loads {
            t_ns += 20 * MILLISECOND + self.dice.below(250 * MILLISECOND);
            request(Request { t_ns, path: plain(self.dice.one_of(&ASSETS)), ..page });
        }
        t_ns
    }

    fn brute_forcer(&mut self, slot: u64, request: &mut impl FnMut(Request)) {
        let at_work = ASSAULTS.iter().any(|&start| (start..start + ASSAULT).contains(&slot));
        if at_work && self.dice.happens(600_000) {
            let t_ns = slot + self.dice.below(SLOT);
            request(Request { t_ns, client: BRUTE_FORCER, method: "POST", path: plain("/login") });
        }
    }

    fn crawler(&mut self, slot: u64, request: &mut impl FnMut(Request)) {
        if (CRAWL.0..CRAWL.1).contains(&slot) && self.dice.happens(250_000) {
            let t_ns = slot + self.dice.below(SLOT);
            let path = numbered("/archive/", 1 + (slot - CRAWL.0) / (4 * SLOT));
            request(Request { t_ns, client: CRAWLER, method: "GET", path });
        }
    }

    fn crowd(&mut self, slot: u64, request: &mut impl FnMut(Request)) {
        const SLOTS: u64 = MINUTE / SLOT;
        let Some(place) = slot.checked_sub(FLASH).map(|since| since / SLOT).filter(|&place| place < SLOTS)
        else {
            return;
        };
        let arrived = |slots: u64| u64::from(CROWD) * slots / SLOTS;
        for newcomer in arrived(place)..arrived(place + 1) {
            let prefix = [0x2001, 0xdb8, 0xf1a5, newcomer as u16];
            let client = self.somewhere_in(prefix);
            let t_ns = slot + self.dice.below(SLOT);
            let page = Request { t_ns, client, method: "GET", path: plain("/offers/launch") };
            let loads = self.dice.below(4);
            self.page(page, loads, request);
        }
    }

    /// The ordinary client of a rank: every sixth by IPv4, the others by IPv6.
    fn person(&mut self, rank: u32) -> IpAddr {
        if rank.is_multiple_of(6) {
            let number = rank / 6;
            let host = (number % 250 + 1) as u8;
            let network = if number < 250 { [192, 0, 2] } else { [203, 0, 113] };
            return Ipv4Addr::new(network[0], network[1], network[2], host).into();
        }
        self.somewhere_in([0x2001, 0xdb8, 0x1, rank as u16])
    }

    /// An address within a /64, another one each time.
    fn somewhere_in(&mut self, [a, b, c, d]: [u16; 4]) -> IpAddr {
        let mut part = || self.dice.below(1 << 16) as u16;
        Ipv6Addr::new(a, b, c, d, part(), part(), part(), part()).into()
    }
}

/// How many slots in a million begin a visit at this time of day: the hours, joined by straight lines.
fn visits(slot: u64) -> u64 {
    let (hour, into) = ((slot / HOUR) as usize, slot % HOUR);
    let (now, next) = (VISITS[hour % 24], VISITS[(hour + 1) % 24]);
    (now * (HOUR / SECOND - into / SECOND) + next * (into / SECOND)) / (HOUR / SECOND)
}

fn plain(stem: &'static str) -> Path {
    Path { stem, number: None }
}

fn numbered(stem: &'static str, number: u64) -> Path {
    Path { stem, number: Some(number as u32) }
}

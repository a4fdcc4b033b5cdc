//! What the programs are: lines of verbs, drawn at random and relative to the limits.

mod mended;

use std::fmt;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{Inherit, WhenFull};
use tollgate_testing::limits::Kind;

use super::engine::{KEYS, Room, Sort, Way};
use super::limits::{Limit, limit};

/// A limiter, and the verbs that it is asked for.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) sort: Sort,
    pub(crate) room: Room,
    pub(crate) limits: Vec<Limit>,
    pub(crate) lines: Vec<Line>,
}

/// The clock moves, then something is done.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) go: Go,
    pub(crate) key: usize,
    /// Of a keyed limiter, modulo how many there are.
    pub(crate) tier: usize,
    pub(crate) verb: Verb,
    /// At which reading of the clock in it others are run.
    pub(crate) within: Option<(usize, Vec<Inner>)>,
}

/// What the clock does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Go {
    Stay,
    /// Eighths of the nanoseconds of the first limit, and a few more or less.
    Ahead(u64, i64),
    Back(u64, i64),
    /// To when the last refusal said, or so many nanoseconds before.
    Retry(u64),
}

/// How much is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    Units(u64),
    /// All of the tightest limit, and so many more.
    All(u64),
    /// What a peek says is left, at least 1.
    Left,
}

#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Check(Cost, Way),
    Peek(Cost),
    /// One of the receipts, counted from the newest. The other picks count alike.
    Refund(usize),
    Part(usize, u64),
    /// Offers a receipt to a limiter that was restored from a file of this one.
    Foreign(usize),
    /// Within eighths of what the first limit takes to recover.
    Reserve(Cost, u64),
    Cancel(usize),
    /// A reservation as a future.
    Wait(Cost, u64),
    /// Polls all futures.
    Poll,
    Leave(usize),
    /// Permits, and the time to live in eighths of the first limit's nanoseconds.
    Lease(u64, u64),
    Spend(usize, Cost),
    Release(usize),
    EndLease(usize),
    Batch(Vec<usize>),
    Joint(Joint),
    /// What there is, at most so much.
    UpTo(Cost),
    Debit(Cost),
    Credit(Cost),
    Reset,
    Change(Change),
    Restore,
    /// Many other keys, where there is no room for all of them.
    Strangers,
    /// A refund by one of the receipts, or a credit, in which the clock panics.
    Panics(Option<usize>),
    /// Until no key is in debt.
    Expire,
}

/// A joint charge.
#[derive(Clone, Debug)]
pub(crate) struct Joint {
    /// Which key, counted from that of the line; under which tier; and how much.
    pub(crate) parts: Vec<(usize, usize, Cost)>,
    /// After how many charges the caller refuses.
    pub(crate) refuses: Option<usize>,
    pub(crate) way: Way,
    /// How many readings of the clock later others are run in it.
    pub(crate) pause: usize,
}

/// Other numbers for the limits, of which there may be fewer; none: as they are.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) numbers: Vec<(u64, u64)>,
    pub(crate) only: Option<usize>,
    pub(crate) inherit: Inherit,
}

/// An operation in the middle of a verb.
#[derive(Clone, Debug)]
pub(crate) enum Inner {
    Check(usize, Cost),
    Refund(usize),
    Reset(usize),
    UpTo(usize, Cost),
    Debit(usize, Cost),
    Credit(usize, Cost),
    Change(Change),
    /// The clock goes ahead, by eighths of the first limit's nanoseconds: only in a check by one
    /// limit.
    Ahead(u64),
}

/// The most limits of a program.
const MOST_LIMITS: usize = 3;

impl Program {
    /// Whether a refusal needs a debt.
    pub(crate) fn is_roomy(&self) -> bool {
        !matches!(self.room, Room::Full(_))
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}, {:?}", self.sort, self.room, self.limits)?;
        for (number, Line { go, key, tier, verb, within }) in self.lines.iter().enumerate() {
            write!(f, "\n  {:>2}. {go:?}: key {key}, tier {tier}: {verb:?}", number + 1)?;
            if let Some((reading, inner)) = within {
                write!(f, ", at reading {reading} of the clock: {inner:?}")?;
            }
        }
        Ok(())
    }
}

fn go(clock: Time) -> BoxedStrategy<Go> {
    if clock == Time::StandsStill {
        return Just(Go::Stay).boxed();
    }
    let eighths = || prop_oneof![3 => 0_u64..17, 1 => 0_u64..100];
    let nudge = || prop_oneof![3 => Just(0_i64), 1 => -1_i64..=1];
    let ahead = (eighths(), nudge()).prop_map(|(eighths, nudge)| Go::Ahead(eighths, nudge));
    let ahead = prop_oneof![7 => Just(Go::Stay), 4 => ahead, 1 => Just(Go::Retry(0))];
    if clock == Time::GoesAhead {
        return ahead.boxed();
    }
    prop_oneof![6 => ahead, 1 => (eighths(), nudge()).prop_map(|(eighths, nudge)| Go::Back(eighths, nudge))]
        .boxed()
}

fn cost() -> BoxedStrategy<Cost> {
    prop_oneof![6 => (1_u64..5).prop_map(Cost::Units), 3 => Just(Cost::All(0)), 1 => (0_u64..2).prop_map(Cost::All),
        1 => Just(Cost::Units(0)), 2 => Just(Cost::Left)]
    .boxed()
}

fn change() -> impl Strategy<Value = Change> {
    let numbers = (1_u64..25, prop_oneof![1_u64..5, Just(1_000), Just(1_000_000_000), 1_u64..5_000]);
    let inherit = select(vec![Inherit::AsIs, Inherit::Proportional, Inherit::Additive, Inherit::Reset]);
    let numbers = prop_oneof![3 => prop::collection::vec(numbers, MOST_LIMITS), 1 => Just(Vec::new())];
    (numbers, any::<Option<bool>>(), inherit).prop_map(|(numbers, only, inherit)| Change {
        numbers,
        only: only.map(usize::from),
        inherit,
    })
}

fn joint() -> impl Strategy<Value = Verb> {
    let part = (prop_oneof![2 => Just(0), 1 => 0..KEYS], 0..2_usize, cost());
    let parts = prop::collection::vec(part, 1..4);
    let refuses = prop_oneof![Just(None), (0_usize..3).prop_map(Some)];
    let way = select(vec![Way::Plain, Way::At]);
    (parts, refuses, way, 0_usize..8)
        .prop_map(|(parts, refuses, way, pause)| Verb::Joint(Joint { parts, refuses, way, pause }))
}

fn way() -> impl Strategy<Value = Way> {
    select(vec![Way::Plain, Way::At, Way::Prepared])
}

fn verb(room: Room) -> BoxedStrategy<Verb> {
    let strangers = if room == Room::Enough { 1 } else { 4 };
    prop_oneof![
        10 => (cost(), way()).prop_map(|(cost, way)| Verb::Check(cost, way)),
        1 => cost().prop_map(Verb::Peek),
        3 => (0_usize..4).prop_map(Verb::Refund),
        4 => (0_usize..4, 1_u64..4).prop_map(|(pick, units)| Verb::Part(pick, units)),
        1 => (0_usize..4).prop_map(Verb::Foreign),
        3 => (cost(), 0_u64..40).prop_map(|(cost, wait)| Verb::Reserve(cost, wait)),
        3 => (0_usize..4).prop_map(Verb::Cancel),
        2 => (cost(), 0_u64..40).prop_map(|(cost, wait)| Verb::Wait(cost, wait)),
        1 => Just(Verb::Poll),
        1 => (0_usize..4).prop_map(Verb::Leave),
        2 => (1_u64..6, 0_u64..20).prop_map(|(permits, ttl)| Verb::Lease(permits, ttl)),
        5 => (0_usize..3, cost()).prop_map(|(pick, cost)| Verb::Spend(pick, cost)),
        1 => (0_usize..3).prop_map(Verb::Release),
        2 => (0_usize..3).prop_map(Verb::EndLease),
        2 => prop::collection::vec(0..KEYS, 1..5).prop_map(Verb::Batch),
        7 => joint(),
        3 => cost().prop_map(Verb::UpTo),
        2 => cost().prop_map(Verb::Debit),
        3 => cost().prop_map(Verb::Credit),
        3 => Just(Verb::Reset),
        3 => change().prop_map(Verb::Change),
        1 => Just(Verb::Restore),
        1 => prop::option::of(0_usize..4).prop_map(Verb::Panics),
        1 => Just(Verb::Expire),
        strangers => Just(Verb::Strangers),
    ]
    .boxed()
}

/// What the clock does in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    StandsStill,
    GoesAhead,
    StepsBack,
}

fn inner() -> impl Strategy<Value = Inner> {
    prop_oneof![
        4 => (0..KEYS, cost()).prop_map(|(key, cost)| Inner::Check(key, cost)),
        2 => (0_usize..4).prop_map(Inner::Refund),
        3 => (0..KEYS).prop_map(Inner::Reset),
        1 => (0..KEYS, cost()).prop_map(|(key, cost)| Inner::UpTo(key, cost)),
        1 => (0..KEYS, cost()).prop_map(|(key, cost)| Inner::Debit(key, cost)),
        2 => (0..KEYS, cost()).prop_map(|(key, cost)| Inner::Credit(key, cost)),
        1 => change().prop_map(Inner::Change),
        1 => (0_u64..100).prop_map(Inner::Ahead),
    ]
}

fn lines(room: Room) -> impl Strategy<Value = Vec<Line>> {
    let clock =
        prop_oneof![1 => Just(Time::StandsStill), 3 => Just(Time::GoesAhead), 4 => Just(Time::StepsBack)];
    (clock, 0_u32..4, 1..=KEYS).prop_flat_map(move |(clock, interrupted, keys)| {
        let within = (1_usize..4, prop::collection::vec(inner(), 1..4));
        let within = if interrupted == 0 {
            Just(None).boxed()
        } else {
            prop_oneof![8 => Just(None), interrupted => within.prop_map(Some)].boxed()
        };
        let line = (go(clock), 0..keys, 0..2_usize, verb(room), within)
            .prop_map(|(go, key, tier, verb, within)| Line { go, key, tier, verb, within });
        let lines = prop::collection::vec(line, 1..40);
        if matches!(room, Room::Full(_)) {
            return (crowded(clock, keys), lines).prop_map(|(first, then)| [first, then].concat()).boxed();
        }
        lines.boxed()
    })
}

/// Some keys take something, others fill their bucket, and the quota changes again and again: also
/// to a slower one, while a new key is on its way into the bucket and time passes.
fn crowded(clock: Time, keys: usize) -> impl Strategy<Value = Vec<Line>> {
    let line = |go, key, verb, within| Line { go, key, tier: 0, verb, within };
    let check = move |key, cost, within| line(Go::Stay, key, Verb::Check(cost, Way::Plain), within);
    let first = (0..keys, 2_u64..6).prop_map(move |(key, cost)| check(key, Cost::Units(cost), None));
    let inherit = select(vec![Inherit::AsIs, Inherit::Proportional, Inherit::Additive]);
    let slower = (prop::collection::vec((1_u64..25, Just(1_000_000_000)), MOST_LIMITS), inherit)
        .prop_map(|(numbers, inherit)| Change { numbers, only: None, inherit })
        .boxed();
    let change = prop_oneof![change().prop_map(|change| Change { only: None, ..change }), slower.clone()];
    let inner =
        (change, 0_u64..100).prop_map(|(change, ahead)| vec![Inner::Change(change), Inner::Ahead(ahead)]);
    let reading = prop_oneof![3 => Just(1_usize), 1 => 2_usize..4];
    let overtaken = (0..keys, prop_oneof![2 => Just(Cost::Units(1)), 1 => cost()], (reading, inner))
        .prop_map(move |(key, cost, within)| check(key, cost, Some(within)));
    let usual = (go(clock), 0..keys, cost())
        .prop_map(move |(go, key, cost)| line(go, key, Verb::Check(cost, Way::Plain), None));
    let same = Change { numbers: Vec::new(), only: None, inherit: Inherit::Additive };
    let same = (0..keys).prop_map(move |key| line(Go::Stay, key, Verb::Change(same.clone()), None));
    let first = prop::collection::vec(first, 1..3);
    let reset = (0..keys).prop_map(move |key| line(Go::Stay, key, Verb::Reset, None));
    let then = prop_oneof![2 => usual, 2 => overtaken, 1 => same, 1 => reset];
    let then = prop::collection::vec(then, 0..12);
    // Long enough for what the first keys have taken, by the quota before the change.
    let late = prop::option::weighted(0.75, (0..keys, slower, 40_u64..100));
    (first, late, then).prop_map(move |(first, late, then)| {
        let strangers = line(Go::Stay, 0, Verb::Strangers, None);
        let late = late.map(|(key, change, ahead)| {
            let inner = vec![Inner::Change(change), Inner::Ahead(ahead)];
            // The reset makes a slot vacant for keys that lost theirs.
            [check(key, Cost::Units(1), Some((1, inner))), line(Go::Stay, key, Verb::Reset, None)]
        });
        [first, vec![strangers], late.into_iter().flatten().collect(), then].concat()
    })
}

fn limits(sort: Sort) -> BoxedStrategy<Vec<Limit>> {
    let kind = || prop_oneof![3 => Just(Kind::Bucket), 4 => select(Kind::ALL.to_vec())];
    match sort {
        Sort::Global => kind().prop_flat_map(|kind| prop::collection::vec(limit(kind), 1)).boxed(),
        // Tiers are of one algorithm; those that do not share a clock by their periods are refused.
        Sort::Keyed => kind()
            .prop_flat_map(|kind| {
                let tiers = if kind.is_bucket() { 1..3_usize } else { 1..2 };
                prop::collection::vec(limit(kind), tiers)
            })
            .boxed(),
        Sort::Multi => prop::collection::vec(kind().prop_flat_map(limit), 1..=MOST_LIMITS).boxed(),
        Sort::Beside => prop::collection::vec(kind().prop_flat_map(limit), 2..=MOST_LIMITS).boxed(),
    }
}

/// A program.
pub(crate) fn program() -> impl Strategy<Value = Program> {
    prop_oneof![12 => usual(), 4 => mended::mended(), 2 => mended::leaving()]
}

/// A program of all verbs.
fn usual() -> impl Strategy<Value = Program> {
    let room = prop_oneof![
        4 => Just(Room::Enough),
        2 => Just(Room::Growing),
        3 => Just(Room::Full(WhenFull::Share)),
        1 => Just(Room::Full(WhenFull::Deny)),
        1 => Just(Room::Full(WhenFull::Allow)),
    ];
    let sort = select(vec![Sort::Keyed, Sort::Keyed, Sort::Global, Sort::Multi, Sort::Beside]);
    (sort, room).prop_flat_map(|(sort, room)| {
        let room = if sort == Sort::Global { Room::Enough } else { room };
        (limits(sort), lines(room)).prop_map(move |(limits, lines)| Program { sort, room, limits, lines })
    })
}

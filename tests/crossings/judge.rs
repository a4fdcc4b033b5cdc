//! The judge of the programs: it follows every way in which it may have been.
//!
//! A verb that was interrupted by others may have come before or after them. So a [`Judge`] follows
//! several worlds and gives up those that are contradicted. With the last of them goes the program.

use tollgate::Inherit;

use super::limits::Limit;
use super::world::World;

/// Something that happened, and the answer.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A request was decided. `id` names what it took.
    Decided {
        id: usize,
        key: usize,
        tier: usize,
        cost: u64,
        at: u64,
        /// By a quota that had ended: how many nanoseconds later, at the most.
        late: u64,
        allowed: bool,
        /// `None`: it was told for a time at which it may not have been decided.
        delay: Option<u64>,
    },
    /// One limit was charged its part of a request that all limits of it admit.
    Offered {
        id: usize,
        asked: Asked,
        at: u64,
        /// `None`: it was given back.
        delay: Option<u64>,
    },
    /// One of these limits refused, and none is charged.
    JointlyRefused {
        asked: Vec<Asked>,
        at: u64,
    },
    /// A turn was asked for: when it departs; `None` if it was refused.
    Turn {
        id: usize,
        key: usize,
        tier: usize,
        cost: u64,
        at: u64,
        max_wait: u64,
        departs: Option<u64>,
    },
    /// A peek said what each limit has left.
    Seen {
        key: usize,
        tier: usize,
        at: u64,
        remaining: Vec<u64>,
    },
    /// Of `units` asked back, `back` came back.
    Back {
        id: usize,
        units: u64,
        back: u64,
        at: u64,
    },
    /// Of an admitted request of several limits some charges may be forgiven, and others may come
    /// back yet.
    InParts {
        id: usize,
        at: u64,
    },
    /// A turn was left: as `Back`, and it is not said how much.
    Left {
        id: usize,
        at: u64,
    },
    /// A lease that is asked for `cost` gives back what it holds, unless it can spend it.
    LeaseReturns {
        lease: Lease,
        cost: u64,
        permit: bool,
    },
    /// Then it decides the request, and holds `after`.
    LeaseDecides {
        lease: Lease,
        id: usize,
        cost: u64,
        after: u64,
        permit: bool,
        allowed: bool,
    },
    /// A request was charged over the limit.
    Debited {
        id: usize,
        key: usize,
        tier: usize,
        units: u64,
        cost: u64,
        at: u64,
    },
    /// Of `units` that an operator gave, the key got `given`, of all limits or of this one.
    Credited {
        key: usize,
        tier: usize,
        only: Option<usize>,
        units: u64,
        given: u64,
        at: u64,
    },
    Reset {
        key: usize,
        tier: usize,
        known: bool,
    },
    Changed {
        limits: Vec<Limit>,
        inherits: Vec<Inherit>,
        at: u64,
    },
    /// What a refused request was charged in between may stay counted.
    MayStay {
        key: usize,
        tier: usize,
        cost: u64,
        at: u64,
    },
    /// The clock went ahead in the middle of a verb.
    Passed {
        at: u64,
    },
    /// The limiter was saved and restored: another one from here on.
    Restored,
}

impl Event {
    /// What else a reset or a credit in the middle of a request of several limits may leave: of a
    /// refused one, charges that do not come back; of an admitted one, some that were forgiven.
    pub(crate) fn in_parts(&self) -> Option<Self> {
        match *self {
            Self::Decided { id, at, allowed: true, .. } | Self::Turn { id, at, departs: Some(_), .. } => {
                Some(Self::InParts { id, at })
            }
            Self::Decided { key, tier, cost, at, allowed: false, .. }
            | Self::Turn { key, tier, cost, at, departs: None, .. } => {
                Some(Self::MayStay { key, tier, cost, at })
            }
            Self::LeaseDecides { ref lease, id, allowed: true, .. } => {
                Some(Self::InParts { id, at: lease.at })
            }
            Self::LeaseDecides { ref lease, cost, allowed: false, .. } => {
                Some(Self::MayStay { key: lease.key, tier: lease.tier, cost, at: lease.at })
            }
            _ => None,
        }
    }
}

/// What one limit is asked for in a joint charge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) key: usize,
    pub(crate) tier: usize,
    /// Which of the key's limits.
    pub(crate) slot: usize,
    pub(crate) cost: u64,
}

/// A lease before a verb.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) key: usize,
    pub(crate) tier: usize,
    /// What it acquired last.
    pub(crate) acquired: Option<usize>,
    pub(crate) held: u64,
    /// Whether that is not older than its time to live.
    pub(crate) is_fresh: bool,
    pub(crate) at: u64,
}

/// The rules that are fixed for a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rules {
    /// Whether each key has a state for each limit. Otherwise the limits are tiers of one state.
    pub(crate) is_multi: bool,
    /// Whether the last of these limits is beside the others, and met by requests of tier 1.
    pub(crate) has_beside: bool,
    /// Whether each key has a limiter of its own.
    pub(crate) is_apart: bool,
    /// Whether there is always room, so that a refusal needs a debt that the key has taken.
    pub(crate) is_roomy: bool,
}

/// The worlds that nothing has contradicted yet.
pub(crate) struct Judge {
    worlds: Vec<World>,
}

impl Judge {
    pub(crate) fn new(rules: Rules, limits: &[Limit]) -> Self {
        Self { worlds: vec![World::new(rules, limits)] }
    }

    /// This happened.
    pub(crate) fn hear(&mut self, event: &Event) -> Result<(), String> {
        self.keep(|mut world| vec![world.apply(event, true).map(|()| world)])
    }

    /// `inner` happened while one of the `outers` did: the events of both in any order that keeps
    /// that of each.
    pub(crate) fn hear_within(&mut self, outers: &[Vec<Event>], inner: &[Event]) -> Result<(), String> {
        let orders: Vec<Vec<&Event>> = outers.iter().flat_map(|outer| orders(outer, inner)).collect();
        self.keep(|world| {
            let play = |events: &Vec<&Event>| {
                let mut world = world.clone();
                // Under a verb that is not done yet, room may be taken that it gives up in the end.
                events.iter().try_for_each(|event| world.apply(event, false)).map(|()| world)
            };
            orders.iter().map(play).collect()
        })
    }

    fn keep(&mut self, becomes: impl Fn(World) -> Vec<Result<World, String>>) -> Result<(), String> {
        let (mut kept, mut why): (Vec<World>, String) = (Vec::new(), String::new());
        for world in self.worlds.drain(..) {
            for next in becomes(world) {
                match next {
                    // Two ways to the same are one.
                    Ok(world) => {
                        if !kept.contains(&world) {
                            kept.push(world);
                        }
                    }
                    Err(contradiction) => why = contradiction,
                }
            }
        }
        self.worlds = kept;
        if self.worlds.is_empty() { Err(why) } else { Ok(()) }
    }
}

/// Every order of both that keeps that of each.
fn orders<'e>(outer: &'e [Event], inner: &'e [Event]) -> Vec<Vec<&'e Event>> {
    let with = |first: &'e Event, rest: Vec<Vec<&'e Event>>| -> Vec<Vec<&'e Event>> {
        rest.into_iter().map(|rest| [first].into_iter().chain(rest).collect()).collect()
    };
    match (outer, inner) {
        ([], all) | (all, []) => vec![all.iter().collect()],
        ([first, outers @ ..], [other, inners @ ..]) => {
            [with(first, orders(outers, inner)), with(other, orders(outer, inners))].concat()
        }
    }
}

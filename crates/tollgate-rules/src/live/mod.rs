//! Rules that are exchanged while requests are decided.
//!
//! The rules in force are a [`RuleSet`] behind an `Arc`, and a word that tells whether a thread's
//! copy of the `Arc` is still the newest:
//!
//! ```text
//!   word    even          odd                         even
//!           rules g ----- numbers change, one ------- rules g + 1
//!           in force      limiter after the other     in force
//! ```
//!
//! Rules whose numbers stay share their limiters with the rules before, so requests that are
//! decided by either charge the same words. Where numbers change, a limiter changes for both at
//! once, and so a request could meet the old numbers of one rule and the new ones of another. What
//! prevents it:
//!
//! * A request reads the word before and after. If it changed, the request gives back what it was
//!   charged and is decided anew.
//! * A request that meets the odd word waits for the exchange: some microseconds for each limit
//!   that changes. Nothing else of a reload is waited for: files are read, and limiters built,
//!   before.
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | L1 | the odd word, before a limiter's version | the version, before the word | new numbers |
//! | L2 | the even word | the word at the next check, under the mutex | the new rules |
//!
//! L1: a request that has met new numbers finds another word after its decision.

mod error;
mod handle;
mod origin;
mod plan;
mod saved;
mod session;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tollgate::{BuildError, Clock, TscClock};

use crate::rule::Rules;
use crate::set::{Change, Parked, RuleSet, SetError, Succession};

pub use error::ExchangeError;
pub use handle::Handle;
pub use origin::Origin;
pub use plan::{PlannedChange, RulePlan};
pub use session::{OfRules, Round, Session};

/// Rules that can be exchanged while requests are decided.
///
/// Clones share the rules. Each thread decides requests by a [`Handle`] of its own.
///
/// **Guarantee.** All rules change at one instant: no request is decided partly by the old ones and
/// partly by the new ones. On any error the old ones stay in force. An exchange forgets no debt
/// unless a rule says `forget = true`, or is gone for an hour: state is kept by the names of rules
/// and tiers.
///
/// # Examples
///
/// ```
/// use tollgate::ManualClock;
/// use tollgate_rules::{LiveRules, PlainRequest, Rules, Scratch};
/// use tollgate_rules_file::{Memory, read};
///
/// let rules = |limits: &str| -> Rules {
///     let text = format!("version = 1\nrule = [{{ name = 'all', key = 'everyone', {limits} }}]");
///     read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap()
/// };
/// let live = LiveRules::new(rules("limits = '10/s'"), [0; 32], ManualClock::new())?;
/// let (mut handle, mut scratch) = (live.handle(), Scratch::default());
/// let request = PlainRequest::default();
/// assert!((0..8).all(|_| handle.check(&request, &mut scratch).is_admitted()));
///
/// live.exchange(rules("limits = '20/s'"), [1; 32])?;
/// assert_eq!(handle.check(&request, &mut scratch).lines()[0].remaining, 11); // the debt remains
/// assert_eq!(live.status().generation, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LiveRules<C = TscClock> {
    inner: Arc<Inner<C>>,
}

/// A hook that is called with new rules before they come into force.
type Before = Box<dyn Fn(&Rules) + Send + Sync>;

struct Inner<C> {
    /// Even, and more with each exchange of rules; odd while numbers change.
    word: AtomicU64,
    /// Locked while rules are exchanged, and by a thread that fetches the newest.
    current: Mutex<Current<C>>,
    /// The rules that are gone. Locked from the first look at the old rules until the new ones are
    /// in force.
    parked: Mutex<Parked<C>>,
    /// Called under the mutex of reloads only.
    before: Mutex<Vec<Before>>,
}

struct Current<C> {
    set: Arc<RuleSet<C>>,
    status: Status,
    /// The text of the rules; `None`: a program made them.
    text: Option<Arc<[u8]>>,
}

/// The rules in force: see [`LiveRules::status`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// Their number: 1 for the first, and one more with each exchange.
    pub generation: u64,
    /// The hash of what they were read from: see [`Origin::hash`].
    pub hash: [u8; 32],
    /// When they came into force.
    pub since: SystemTime,
}

impl<C: Clock + Clone + 'static> LiveRules<C> {
    /// Puts the first rules in force.
    ///
    /// # Errors
    ///
    /// As [`RuleSet::new`].
    pub fn new(rules: Rules, origin: impl Into<Origin>, clock: C) -> Result<Self, SetError> {
        Ok(Self::of(RuleSet::new(rules, clock)?, origin.into(), Parked::default()))
    }

    fn of(set: RuleSet<C>, origin: Origin, parked: Parked<C>) -> Self {
        let (set, Origin { hash, text }) = (Arc::new(set), origin);
        let status = Status { generation: 1, hash, since: SystemTime::now() };
        let inner = Inner {
            word: AtomicU64::new(2),
            current: Mutex::new(Current { set, status, text }),
            parked: Mutex::new(parked),
            before: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// From now on calls `hook` with the rules of each exchange, right before they come into force.
    /// What else can refuse them has not: but for a limit that has no room for one more change.
    ///
    /// When would I want this? To make ready what the rules need, such as the connections to their
    /// stores. Requests are decided by the old rules meanwhile, and other exchanges wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use tollgate::ManualClock;
    /// use tollgate_rules::LiveRules;
    /// use tollgate_rules_file::{Memory, read};
    ///
    /// let rules = || {
    ///     read("rules.toml", &Memory::new("rules.toml", "version = 1")).into_rules().unwrap()
    /// };
    /// let live = LiveRules::new(rules(), [0; 32], ManualClock::new())?;
    /// let (told, tells) = channel();
    /// let again = live.clone();
    /// live.before_force(move |_| told.send(again.status().generation).unwrap());
    /// assert_eq!(live.exchange(rules(), [1; 32])?, 2);
    /// assert_eq!(tells.recv()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn before_force(&self, hook: impl Fn(&Rules) + Send + Sync + 'static) {
        self.inner.before.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(hook));
    }

    /// A handle for one thread.
    #[must_use]
    pub fn handle(&self) -> Handle<C> {
        let current = self.inner.current();
        // Even: the mutex is held during an exchange.
        let word = self.inner.word.load(Acquire);
        Handle { set: Arc::clone(&current.set), inner: Arc::clone(&self.inner), word }
    }

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> Arc<RuleSet<C>> {
        Arc::clone(&self.inner.current().set)
    }

    /// Which rules are in force.
    #[must_use]
    pub fn status(&self) -> Status {
        self.inner.current().status.clone()
    }

    /// The text that the rules in force were read from: see [`Origin::text`].
    #[must_use]
    pub fn text(&self) -> Option<Arc<[u8]>> {
        self.inner.current().text.clone()
    }

    /// Puts other rules in force, without running their tests. Returns their generation.
    ///
    /// A rule takes over the state of the old rule whose name is its `was`, or else its own. Where
    /// numbers change, each key keeps what the rule's `inherit` says. Every other change leaves
    /// the state as it is: conditions, `mode`, `cost`, `replaces`, tiers that are new.
    ///
    /// A rule that is gone keeps its state for an hour, by the rules' clock: in that time it comes
    /// back under its name, or its name as `was`, and has forgotten nothing. At most 64 such rules
    /// are kept, and a tenth of the [`memory_budget`](Rules::memory_budget); those that went first
    /// are forgotten first.
    ///
    /// **Cost.** New limiters are built and matchers compiled before any request notices. Then each
    /// rule whose numbers change takes some microseconds, for which requests wait, and about six
    /// kilobytes until it is gone: see
    /// [`Limiter::change`](tollgate::Limiter::change).
    ///
    /// # Errors
    ///
    /// [`ExchangeError`]; the old rules stay in force then. After [`ExchangeError::Change`] a
    /// bucket that was to become smaller may be stricter for the time of a refill.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{LiveRules, PlainRequest, ExchangeError, Rules, Scratch};
    /// use tollgate_rules_file::{Memory, read};
    ///
    /// let rules = |limits: &str| -> Rules {
    ///     let rule = format!("{{ name = 'all', key = 'everyone', {limits} }}");
    ///     let text = format!("version = 1\nrule = [{rule}]");
    ///     read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap()
    /// };
    /// let live = LiveRules::new(rules("limits = '10/s'"), [0; 32], ManualClock::new())?;
    /// let _ = live.handle().check(&PlainRequest::default(), &mut Scratch::default());
    ///
    /// let error = live.exchange(rules("limits = 'sliding-log:10/s'"), [1; 32]).unwrap_err();
    /// let ExchangeError::Forgets(conflicts) = error else { panic!("{error}") };
    /// assert_eq!((&*conflicts[0].rule, conflicts[0].keys_in_debt), ("all", 1));
    /// live.exchange(rules("limits = 'sliding-log:10/s', forget = true"), [1; 32])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn exchange(&self, rules: Rules, origin: impl Into<Origin>) -> Result<u64, ExchangeError> {
        let Origin { hash, text } = origin.into();
        let mut parked = self.inner.parked();
        let old = self.rules();
        parked.forget_old(old.clock().now());
        let Succession { set, changes, taken } = Succession::plan(rules, &old, &parked)?;
        // A change that fails is tried again soon. Each that is made and taken back would take room
        // from later ones.
        for change in &changes {
            let refused = |error| ExchangeError::Change { rule: change.rule.clone(), error };
            change.check().map_err(refused)?;
        }
        let inner = &*self.inner;
        let before = inner.before.lock().unwrap_or_else(PoisonError::into_inner);
        before.iter().for_each(|hook| hook(set.rules()));
        drop(before);
        let mut current = inner.current();
        let word = inner.word.load(Acquire);
        if !changes.is_empty() {
            inner.word.store(word + 1, Release); // L1
            if let Err((rule, error)) = make(&changes) {
                // The numbers were others for a while: requests that met them decide anew.
                inner.word.store(word + 2, Release);
                return Err(ExchangeError::Change { rule, error });
            }
        }
        let old_text = std::mem::replace(&mut current.text, text);
        current.set = Arc::new(set);
        current.status.generation += 1;
        (current.status.hash, current.status.since) = (hash, SystemTime::now());
        let generation = current.status.generation;
        inner.word.store(word + 2, Release); // L2
        drop(current);
        parked.exchange(&old, old_text.as_ref(), |index| taken.contains(&index));
        Ok(generation)
    }

    /// Forgives all keys of a rule in force their debts to its limits by time, or to those of one
    /// of its tiers, by their indices. Bans stay, and so do requests in flight. `false`: there are
    /// no such limits in this process.
    ///
    /// When would I want this? After an incident that made all clients retry.
    ///
    /// # Errors
    ///
    /// [`BuildError::ChangedTooOften`]: nothing is forgiven. Try again later.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{Key, Limit, Limits, LiveRules, PlainRequest, Rule, Rules, Scratch};
    ///
    /// let limits = Limits::Each(vec![Limit::Quota("1/h".parse()?)]);
    /// let rules = Rules::of(vec![Rule::new("all", Key::Everyone, limits)]);
    /// let live = LiveRules::new(rules, [0; 32], ManualClock::new())?;
    /// let (mut handle, mut scratch) = (live.handle(), Scratch::default());
    /// let mut asks = || handle.check(&PlainRequest::default(), &mut scratch).is_admitted();
    /// assert!(asks() && !asks());
    /// assert!(live.forgive(0, None)?);
    /// assert!(asks());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forgive(&self, rule: usize, tier: Option<usize>) -> Result<bool, BuildError> {
        // No exchange changes a quota meanwhile, and no save reads one.
        let _parked = self.inner.parked();
        self.rules().forgive(rule, tier)
    }

    /// Aligns the windows of all limits to another Unix time: that of the clock's zero is now known
    /// to be this. Also those of rules that are gone and kept.
    ///
    /// When would I want this? When the system's clock is set while the rules are in force: see
    /// [`Limiter::realign`](tollgate::Limiter::realign), which says what becomes of the counts, and
    /// what it costs. Limiters that later rules bring ask the clock for its
    /// [`unix_at_zero`](Clock::unix_at_zero): have it say the same, before.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Change`] of the first rule that was changed too often for now. It keeps its
    /// windows, and all others are realigned. Call it again later.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{LiveRules, PlainRequest, Scratch};
    /// use tollgate_rules_file::{Memory, read};
    ///
    /// const HOUR: Duration = Duration::from_secs(3_600);
    /// let rule = "{ name = 'all', key = 'everyone', limits = 'fixed-window:1/day' }";
    /// let text = format!("version = 1\nrule = [{rule}]");
    /// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
    /// let live = LiveRules::new(rules, [0; 32], ManualClock::starting_at(10 * HOUR))?;
    /// let (mut handle, mut scratch) = (live.handle(), Scratch::default());
    /// let request = PlainRequest::default();
    /// assert!(handle.check(&request, &mut scratch).is_admitted());
    ///
    /// live.realign(16 * HOUR)?; // it was six hours slow
    /// let refused = handle.check(&request, &mut scratch);
    /// // The day that ends in eight hours would end too soon: it goes on for the next one.
    /// assert_eq!(refused.lines()[0].retry_after, Some((8 + 24) * HOUR));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn realign(&self, unix_at_zero: Duration) -> Result<(), ExchangeError> {
        // No reload comes between: what it builds asks the clock.
        let parked = self.inner.parked();
        let gone = parked.realign(unix_at_zero);
        let done = self.rules().realign(unix_at_zero).and(gone);
        done.map_err(|(rule, error)| ExchangeError::Change { rule, error })
    }

    /// Forgets the rules that have been gone for an hour. The next exchange does so, too.
    ///
    /// When would I want this? To return their memory where exchanges are rare.
    pub fn forget_old(&self) {
        let now = self.rules().clock().now();
        self.inner.parked().forget_old(now);
    }
}

/// Makes all changes, or none.
fn make<C: Clock + 'static>(changes: &[Change<C>]) -> Result<(), (Box<str>, BuildError)> {
    for (index, change) in changes.iter().enumerate() {
        if let Err(error) = change.make() {
            for made in changes[..index].iter().rev() {
                // Before it was made there was room to take it back.
                let undone = made.undo();
                debug_assert!(undone.is_ok(), "`{}` keeps numbers of the refused rules", made.rule);
            }
            return Err((change.rule.clone(), error));
        }
    }
    Ok(())
}

impl<C> Inner<C> {
    fn parked(&self) -> MutexGuard<'_, Parked<C>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> MutexGuard<'_, Current<C>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Clone for LiveRules<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<C> fmt::Debug for LiveRules<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRules").field("status", &self.inner.current().status).finish_non_exhaustive()
    }
}

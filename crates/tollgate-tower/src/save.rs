//! The limits of a layer over a restart.
//!
//! The file has the debts of all rules as [`LiveRules::save`] writes them, with the limits by which
//! they were counted. The next process restores those limits, and then changes them to its own: a
//! restart under other limits is a restart and a [change](crate::TollgateLayer::reconfigure).

use std::cell::RefCell;
use std::io::{self, Read, Write};

use tollgate::RestoreError;
use tollgate::saved::{Format, Reader, Writer};
use tollgate_rules::{Cause, Conflict, ExchangeError, LiveRules, NotRestored, Rule, Rules, SavedLimits};
use tollgate_rules::{Limits, Tier};

use crate::rule::{OWN_TIER, SharedClock, origin, read};
use crate::{BuildError, Builder, TollgateLayer, WrappedBody};

const LAYER: Format = Format { magic: *b"\xA7gate\r\n\x1A", name: "a saved layer" };

impl<R, B> TollgateLayer<R, B> {
    /// Writes down the debts of all keys to the limits of all rules, and the bans, for
    /// [`Builder::restore`] in the next process. Returns the number of debts: one for each key and
    /// limit, and one for each ban.
    ///
    /// **The file is a secret**, as that of [`tollgate::Limiter::save`] is, and it has the keys of
    /// [`Rule::for_key`](crate::Rule::for_key). Create it for its owner only. Checksums detect
    /// accidents, not intent.
    ///
    /// **Guarantee.** Nothing that a request was charged before the call is forgotten, and no
    /// request waits for it. At most the requests that were admitted since the call began are
    /// admitted twice, before and after a restart: save when the server has stopped serving. A
    /// request that is being decided or served then keeps its charges, also those that its
    /// response would give back.
    ///
    /// **What is not saved.** Requests in flight and in queues end with the process. The departures
    /// of those that waited stay taken. Debts to limits that
    /// [come with each request](crate::Rule::per_request) are not saved: a restore reports them. A
    /// [backend](crate::Rule::backend) keeps its own state; the local limits for its failure are
    /// saved.
    ///
    /// **Cost.** Reads all tables and writes about 21 bytes a debt, in pieces of up to 64 KiB. A
    /// [`reconfigure`](Self::reconfigure) of the rule that is being written waits. Write to a new
    /// file and rename it when this has returned, so that a crash leaves the old one.
    ///
    /// # Errors
    ///
    /// Those of `out`. The part that has been written by then will not be taken for a saved layer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Rate, TokenBucket};
    /// use tollgate_tower::{Builder, KeyBy, Rule, TollgateLayer};
    ///
    /// fn settings(per_hour: u64) -> Builder {
    ///     let api = Rule::new("api", [TokenBucket::new(Rate::per_hour(per_hour))]);
    ///     TollgateLayer::builder().rule(api.key(KeyBy::path()))
    /// }
    /// let layer = settings(5).build()?;
    /// // It serves requests.
    /// let mut file = Vec::new();
    /// layer.save(&mut file)?;
    ///
    /// // The next process, with another limit: keys keep their debts.
    /// let (layer, forgotten) = settings(8).restore(&file[..])?;
    /// assert!(forgotten.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, out: impl Write) -> io::Result<usize> {
        let mut file = Writer::begin(out, LAYER)?;
        let debts = self.state().live.save_in(&mut file)?;
        file.finish()?;
        Ok(debts)
    }
}

impl<R> Builder<R> {
    /// [`build`](Self::build) for a layer that begins with the debts and bans that
    /// [`TollgateLayer::save`] wrote down. Returns the layer, and what it begins without.
    ///
    /// Rules are found by their names, tiers by their numbers, and limits of single keys by their
    /// keys. A rule that was not saved begins without debts. If limits have other numbers than they
    /// had, keys keep their debts as at a [`reconfigure`](TollgateLayer::reconfigure) with
    /// [`Inherit::Additive`](tollgate::Inherit::Additive); of a [ban](crate::Rule::ban) of another
    /// duration, the share that is left stays. All other settings may differ.
    ///
    /// Debts that cannot be kept are never silently forgotten: each is a [`NotRestored`], which
    /// says why. The causes are a rule, a tier, a key or bans that the layer no longer has; more or
    /// fewer limits; another algorithm or window; a larger [sliding log](tollgate::SlidingLog); and
    /// [`max_keys`](crate::Rule::max_keys) too small for the saved debts. The other debts of the
    /// rule stay.
    ///
    /// **Guarantee.** As for [`tollgate::Builder::restore`]: each key is answered as the saved
    /// layer would answer it at the same Unix time, and no debt is forgiven. The time between
    /// counts as passed.
    ///
    /// **Cost.** Reads the input to the end of the saved layer, and no further, so that several
    /// layers may be saved in one file. It reserves each table twice, one after the other, and 64
    /// KiB, for any input.
    ///
    /// # Errors
    ///
    /// [`RestoreError`], and nothing is built: the layer cannot be built
    /// ([`Settings`](RestoreError::Settings) has the [`BuildError`]), or the input is no saved
    /// layer, is damaged, or ends too soon.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Rate, TokenBucket};
    /// use tollgate_tower::{Rule, TollgateLayer};
    ///
    /// let quota = TokenBucket::new(Rate::per_hour(5));
    /// let settings = |name| TollgateLayer::builder().rule(Rule::new(name, [quota]));
    /// let mut file = Vec::new();
    /// settings("api").build()?.save(&mut file)?;
    ///
    /// let (_, forgotten) = settings("requests").restore(&file[..])?;
    /// assert_eq!(&*forgotten[0].rule, "api");
    /// assert!(forgotten[0].to_string().contains("the rule is gone"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(self, input: impl Read) -> Result<(TollgateLayer<R>, Vec<NotRestored>), RestoreError> {
        let mut forgotten = Vec::new();
        let layer = self.build_by(|rules, clock| restore(rules, clock, input, &mut forgotten), unusable)?;
        Ok((layer, forgotten))
    }

    /// [`restore`](Self::restore) for a layer with a limit [in flight](crate::Limit::InFlight), as
    /// [`build_in_flight`](Self::build_in_flight) builds it. No request is in flight then.
    ///
    /// # Errors
    ///
    /// As [`restore`](Self::restore).
    pub fn restore_in_flight(
        self,
        input: impl Read,
    ) -> Result<(TollgateLayer<R, WrappedBody>, Vec<NotRestored>), RestoreError> {
        let mut forgotten = Vec::new();
        let layer =
            self.build_in_flight_by(|rules, clock| restore(rules, clock, input, &mut forgotten), unusable)?;
        Ok((layer, forgotten))
    }
}

fn unusable(error: BuildError) -> RestoreError {
    RestoreError::Settings(Box::new(error))
}

/// Rules that go on with their saved limits. Adds what they begin without to `forgotten`.
fn restore(
    rules: Rules,
    clock: SharedClock,
    input: impl Read,
    forgotten: &mut Vec<NotRestored>,
) -> Result<LiveRules<SharedClock>, RestoreError> {
    let mut input = Reader::begin(input, LAYER)?;
    let saved = RefCell::new(None);
    let of_text = |text: &[u8]| {
        let read = read(text, &rules)?;
        // The first text is that of the rules in force; the others are of rules that were gone.
        saved.borrow_mut().get_or_insert_with(|| read.clone());
        Ok(read)
    };
    let (live, damaged) = LiveRules::restore_from(&mut input, clock, of_text)?;
    input.finish()?;
    forgotten.extend(damaged);
    let saved = saved.into_inner().unwrap_or_default();
    forgotten.extend(saved.rules.iter().flat_map(|rule| without(rule, &rules)));
    let mut wanted = rules.clone();
    loop {
        let conflicts = match live.exchange(wanted.clone(), origin(&rules)) {
            Ok(_) => return Ok(live),
            Err(ExchangeError::Forgets(conflicts)) => conflicts,
            Err(error) => return Err(RestoreError::Settings(Box::new(error))),
        };
        let before = wanted.clone();
        for conflict in conflicts {
            let is_of = |rule: &&mut Rule| rule.name == conflict.rule;
            wanted.rules.iter_mut().filter(is_of).for_each(|rule| rule.forget = true);
            forgotten.extend(told(conflict));
        }
        if wanted == before {
            // Each conflict names a rule that may not forget yet, so this does not happen.
            return Err(RestoreError::Corrupt);
        }
    }
}

/// What the rules begin without of a saved rule.
fn without(saved: &Rule, rules: &Rules) -> Vec<NotRestored> {
    let gone = |limits: SavedLimits, what: &str| {
        let error = RestoreError::Differs { field: what.into(), saved: "there".into(), given: "gone".into() };
        NotRestored::of(saved.name.clone(), limits, error).ok()
    };
    if saved.limits == Limits::PerRequest {
        let error = RestoreError::Differs {
            field: "the limit that comes with each request".into(),
            saved: "in force".into(),
            given: "not kept".into(),
        };
        return NotRestored::of(saved.name.clone(), SavedLimits::Own, error).ok().into_iter().collect();
    }
    let Some(now) = rules.rules.iter().find(|rule| rule.name == saved.name) else {
        return gone(SavedLimits::Own, "the rule").into_iter().collect();
    };
    let is_here = |limits: &Limits| matches!(limits, Limits::Each(_));
    let own = is_here(&saved.limits) && !is_here(&now.limits);
    let own = own.then(|| gone(SavedLimits::Own, "the rule's own limits")).flatten();
    let bans = saved.ban.is_some() && now.ban.is_none();
    let bans = bans.then(|| gone(SavedLimits::Bans, "its ban")).flatten();
    let is_gone = |tier: &&Tier| is_here(&tier.limits) && !now.tiers.iter().any(|one| one.name == tier.name);
    let tiers = saved.tiers.iter().filter(is_gone);
    let tiers = tiers.filter_map(|tier| gone(SavedLimits::Tier(shown(&tier.name)), "the tier"));
    own.into_iter().chain(bans).chain(tiers).collect()
}

/// What a conflict of both rules forgets. `None` if [`without`] tells it.
fn told(conflict: Conflict) -> Option<NotRestored> {
    let Conflict { rule, tier, cause, .. } = conflict;
    let error = match cause {
        Cause::TierRemoved | Cause::Renamed { .. } | Cause::Displaced { .. } => return None,
        Cause::Limit(error) => error.into(),
        cause => {
            let field = match cause {
                Cause::NumberOfLimits => "the number of limits",
                Cause::Key => "the key",
                _ => "the table",
            };
            RestoreError::Differs { field: field.into(), saved: "another".into(), given: "changed".into() }
        }
    };
    let limits = tier.map_or(SavedLimits::Own, |tier| SavedLimits::Tier(shown(&tier)));
    NotRestored::of(rule, limits, error).ok()
}

/// The name of a tier for people: the keys of those of single keys are often secrets.
fn shown(tier: &str) -> Box<str> {
    if tier.starts_with(OWN_TIER) { "of one key".into() } else { tier.into() }
}

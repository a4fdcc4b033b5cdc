//! The limits of a layer over a restart.
//!
//! ```text
//!   section:  TIER        | rule: text | tier: u32  | limiter
//!             KEY         | rule: text | key: bytes | limiter
//!             BAN         | rule: text              | limiter
//!             FALLBACK    | rule: text              | limiter
//!             PER_REQUEST | rule: text
//!             END
//! ```
//!
//! A tag is a byte. The rest is the form of [`tollgate::saved`].

mod forgotten;
mod part;

use std::io::{self, Read, Write};
use std::sync::Arc;

use tollgate::RestoreError;
use tollgate::saved::{Format, Reader, Writer};

use crate::decide::LayerState;
use crate::rule::{CompiledRule, Decider, SharedClock};
use crate::{BuildError, Builder, TollgateLayer, WrappedBody};
pub use forgotten::{NotRestored, SavedLimits};
pub(crate) use part::Part;

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
        let mut debts = 0;
        for rule in self.rules() {
            for (part, limiter) in rule.limiters() {
                part.write(&rule.name, &mut file)?;
                debts += limiter.save(&mut file)?;
            }
            if let Decider::PerRequest(_) = rule.decider {
                Part::PerRequest.write(&rule.name, &mut file)?;
            }
        }
        file.byte(part::END)?;
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
    /// use tollgate_tower::{NotRestored, Rule, TollgateLayer};
    ///
    /// let quota = TokenBucket::new(Rate::per_hour(5));
    /// let settings = |name| TollgateLayer::builder().rule(Rule::new(name, [quota]));
    /// let mut file = Vec::new();
    /// settings("api").build()?.save(&mut file)?;
    ///
    /// let (_, forgotten) = settings("requests").restore(&file[..])?;
    /// assert!(matches!(&forgotten[..], [NotRestored::Rule { rule }] if rule == "api"));
    /// println!("{}", forgotten[0]); // no rule is called "api" now, so its debts are forgotten
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(self, input: impl Read) -> Result<(TollgateLayer<R>, Vec<NotRestored>), RestoreError> {
        restored(self.build().map_err(unusable)?, input)
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
        restored(self.build_in_flight().map_err(unusable)?, input)
    }
}

fn unusable(error: BuildError) -> RestoreError {
    RestoreError::Settings(Box::new(error))
}

/// Restores the limiters of a layer that has just been built.
fn restored<R, B>(
    mut layer: TollgateLayer<R, B>,
    input: impl Read,
) -> Result<(TollgateLayer<R, B>, Vec<NotRestored>), RestoreError> {
    let LayerState { rules, clock, .. } =
        Arc::get_mut(layer.state_mut()).expect("a layer that was just built has no clones");
    let forgotten = restore(rules, clock, input)?;
    Ok((layer, forgotten))
}

fn restore(
    rules: &mut [CompiledRule],
    clock: &SharedClock,
    input: impl Read,
) -> Result<Vec<NotRestored>, RestoreError> {
    let mut input = Reader::begin(input, LAYER)?;
    let mut forgotten = Vec::new();
    while let Some((rule, part)) = Part::read(&mut input)? {
        let Some(limits) = part.limits() else {
            forgotten.push(NotRestored::PerRequest { rule });
            continue;
        };
        let compiled = rules.iter_mut().find(|compiled| *compiled.name == *rule);
        let is_known = compiled.is_some();
        let Some(limiter) = compiled.and_then(|compiled| compiled.limiter_mut(&part)) else {
            input.skip_limiter()?;
            if is_known {
                forgotten.push(NotRestored::Limits { rule, limits });
            } else if !forgotten.last().is_some_and(|last| last.is_of_rule(&rule)) {
                forgotten.push(NotRestored::Rule { rule });
            }
            continue;
        };
        match limiter.restore(&mut input, clock.clone()) {
            Ok(()) => {}
            Err(error) if error.is_damage() => return Err(error),
            Err(error) => forgotten.push(NotRestored::Changed { rule, limits, error }),
        }
    }
    input.finish()?;
    Ok(forgotten)
}

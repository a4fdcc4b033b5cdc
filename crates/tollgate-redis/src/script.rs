//! The scripts that decide in the store.
//!
//! Each limiter has two: one decides, the other gives back and resets. Both are put together from
//! the parts of the algorithms that the limiter has, because a script creates all of its functions
//! anew at each call. A third one decides plain checks of a single limit, in fewer steps and
//! almost without functions.

use std::sync::Arc;

use crate::quota::Kind;

/// A script and the hash by which the server knows it.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) text: &'static str,
    pub(crate) hash: Arc<str>,
}

/// The scripts of a limiter.
#[derive(Clone, Debug)]
pub(crate) struct Scripts {
    pub(crate) decide: Script,
    pub(crate) undo: Script,
    /// For plain checks, if the limiter is a single limit and no queue.
    pub(crate) short: Option<Script>,
}

// A `do` block for each part: its local names stay its own.
macro_rules! part {
    ($($file:literal),+) => { concat!("do\n", $(include_str!(concat!("script/", $file)),)+ "end\n") };
}

macro_rules! script {
    ($last:literal: $($part:expr),+) => {
        concat!(include_str!("script/head.lua"), $($part,)+ include_str!(concat!("script/", $last)))
    };
}

/// The short script with the part of a limit. The first line may tell the part more.
macro_rules! short {
    ($first:literal, $part:literal) => {
        concat!(
            $first,
            include_str!("script/short_head.lua"),
            include_str!(concat!("script/", $part)),
            include_str!("script/short_tail.lua")
        )
    };
}

/// The script for each set of families.
macro_rules! by_families {
    ($families:expr, $last:literal, $bucket:expr, $window:expr, $log:expr) => {
        match $families {
            1 => script!($last: $bucket),
            2 => script!($last: $window),
            3 => script!($last: $bucket, $window),
            4 => script!($last: $log),
            5 => script!($last: $bucket, $log),
            6 => script!($last: $window, $log),
            _ => script!($last: $bucket, $window, $log),
        }
    };
}

impl Script {
    /// The script with this text.
    #[must_use]
    pub fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().into() }
    }
}

impl Scripts {
    /// The scripts for limits of these kinds, of which there is at least one.
    pub(crate) fn of(kinds: &[Kind]) -> Self {
        let families = kinds.iter().fold(0, |families, kind| families | kind.family());
        let decide = by_families!(
            families,
            "decide.lua",
            part!("bucket_state.lua", "bucket.lua"),
            part!("window_state.lua", "window.lua"),
            part!("log_state.lua", "log.lua")
        );
        let undo = by_families!(
            families,
            "undo.lua",
            part!("bucket_state.lua", "bucket_undo.lua"),
            part!("window_state.lua", "window_undo.lua"),
            part!("log_state.lua", "log_undo.lua")
        );
        let short = match kinds {
            [Kind::Bucket] => Some(short!("", "short_bucket.lua")),
            [Kind::Fixed] => Some(short!("local slides = false\n", "short_window.lua")),
            [Kind::Sliding] => Some(short!("local slides = true\n", "short_window.lua")),
            [Kind::Log] => Some(short!("", "short_log.lua")),
            _ => None,
        };
        let short = short.map(Script::new);
        Self { decide: Script::new(decide), undo: Script::new(undo), short }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_the_parts_of_its_algorithms() {
        let has = |kinds: &[Kind], words: &str| Scripts::of(kinds).decide.text.contains(words);
        assert!(has(&[Kind::Queue], "rules.q"));
        assert!(!has(&[Kind::Bucket], "rules.f") && !has(&[Kind::Bucket], "rules.l"));
        assert!(has(&[Kind::Log, Kind::Fixed], "rules.f") && has(&[Kind::Log, Kind::Fixed], "rules.l"));
        for one in [Kind::Bucket, Kind::Fixed, Kind::Sliding, Kind::Log] {
            assert!(Scripts::of(&[one]).short.is_some(), "{one:?}");
        }
        assert!(Scripts::of(&[Kind::Bucket, Kind::Bucket]).short.is_none());
        assert!(Scripts::of(&[Kind::Queue]).short.is_none());
    }
}

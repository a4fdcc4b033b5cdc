//! The `option=value` parts of a limit, each known to its algorithm and given once.

use super::number;

/// The options of each algorithm, as an error lists them.
const OPTIONS: [(&str, &[(&str, &str)]); 5] = [
    ("token-bucket", &[("burst", "burst=N"), ("initial", "initial=N")]),
    ("leaky-bucket", &[("capacity", "capacity=N"), ("mode", "mode=meter|queue")]),
    ("fixed-window", &[("count", "count=allowed|all")]),
    ("sliding-window", &[("subwindows", "subwindows=N"), ("count", "count=allowed|all")]),
    ("sliding-log", &[("count", "count=allowed|all")]),
];

/// The options given, all of them the algorithm's own.
#[derive(Debug)]
pub(super) struct Options<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Options<'a> {
    pub(super) fn read(algorithm: &str, parts: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let known = OPTIONS.iter().find(|(name, _)| *name == algorithm).map_or(&[][..], |(_, known)| known);
        let mut given: Vec<(&str, &str)> = Vec::new();
        for part in parts {
            let Some((name, value)) = part.split_once('=') else {
                return Err(format!("{part:?} is not option=value"));
            };
            if !known.iter().any(|(option, _)| *option == name) {
                let known: Vec<_> = known.iter().map(|(_, form)| *form).collect();
                return Err(format!(
                    "{name:?} is no option of {algorithm}, which has {}",
                    known.join(" and ")
                ));
            }
            if given.iter().any(|(before, _)| *before == name) {
                return Err(format!("{name} is given twice"));
            }
            given.push((name, value));
        }
        Ok(Self(given))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find_map(|(given, value)| (*given == name).then_some(*value))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, String> {
        self.get(name).map(number::whole).transpose().map_err(|problem| format!("{name}: {problem}"))
    }

    pub(super) fn choice<T: Copy, const N: usize>(
        &self,
        name: &str,
        choices: [(&str, T); N],
    ) -> Result<Option<T>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match choices.iter().find(|(choice, _)| *choice == value) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => {
                Err(format!("{name}: {value:?} is none of {}", choices.map(|(choice, _)| choice).join(", ")))
            }
        }
    }
}

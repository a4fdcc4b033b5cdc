//! The files of vectors.

use std::path::PathBuf;
use std::{env, fs};

use serde_json::{Map, Value};

/// One scenario of a file.
pub(crate) struct Scenario(Value);

/// One step of a scenario.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a>(&'a Value);

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/model/vectors")
}

/// The names of all files, without the extension.
pub(crate) fn files() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("tests/vectors is part of the repository");
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let vectors = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    vectors.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

/// All scenarios of the file with this name.
pub(crate) fn load(file: &str) -> Vec<Scenario> {
    let path = folder().join(file).with_extension("json");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let json: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let scenarios = json["scenarios"].as_array().unwrap_or_else(|| panic!("{file} has no scenarios"));
    scenarios.iter().cloned().map(Scenario).collect()
}

impl Scenario {
    pub(crate) fn id(&self) -> &str {
        text(&self.0["id"])
    }

    pub(crate) fn algorithm(&self) -> &str {
        text(&self.0["algorithm"])
    }

    /// Returns the kind of the scenario: `steps`, `closed_loop`, `procedure` or a kind of table.
    pub(crate) fn kind(&self) -> &str {
        text(&self.0["kind"])
    }

    /// Returns the limiter in the peer's terms.
    pub(crate) fn config(&self) -> &Value {
        &self.0["config"]
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        self.list("steps").iter().map(Step)
    }

    /// Returns the elements of a list; none if there is no such list.
    pub(crate) fn list(&self, name: &str) -> &[Value] {
        self.0[name].as_array().map_or(&[], Vec::as_slice)
    }
}

impl<'a> Step<'a> {
    pub(crate) fn at(self) -> u64 {
        number(&self.0["t_ns"])
    }

    pub(crate) fn op(self) -> &'a str {
        text(&self.0["op"])
    }

    pub(crate) fn key(self) -> &'a str {
        text(&self.0["key"])
    }

    pub(crate) fn cost(self) -> u64 {
        number(&self.0["cost"])
    }

    /// Returns the name by which later steps refer to this one.
    pub(crate) fn name(self) -> Option<&'a str> {
        self.0.get("ref").map(text)
    }

    /// Returns the arguments of the operation in the peer's terms.
    pub(crate) fn args(self) -> &'a Value {
        &self.0["args"]
    }

    /// Returns what the peer's test asserts.
    pub(crate) fn expect(self) -> &'a Map<String, Value> {
        self.0["expect"].as_object().expect("a step says what it expects, if only {}")
    }
}

/// Returns a field that must be text.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} should be text"))
}

/// Returns a field that must be a whole number.
pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} should be a whole number"))
}

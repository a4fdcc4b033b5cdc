//! What the crates of this project log, as lines.

use std::fmt::{Debug, Write};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Metadata, Subscriber};

pub use tracing::Level;

/// A line for each event of this thread, as long as this lives: the level, and the fields with
/// their values.
pub struct Captured {
    lines: Arc<Mutex<Vec<String>>>,
    _subscribed: DefaultGuard,
}

/// Captures events of this level and of more important ones.
pub fn capture(level: Level) -> Captured {
    // With one subscriber alone, an event that another test's thread meets first would be disabled
    // for good, as that thread has none.
    static SECOND: LazyLock<Dispatch> =
        LazyLock::new(|| Dispatch::new(Lines { level: Level::TRACE, lines: Arc::default() }));
    LazyLock::force(&SECOND);
    let lines = Arc::default();
    let subscriber = Lines { level, lines: Arc::clone(&lines) };
    Captured { lines, _subscribed: tracing::subscriber::set_default(subscriber) }
}

impl Captured {
    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no test panics while it logs").clone()
    }
}

struct Lines {
    level: Level,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with("tollgate")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.lines.lock().expect("no test panics while it logs").push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("a string takes all");
    }
}

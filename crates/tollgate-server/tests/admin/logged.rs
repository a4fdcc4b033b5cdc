//! Everything that this process logs.

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

use tracing_subscriber::filter::LevelFilter;

#[derive(Clone, Default)]
pub(crate) struct Logged(Arc<Mutex<Vec<u8>>>);

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Logged {
    /// The log of the process, from the first call on, of the level of that. Tests that run beside
    /// log there, too.
    pub(crate) fn of_process(level: LevelFilter) -> Self {
        static LOGGED: OnceLock<Logged> = OnceLock::new();
        let logged = LOGGED.get_or_init(|| {
            let logged = Logged::default();
            logged.clone().start(level);
            logged
        });
        logged.clone()
    }

    fn start(self, level: LevelFilter) {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(move || self.clone())
            .with_ansi(false)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

//! Progress bars on standard error, if that is a terminal.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};
use tollgate_logs::Progress;

/// How often bars are redrawn.
const REDRAW: Duration = Duration::from_millis(100);

/// A bar that shows how much is read; dropping it removes it.
pub(crate) struct ReadingBar {
    stop: Option<Sender<()>>,
    drawing: Option<JoinHandle<()>>,
}

impl ReadingBar {
    /// A bar that follows `progress`; `None` when standard error is no terminal.
    pub(crate) fn watching(progress: &Arc<Progress>) -> Option<Self> {
        if !stderr().is_terminal() {
            return None;
        }
        let (stop, stopped) = mpsc::channel();
        let progress = Arc::clone(progress);
        let drawing = thread::spawn(move || {
            let bar = ProgressBar::no_length();
            bar.set_style(spinner(&progress));
            let mut has_total = false;
            while stopped.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
                if let Some(total) = progress.total().filter(|_| !has_total) {
                    has_total = true;
                    bar.set_style(style(
                        &progress,
                        "{bar:30} {percent:>3} %  {lines} lines  {rate}/s  {eta} left",
                    ));
                    bar.set_length(total);
                }
                bar.set_position(progress.bytes());
            }
            bar.finish_and_clear();
        });
        Some(Self { stop: Some(stop), drawing: Some(drawing) })
    }
}

impl Drop for ReadingBar {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(drawing) = self.drawing.take() {
            // A bar that cannot be drawn is no reason to end the command.
            let _ = drawing.join();
        }
    }
}

fn spinner(progress: &Arc<Progress>) -> ProgressStyle {
    style(progress, "{spinner} {lines} lines  {rate}/s  {elapsed}")
}

fn style(progress: &Arc<Progress>, template: &str) -> ProgressStyle {
    let (for_lines, for_rate) = (Arc::clone(progress), Arc::clone(progress));
    let lines = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
        let _ = write!(out, "{}", HumanCount(for_lines.lines()));
    };
    let rate = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let rate = for_rate.lines() as f64 / state.elapsed().as_secs_f64().max(0.001);
        let _ = write!(out, "{}", HumanCount(rate as u64));
    };
    ProgressStyle::with_template(template)
        .expect("the template is a constant that tests draw")
        .with_key("lines", lines)
        .with_key("rate", rate)
}

/// A bar of work whose amount is known; hidden when standard error is no terminal.
pub(crate) fn work_bar(amount: u64, what: &'static str) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = format!("{{bar:30}} {{percent:>3}} %  {what}  {{eta}} left");
    let bar = ProgressBar::new(amount);
    bar.set_style(
        ProgressStyle::with_template(&template).expect("the template is a constant that tests draw"),
    );
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_well_formed() {
        let progress = Arc::default();
        spinner(&progress);
        style(&progress, "{bar:30} {percent:>3} %  {lines} lines  {rate}/s  {eta} left");
        work_bar(1, "checking");
    }
}

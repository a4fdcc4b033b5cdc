//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

use tollgate_net::counts::Histogram;

/// A page in the making.
#[derive(Default)]
pub(super) struct Text {
    page: String,
    family: &'static str,
}

/// A label's name and value.
pub(super) type Label<'l> = (&'static str, &'l str);

impl Text {
    /// Begins a metric: all samples that follow are its.
    pub(super) fn family(&mut self, name: &'static str, kind: &str, help: &str) -> &mut Self {
        self.family = name;
        self.push(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        self
    }

    pub(super) fn sample(&mut self, labels: &[Label<'_>], value: impl Display) -> &mut Self {
        self.line("", labels, None, value);
        self
    }

    /// A histogram's samples. A whole number is shown divided by `unit`.
    pub(super) fn histogram<const N: usize>(
        &mut self,
        labels: &[Label<'_>],
        histogram: &Histogram<N>,
        bounds: &[u64],
        unit: f64,
    ) {
        let mut below = 0;
        for (count, bound) in histogram.counts.iter().zip(bounds) {
            below += count;
            self.line("_bucket", labels, Some(&(*bound as f64 / unit)), below);
        }
        self.line("_bucket", labels, Some(&"+Inf"), histogram.count());
        self.line("_sum", labels, None, histogram.sum as f64 / unit);
        self.line("_count", labels, None, histogram.count());
    }

    pub(super) fn into_page(self) -> String {
        self.page
    }

    fn line(&mut self, suffix: &str, labels: &[Label<'_>], bound: Option<&dyn Display>, value: impl Display) {
        let family = self.family;
        self.push(format_args!("{family}{suffix}"));
        let mut before = '{';
        for (name, value) in labels {
            self.push(format_args!("{before}{name}=\""));
            for character in value.chars() {
                match character {
                    '\\' => self.page.push_str("\\\\"),
                    '"' => self.page.push_str("\\\""),
                    '\n' => self.page.push_str("\\n"),
                    other => self.page.push(other),
                }
            }
            self.page.push('"');
            before = ',';
        }
        if let Some(bound) = bound {
            self.push(format_args!("{before}le=\"{bound}\""));
            before = ',';
        }
        let end = if before == ',' { "}" } else { "" };
        self.push(format_args!("{end} {value}\n"));
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        self.page.write_fmt(text).expect("writing to a text does not fail");
    }
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_as_prometheus_reads_them() {
        let mut text = Text::default();
        text.family("a_total", "counter", "All.").sample(&[("rule", "x\"\\\n"), ("mode", "b")], 3);
        text.family("b", "histogram", "Some.");
        text.histogram(&[], &Histogram { counts: [1, 0, 2], sum: 2_500 }, &[10, 1_000], 1_000.0);
        let lines: Vec<_> = text.page.lines().collect();
        assert_eq!(lines[2], "a_total{rule=\"x\\\"\\\\\\n\",mode=\"b\"} 3");
        assert_eq!(
            lines[5..],
            [
                "b_bucket{le=\"0.01\"} 1",
                "b_bucket{le=\"1\"} 1",
                "b_bucket{le=\"+Inf\"} 3",
                "b_sum 2.5",
                "b_count 3"
            ]
        );
    }
}

//! A log's own time, which never steps back.

/// The time at which a log's records are decided: the latest seen so far.
///
/// A log's records are not quite in order: servers write them when requests end, from several
/// workers, on machines whose clocks are adjusted. A limiter decides by one clock that never steps
/// back.
#[derive(Debug, Default)]
pub(crate) struct LogTime {
    span: Option<(u64, u64)>,
    out_of_order: u64,
}

impl LogTime {
    /// When a record that says `t_ns` is decided.
    pub(crate) fn decided_at(&mut self, t_ns: u64) -> u64 {
        let (first, latest) = self.span.unwrap_or((t_ns, t_ns));
        self.out_of_order += u64::from(t_ns < latest);
        let now = latest.max(t_ns);
        self.span = Some((first, now));
        now
    }

    /// The first record's time and the latest.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    /// How many records were earlier than one before them.
    pub(crate) fn out_of_order(&self) -> u64 {
        self.out_of_order
    }
}

#[cfg(test)]
mod tests {
    use super::LogTime;

    #[test]
    fn time_never_steps_back_and_such_records_are_counted() {
        let mut time = LogTime::default();
        let decided: Vec<u64> = [5, 7, 6, 7, 3, 9].map(|t| time.decided_at(t)).to_vec();
        assert_eq!(decided, [5, 7, 7, 7, 7, 9]);
        assert_eq!((time.span(), time.out_of_order()), (Some((5, 9)), 2));
    }
}

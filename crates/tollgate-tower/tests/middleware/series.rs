//! A recorder of metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// The values by name, and by label values. Of a histogram, the sum.
type Values = Arc<Mutex<BTreeMap<(String, String), f64>>>;

#[derive(Default)]
pub(crate) struct Series(Values);

impl Series {
    /// Returns the values of the series with this name, by their label values.
    pub(crate) fn named(&self, name: &str) -> BTreeMap<String, f64> {
        let values = self.0.lock().unwrap();
        values.iter().filter(|((of, _), _)| of == name).map(|((_, by), value)| (by.clone(), *value)).collect()
    }

    fn one(&self, key: &Key) -> Arc<One> {
        let labels: Vec<_> = key.labels().map(|label| label.value()).collect();
        Arc::new(One(Arc::clone(&self.0), (key.name().to_owned(), labels.join(" "))))
    }
}

struct One(Values, (String, String));

impl One {
    fn add(&self, value: f64) {
        *self.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }
}

impl CounterFn for One {
    fn increment(&self, by: u64) {
        self.add(by as f64);
    }

    fn absolute(&self, _: u64) {}
}

impl GaugeFn for One {
    fn increment(&self, by: f64) {
        self.add(by);
    }

    fn decrement(&self, by: f64) {
        self.add(-by);
    }

    fn set(&self, _: f64) {}
}

impl HistogramFn for One {
    fn record(&self, value: f64) {
        self.add(value);
    }
}

impl Recorder for Series {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.one(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.one(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.one(key))
    }
}

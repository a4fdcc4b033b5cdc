//! The pictures, and the figures that each takes from the results.

use tollgate_cli::plot::{compact, mark, powers, round_numbers, span, straight};

use crate::charts::bars::{self, Bar, Panel};
use crate::charts::lines::{self, Axis, Plot, Series};
use crate::charts::svg::{Look, Picture};
use crate::measure::Spread;
use crate::peers::FASTEST_PEER;
use crate::results::{MissingFigure, Results};
use crate::scaling::{CORES, Model};

/// Draws a picture.
type Draw = fn(&Results) -> Result<String, MissingFigure>;

/// The file and the function of each picture.
pub(super) const ALL: [(&str, Draw); 8] = [
    ("headline.svg", headline),
    ("keys.svg", keys),
    ("threads.svg", threads),
    ("latency-closed.svg", |results| latency(results, "closed loop", "each after the one before")),
    ("latency-open.svg", |results| latency(results, "open loop", "at set times and measured from these")),
    ("memory.svg", memory),
    ("scale-keys.svg", scale_keys),
    ("scale-cores.svg", scale_cores),
];

/// The contestants in the pictures: those that keep an exact limit for each key, governor in its
/// fastest form.
const DRAWN: [(&str, Look); 4] = [
    ("tollgate", Look::Ours),
    (FASTEST_PEER, Look::First),
    ("rate-net", Look::Second),
    ("Mutex<HashMap>", Look::Third),
];

/// The floor of one key, and of keys that have recovered, whose table may be small.
const FLOOR_OF_ONE: &str = "floor: clock + CAS";
/// The floor of many keys.
const FLOOR_OF_MANY: &str = "floor: hash + clock + CAS";

const EXPLAINED: &str = "Floor: the clock and one compare-exchange, on a random line of memory where many keys are in \
                         debt; it decides nothing, and no limiter can beat it.";

fn floor_of(workload: &str) -> &'static str {
    if workload.starts_with("hot") || workload.contains("recovered") { FLOOR_OF_ONE } else { FLOOR_OF_MANY }
}

/// Collects figures, and whether any of them was disturbed.
struct Figures<'a> {
    results: &'a Results,
    is_disturbed: bool,
}

impl<'a> Figures<'a> {
    fn from(results: &'a Results) -> Self {
        Self { results, is_disturbed: false }
    }

    fn spread(&mut self, workload: &str, contestant: &str) -> Result<Spread, MissingFigure> {
        self.is_disturbed |= self.results.is_disturbed(workload, contestant);
        self.results.spread(workload, contestant)
    }

    /// Returns a label, with an asterisk if the contestant was disturbed in any of these workloads.
    fn label(&self, label: &str, contestant: &str, workloads: &[&str]) -> String {
        let is_disturbed = workloads.iter().any(|workload| self.results.is_disturbed(workload, contestant));
        format!("{label}{}", if is_disturbed { "*" } else { "" })
    }

    fn bar(
        &mut self,
        workload: &str,
        contestant: &str,
        label: &str,
        look: Look,
    ) -> Result<Bar, MissingFigure> {
        let label = self.label(label, contestant, &[workload]);
        Ok(Bar { label, look, value: self.spread(workload, contestant)? })
    }

    /// Returns a panel of all contestants in a workload.
    fn panel(&mut self, heading: &str, workload: &str) -> Result<Panel, MissingFigure> {
        let drawn = DRAWN.map(|(name, look)| self.bar(workload, name, name, look));
        let floor = self.bar(workload, floor_of(workload), "floor", Look::Floor);
        let bars = drawn.into_iter().chain([floor]).collect::<Result<_, _>>()?;
        Ok(Panel { heading: heading.to_owned(), bars })
    }

    /// Returns the notes of the picture, followed by the origin of the figures.
    fn notes(&self, own: &[&str]) -> Vec<String> {
        let disturbed = "* Others' work held a processor for more than 5 % of the time.";
        let disturbed = self.is_disturbed.then_some(disturbed);
        own.iter().copied().chain(disturbed).map(str::to_owned).chain(self.results.origin()).collect()
    }
}

const WHISKER: &str = "Bars end at the median, the line through the end joins the quartiles; each part has its own axis, from zero.";

fn headline(results: &Results) -> Result<String, MissingFigure> {
    let mut figures = Figures::from(results);
    let panels = [
        figures.panel("One key, in the cache", "hot key, allow")?,
        figures.panel("A million keys, each in debt", "1M keys uniform, allow")?,
        figures.panel("A million recovered keys, 100 a second each", "1M recovered keys, 100/s")?,
    ];
    let mut picture =
        Picture::new("What a check costs", "nanoseconds an admitted check, one thread; shorter is better");
    bars::draw(&mut picture, &panels);
    let note = "Many keys are checked at random. Recovered keys come back after their debt has passed, as most clients do.";
    Ok(picture.finish(&figures.notes(&[note, EXPLAINED, WHISKER])))
}

fn memory(results: &Results) -> Result<String, MissingFigure> {
    let mut figures = Figures::from(results);
    let mut panel = |heading: &str, workload: &str| -> Result<Panel, MissingFigure> {
        let bars = DRAWN.map(|(name, look)| figures.bar(workload, name, name, look));
        Ok(Panel { heading: heading.to_owned(), bars: bars.into_iter().collect::<Result<_, _>>()? })
    };
    let panels =
        [panel("A million keys", "1M keys, memory")?, panel("Ten million keys", "10M keys, memory")?];
    let mut picture =
        Picture::new("What a key takes in memory", "resident bytes a key of 8 bytes; shorter is better");
    bars::draw(&mut picture, &panels);
    let note =
        "What is resident in a process of its own after every key was asked once, less what was before.";
    Ok(picture.finish(&figures.notes(&[note])))
}

fn keys(results: &Results) -> Result<String, MissingFigure> {
    const WORKLOADS: [(u64, &str); 5] = [
        (1, "hot key, allow"),
        (1_000, "1k keys uniform, allow"),
        (50_000, "50k keys uniform, allow"),
        (1_000_000, "1M keys uniform, allow"),
        (10_000_000, "10M keys uniform, allow"),
    ];
    let mut figures = Figures::from(results);
    // The last workload has 10^7 keys.
    let place = |keys: u64| (keys as f64).log10() / 7.0;
    let mut series = Vec::new();
    for (name, look) in DRAWN.into_iter().chain([("floor", Look::Floor)]) {
        let mut points = Vec::new();
        for (keys, workload) in WORKLOADS {
            let who = if look == Look::Floor { floor_of(workload) } else { name };
            points.push((place(keys), figures.spread(workload, who)?));
        }
        let label = figures.label(name, name, &WORKLOADS.map(|(_, workload)| workload));
        series.push(Series { label, look, is_model: false, points });
    }
    let (least, most) = least_and_most(&series);
    let (least, most) = (least as u64, most.ceil() as u64);
    // An axis has two marks at least.
    let marks = round_numbers(least, most.max(least + 1)).into_iter().map(|mark| mark as f64).collect();
    let plot = Plot {
        heading: String::new(),
        height: 260.0,
        axis: Axis { marks, format: mark, is_log: true },
        labels: WORKLOADS.map(|(keys, _)| (place(keys), compact(keys))).into(),
        axis_title: "keys, each in debt, asked at random".to_owned(),
        series,
    };
    let mut picture = Picture::new(
        "What a check costs, by the number of keys",
        "nanoseconds an admitted check, one thread; log scales; lower is better",
    );
    lines::draw(&mut picture, &plot);
    Ok(picture
        .finish(&figures.notes(&[EXPLAINED, "Dots are medians, the lines through them join the quartiles."])))
}

fn threads(results: &Results) -> Result<String, MissingFigure> {
    let counts: Vec<usize> = results
        .workloads()
        .filter_map(|name| name.strip_prefix("hot key, allow, ")?.strip_suffix(" threads")?.parse().ok())
        .collect();
    if counts.is_empty() {
        return Err("there is no `hot key, allow, 2 threads`".to_owned());
    }
    let mut figures = Figures::from(results);
    let mut panels = Vec::new();
    for (heading, workload) in [
        ("One key, admitted", "hot key, allow"),
        ("One key, refused", "hot key, deny"),
        ("A million keys, admitted", "1M keys uniform, allow"),
    ] {
        let mut bars = Vec::new();
        let lease = (workload == "hot key, allow").then_some(("tollgate (lease)", Look::Ours));
        for (name, look) in DRAWN.into_iter().take(1).chain(lease).chain(DRAWN.into_iter().skip(1)) {
            let of = if look == Look::Ours && name != "tollgate" { "hot key, lease" } else { workload };
            for &threads in [1].iter().chain(&counts) {
                let within = if threads == 1 { of.to_owned() } else { format!("{of}, {threads} threads") };
                let label = if threads == 1 { format!("{name}, 1") } else { threads.to_string() };
                let mut bar = figures.bar(&within, name, &label, look)?;
                // 1,000 ns a check are a million checks a second.
                let Spread { low, median, high } = bar.value.inverse();
                bar.value = Spread { low: low * 1e3, median: median * 1e3, high: high * 1e3 };
                bars.push(bar);
            }
        }
        panels.push(Panel { heading: heading.to_owned(), bars });
    }
    let mut picture = Picture::new(
        "What threads get done together",
        "million checks a second in all, by threads; longer is better",
    );
    bars::draw(&mut picture, &panels);
    let note = "A lease takes many permits at once, and its thread spends them.";
    Ok(picture.finish(&figures.notes(&[note, WHISKER])))
}

/// The cost by the number of keys, as far as memory reaches.
fn scale_keys(results: &Results) -> Result<String, MissingFigure> {
    let mut powers: Vec<u32> = results
        .workloads()
        .filter_map(|name| name.strip_prefix("scale, 10^")?.strip_suffix(" keys")?.parse().ok())
        .collect();
    powers.sort_unstable();
    let last =
        *powers.last().filter(|&&last| last > 0).ok_or("there is no `scale, 10^8 keys` (--filter scale)")?;
    let mut figures = Figures::from(results);
    let place = |power: u32| f64::from(power) / f64::from(last);
    let mut series = Vec::new();
    for (who, label, look) in [
        ("tollgate", "one by one", Look::Ours),
        ("tollgate (batches of 32)", "batches of 32", Look::Second),
        (FLOOR_OF_MANY, "floor", Look::Floor),
    ] {
        let points = powers
            .iter()
            .map(|&power| Ok((place(power), figures.spread(&format!("scale, 10^{power} keys"), who)?)))
            .collect::<Result<_, MissingFigure>>()?;
        let workloads: Vec<String> = powers.iter().map(|power| format!("scale, 10^{power} keys")).collect();
        let workloads: Vec<&str> = workloads.iter().map(String::as_str).collect();
        let label = figures.label(label, who, &workloads);
        series.push(Series { label, look, is_model: false, points });
    }
    let most = series.iter().flat_map(|series| &series.points).map(|(_, spread)| spread.high);
    let plot = Plot {
        heading: String::new(),
        height: 260.0,
        axis: Axis { marks: straight(most.fold(0.0, f64::max)), format: mark, is_log: false },
        labels: powers.iter().map(|&power| (place(power), compact(10_u64.pow(power)))).collect(),
        axis_title: "keys, asked at random, log scale".to_owned(),
        series,
    };
    let mut picture = Picture::new(
        "How the cost grows with the keys",
        "nanoseconds an admitted check of Tollgate, one thread; lower is better",
    );
    lines::draw(&mut picture, &plot);
    Ok(picture.finish(&figures.notes(&[EXPLAINED])))
}

/// The throughput by the number of cores: a few measured points and the model.
fn scale_cores(results: &Results) -> Result<String, MissingFigure> {
    let model = Model::of(results)?;
    let last = CORES[CORES.len() - 1];
    let place = |cores: usize| (cores as f64).log2() / (last as f64).log2();
    let exact = |(cores, rate): (usize, f64)| (place(cores), Spread { low: rate, median: rate, high: rate });
    let mut series = Vec::new();
    let looks = [Look::First, Look::Second, Look::Third, Look::Ours];
    for (projection, look) in model.projections.into_iter().zip(looks) {
        let (from, beyond) = (projection.measured[1], projection.beyond.into_iter());
        let beyond: Vec<_> = [from].into_iter().chain(beyond).map(exact).collect();
        series.push(Series { label: projection.name.to_owned(), look, is_model: true, points: beyond });
        let points = projection.measured.map(exact).into();
        series.push(Series { label: String::new(), look, is_model: false, points });
    }
    let (least, most) = least_and_most(&series);
    let plot = Plot {
        heading: String::new(),
        height: 300.0,
        axis: Axis { marks: powers(least, most), format: mark, is_log: true },
        labels: CORES.map(|cores| (place(cores), cores.to_string())).into(),
        axis_title: "cores".to_owned(),
        series,
    };
    let mut picture = Picture::new(
        "Tollgate on more cores: a model",
        "million checks a second in all, log scales; dashes: not measured",
    );
    lines::draw(&mut picture, &plot);
    let notes: Vec<&str> = model.assumptions.iter().map(String::as_str).collect();
    Ok(picture.finish(&Figures::from(results).notes(&notes)))
}

/// Returns the range of the medians, above zero, for a log scale.
fn least_and_most<'a>(series: impl IntoIterator<Item = &'a Series>) -> (f64, f64) {
    let all = series.into_iter().flat_map(|series| &series.points).map(|(_, spread)| spread.median.max(1.0));
    all.fold((f64::MAX, 1.0), |(least, most), figure| (least.min(figure), most.max(figure)))
}

fn latency(results: &Results, pace: &str, explanation: &str) -> Result<String, MissingFigure> {
    let mut figures = Figures::from(results);
    let mut plots = Vec::new();
    for load in ["alone", "during growth", "during a flood"] {
        let workload = format!("latency {load}, {pace}");
        let (mut series, mut labels) = (Vec::new(), Vec::new());
        for (name, look) in DRAWN {
            figures.spread(&workload, name)?;
            let latencies = results.latencies(&workload, name)?;
            let place = |nth: usize| nth as f64 / (latencies.len().max(2) - 1) as f64;
            labels = latencies
                .iter()
                .enumerate()
                .map(|(nth, (name, _))| (place(nth), (*name).to_owned()))
                .collect();
            let exact = |value: f64| Spread { low: value, median: value, high: value };
            let points = latencies.iter().enumerate().map(|(nth, (_, value))| (place(nth), exact(*value)));
            series.push(Series {
                label: figures.label(name, name, &[&workload]),
                look,
                is_model: false,
                points: points.collect(),
            });
        }
        plots.push((load, labels, series));
    }
    let (least, most) = least_and_most(plots.iter().flat_map(|(_, _, series)| series));
    let mut picture = Picture::new(
        &format!("How long the slow checks take ({pace})"),
        "latency by percentile, log scale; lower is better",
    );
    for (load, labels, series) in plots {
        let mut heading = load.to_owned();
        heading[..1].make_ascii_uppercase();
        let format = |nanos| span(nanos as u64);
        let axis = Axis { marks: powers(least, most), format, is_log: true };
        let axis_title = "of all checks".to_owned();
        lines::draw(&mut picture, &Plot { heading, height: 150.0, axis, labels, axis_title, series });
    }
    let note = format!(
        "One thread's checks, {explanation}, over a million keys (a hundred thousand during growth); during growth and floods \
         another thread brings new keys as fast as it can. Two readings of the clock are in each."
    );
    Ok(picture.finish(&figures.notes(&[&note])))
}

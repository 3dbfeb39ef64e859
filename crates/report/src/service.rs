//! A service under its load: the needs of the plain server, the effect of each arm, and how pairs were made.

use crate::csv::{known, samples};
use crate::experiment::{effect_cells, picture, reason, short_arm, short_word};
use crate::number::{change, counted, signed_bytes, three_digits};
use crate::page::ReportDocument;
use crate::paragraph::Paragraph;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::guard::GuardFinding;
use pagewise_model::measured::mean;
use pagewise_model::service::{
    ServerMeasurement, ServerMemory, ServerPair, ServiceMode, ServiceWindow, TunedService,
};
use pagewise_model::spec::{ServerSpec, ServiceSpec};
use pagewise_model::trial::{ArmVerdict, ComparedQuantity, Experiment};
use pagewise_model::{Bytes, Nanos};

/// Every arm that was tried on a service.
pub(crate) fn service_section(
    asked: Option<&ServiceSpec>,
    service: &TunedService,
    experiment: &Experiment,
) -> ReportDocument {
    let mut page = ReportDocument::default();
    let quantity = experiment.design.quantity;
    let (noun, beside) = (quantity.noun(), aside(quantity).noun());
    page.heading(&format!("what was tried ({noun}, p99 and {beside} against the first row)"));
    page.table(arms_table(service, experiment));
    if let Some(picture) = picture(experiment) {
        page.figure(picture);
    }
    page.para(&made_text(service, experiment), 2, TextTone::Faint);
    if let Some(asked) = asked {
        page.para(&load_text(asked), 2, TextTone::Faint);
    }
    page
}

/// The quantity shown beside p99 and the deciding one.
const fn aside(quantity: ComparedQuantity) -> ComparedQuantity {
    match quantity {
        ComparedQuantity::Memory => ComparedQuantity::CpuPerRequest,
        _ => ComparedQuantity::Memory,
    }
}

/// The noun for one observation: singular and plural.
const fn unit(service: &TunedService) -> (&'static str, &'static str) {
    match service.mode {
        ServiceMode::AtOnce | ServiceMode::Duet | ServiceMode::Restart => ("pair", "pairs"),
        ServiceMode::Toggle => ("block", "blocks"),
    }
}

/// The effect of each arm; the plain server comes first.
pub(crate) fn arms_table(service: &TunedService, experiment: &Experiment) -> ReportTable {
    let quantity = experiment.design.quantity;
    let beside = [ComparedQuantity::P99, aside(quantity)];
    let mut table = headed(service, experiment, &beside);
    for verdict in &experiment.verdicts {
        let under = std::iter::once(reason(verdict)).chain(huge_text(service, &verdict.arm));
        let under = under.map(|text| Paragraph::new(text, 6, TextTone::Faint)).collect();
        table.row_with(arm_row(service, experiment, verdict, &beside), under);
    }
    table
}

/// As [`arms_table`], for these arms, without reasons, and with only p99 beside the deciding quantity.
pub(crate) fn brief_table(
    service: &TunedService,
    experiment: &Experiment,
    arms: &[&ArmVerdict],
) -> ReportTable {
    let beside = [ComparedQuantity::P99];
    let mut table = headed(service, experiment, &beside);
    for verdict in arms {
        table.row(arm_row(service, experiment, verdict, &beside));
    }
    table
}

/// A table of arms with the plain server in its first row.
fn headed(
    service: &TunedService,
    experiment: &Experiment,
    beside: &[ComparedQuantity],
) -> ReportTable {
    let quantity = experiment.design.quantity;
    let first = [
        ("arm", ColumnAlignment::Name),
        (quantity.noun(), ColumnAlignment::Decimal),
        ("95%", ColumnAlignment::Decimal),
    ];
    let label = |one: &ComparedQuantity| match one {
        ComparedQuantity::P99 => "p99",
        other => other.noun(),
    };
    let beside_columns = beside.iter().map(|one| (label(one), ColumnAlignment::Decimal));
    let last = [(unit(service).1, ColumnAlignment::Right), ("verdict", ColumnAlignment::Left)];
    let columns: Vec<_> = first.into_iter().chain(beside_columns).chain(last).collect();
    let mut table = ReportTable::new(&columns);
    if service.first.is_some() {
        table.row(plain_row(service, &experiment.design.control, quantity, beside));
    }
    table
}

fn plain_row(
    service: &TunedService,
    name: &str,
    quantity: ComparedQuantity,
    beside: &[ComparedQuantity],
) -> Vec<TableCell> {
    let sides = service.plain_sides();
    let shown = |of: ComparedQuantity| TableCell::from(figure_text(of, figure(of, &sides)));
    let mut row = vec![name.into(), shown(quantity), "".into()];
    row.extend(beside.iter().map(|one| shown(*one)));
    row.extend([service.pairs.len().to_string().into(), "reference".into()]);
    row
}

/// A figure of servers over all their windows: seconds, bytes, or requests per second. `None` if the load did
/// not report it.
pub(crate) fn figure(quantity: ComparedQuantity, sides: &[&ServerMeasurement]) -> Option<f64> {
    let windows = || sides.iter().flat_map(|side| side.windows_apart());
    let values: Vec<f64> = match quantity {
        ComparedQuantity::Memory => {
            sides.iter().map(|side| side.at_last.pss_bytes.0 as f64).collect()
        }
        ComparedQuantity::P99 => windows().filter_map(|window| window.load.latency.p99).collect(),
        ComparedQuantity::Throughput | ComparedQuantity::Time => {
            windows().filter_map(ServiceWindow::rate).collect()
        }
        ComparedQuantity::CpuPerRequest | ComparedQuantity::Cpu => {
            let sum = |of: fn(&ServiceWindow) -> f64| windows().map(of).sum::<f64>();
            let requests = sum(|window| window.load.requests);
            let cpu = sum(|window| window.cpu_ns.0 as f64);
            (requests > 0.0).then(|| cpu / 1e9 / requests).into_iter().collect()
        }
    };
    (!values.is_empty()).then(|| mean(&values))
}

/// Formats such a figure.
pub(crate) fn figure_text(quantity: ComparedQuantity, value: Option<f64>) -> String {
    let Some(value) = value else { return "none".to_owned() };
    match quantity {
        ComparedQuantity::Memory => Bytes(value as u64).to_string(),
        ComparedQuantity::Throughput | ComparedQuantity::Time => {
            format!("{}/s", three_digits(value))
        }
        ComparedQuantity::P99 | ComparedQuantity::CpuPerRequest | ComparedQuantity::Cpu => {
            seconds(value)
        }
    }
}

fn seconds(value: f64) -> String {
    Nanos::from_f64(value * 1e9).to_string()
}

fn arm_row(
    service: &TunedService,
    experiment: &Experiment,
    verdict: &ArmVerdict,
    beside: &[ComparedQuantity],
) -> Vec<TableCell> {
    let (word, tone) = short_word(verdict, experiment.design.quantity, false);
    let mut row: Vec<TableCell> = vec![short_arm(&verdict.arm).into()];
    let none = format!("no {}", unit(service).1);
    row.extend(effect_cells(verdict.effect.as_ref(), tone, &none));
    let p99 = |one: &&GuardFinding| {
        one.arm == verdict.arm && one.guard.quantity == Some(ComparedQuantity::P99)
    };
    let p99 = experiment.guarded.iter().find(p99).and_then(|one| one.ratio);
    let shown = |one: &ComparedQuantity| match one {
        ComparedQuantity::P99 => {
            Some(p99.map_or_else(|| "none".to_owned(), |(ratio, ..)| change(ratio)))
        }
        ComparedQuantity::Memory => verdict.peak_rss_change_bytes.map(signed_bytes),
        other => {
            let of = |side: fn(&ServerPair) -> &ServerMeasurement| {
                figure(*other, &of_arm(service, &verdict.arm).map(side).collect::<Vec<_>>())
            };
            of(|pair| &pair.other)
                .zip(of(|pair| &pair.plain))
                .map(|(arm, plain)| change(arm / plain))
        }
    };
    row.extend(beside.iter().map(|one| TableCell::from(shown(one).unwrap_or_default())));
    row.push(of_arm(service, &verdict.arm).count().to_string().into());
    row.push(TableCell::new(word, tone));
    row
}

fn of_arm<'a>(service: &'a TunedService, arm: &'a str) -> impl Iterator<Item = &'a ServerPair> {
    service.pairs.iter().filter(move |pair| pair.arm == arm)
}

/// How much of an arm's memory was on huge pages; `None` if that is about the same as the plain server's.
fn huge_text(service: &TunedService, arm: &str) -> Option<String> {
    let huge =
        |holding: &ServerMemory| (holding.anon_huge_bytes.0 + holding.file_huge_bytes.0) as f64;
    let of = |side: fn(&ServerPair) -> &ServerMeasurement,
              at: fn(&ServerMeasurement) -> &ServerMemory| {
        mean(&of_arm(service, arm).map(|pair| huge(at(side(pair)))).collect::<Vec<_>>())
    };
    let [first, last] =
        [(|s: &ServerMeasurement| &s.at_first) as fn(&ServerMeasurement) -> &ServerMemory, |s| {
            &s.at_last
        }]
        .map(|at| of(|pair| &pair.other, at));
    let plain = of(|pair| &pair.plain, |side| &side.at_last);
    let differs = (last - plain).abs().max((first - plain).abs()) >= 2.0 * f64::from(1 << 20);
    differs.then(|| {
        let bytes = |value: f64| Bytes(value as u64);
        let reference = match service.mode {
            ServiceMode::AtOnce | ServiceMode::Duet | ServiceMode::Restart => "the plain server",
            ServiceMode::Toggle => "switched off",
        };
        format!(
            "on huge pages: {} when the load began, {} at its end; {reference} {}",
            bytes(first),
            bytes(last),
            bytes(plain)
        )
    })
}

const HEADER: &str = "pair,arm,mode,side,window,at_once,cpu_ns,wall_ns,generator_cpu_ns,requests,errors,rate_per_second,\
mean_seconds,p50_seconds,p95_seconds,p99_seconds,ready_ns,warm_ups,pss_bytes,anon_huge_bytes,file_huge_bytes";

/// Every counted run of the load, one line each.
pub(crate) fn service_csv(service: &TunedService) -> String {
    let sides = service.pairs.iter().enumerate().flat_map(|(number, pair)| {
        [("plain", &pair.plain), ("arm", &pair.other)]
            .map(|(name, side)| (number, pair, name, side))
    });
    let points = sides.map(|(number, pair, name, side)| {
        let lead = [number.to_string(), pair.arm.clone(), pair.mode.into_str().into(), name.into()];
        (lead.to_vec(), side.windows.iter().enumerate().map(|one| cells(side, one)).collect())
    });
    samples(HEADER, points)
}

fn cells(side: &ServerMeasurement, (number, window): (usize, &ServiceWindow)) -> Vec<String> {
    let load = &window.load;
    let mut cells = vec![
        number.to_string(),
        window.at_once.to_string(),
        window.cpu_ns.0.to_string(),
        window.wall_ns.0.to_string(),
        window.generator_cpu_ns.0.to_string(),
        load.requests.to_string(),
    ];
    let latency = &load.latency;
    cells.extend(
        [load.errors, load.rate, latency.mean, latency.p50, latency.p95, latency.p99].map(known),
    );
    let last = &side.at_last;
    let counts = [
        side.ready_ns.0,
        side.warm_ups.into(),
        last.pss_bytes.0,
        last.anon_huge_bytes.0,
        last.file_huge_bytes.0,
    ];
    cells.extend(counts.map(|count| count.to_string()));
    cells
}

/// How the two sides of a pair ran.
fn how_text(service: &TunedService) -> String {
    let text = match service.mode {
        ServiceMode::AtOnce => {
            "the servers of a pair on the same CPUs at the same time for CPU time, then each on half of the CPUs"
        }
        ServiceMode::Duet => {
            "both servers of a pair at once, each on half of the CPUs, which they swap"
        }
        ServiceMode::Restart => "one server after the other, which needs more pairs",
        ServiceMode::Toggle => {
            "one process, in random order; nothing is shown of another start of it"
        }
    };
    match service.pairs.iter().filter(|pair| pair.mode != service.mode).count() {
        0 => text.to_owned(),
        apart => format!(
            "{text}; in {apart} of the pairs one after the other, because they would share the \
             huge pages of a file"
        ),
    }
}

fn made_text(service: &TunedService, experiment: &Experiment) -> String {
    let (one, several) = unit(service);
    let pairs = counted(service.pairs.len() as u64, one, several);
    let windows = service.pairs.first().map_or(0, |pair| pair.plain.windows.len());
    let windows = counted(windows as u64, "run", "runs");
    let plain = if service.pairs.is_empty() { Vec::new() } else { service.plain_sides() };
    let starts = service.pairs.iter().map(|pair| &pair.other).chain(plain);
    let all: Vec<&ServiceWindow> = starts.flat_map(|side| &side.windows).collect();
    // An empty float sum is -0.
    let requests = all.iter().fold(0.0, |sum, window| sum + window.load.requests);
    let failed = all.iter().filter_map(|window| window.load.errors).fold(0.0, |sum, one| sum + one);
    let times: Vec<f64> = all.iter().map(|window| window.wall_ns.0 as f64).collect();
    let of_what = match service.mode {
        ServiceMode::AtOnce | ServiceMode::Duet | ServiceMode::Restart => {
            format!("of fresh starts, {windows} of the load on each")
        }
        ServiceMode::Toggle => format!("of {windows} of the load with each remedy off and on"),
    };
    format!(
        "{pairs} {of_what}, {} long; {requests:.0} requests, {failed:.0} failed; {} ({}: {}); seed {}, budget {}",
        Nanos::from_f64(mean(&times)),
        how_text(service),
        service.mode.into_str(),
        service.mode_why,
        experiment.design.seed,
        experiment.design.budget_ns
    )
}

fn load_text(asked: &ServiceSpec) -> String {
    let load = format!("load: {} (read as {})", asked.load, asked.metric);
    match asked.server {
        ServerSpec::Running { pid } => format!("process {pid}: {}; {load}", asked.serve),
        ServerSpec::Started { .. } => load,
    }
}

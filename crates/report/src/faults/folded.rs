//! Faults as folded stacks, the input of flame graphs: `file;function;what lives there` and a
//! weight. Callers are not recorded, so each stack is the instruction's file and function, with the
//! mapping it touched as the leaf.

use crate::faults::site_name;
use crate::text::escape;
use pagewise_model::fault::{Fault, Names};
use std::collections::BTreeMap;

/// Stacks under construction.
#[derive(Debug)]
pub struct Folded {
    by_time: bool,
    weights: BTreeMap<String, u64>,
}

impl Folded {
    /// Nothing yet; weighted by nanoseconds of latency, or by number.
    #[must_use]
    pub const fn new(by_time: bool) -> Self {
        Self { by_time, weights: BTreeMap::new() }
    }

    /// Adds faults.
    pub fn add(&mut self, names: &Names, faults: &[Fault]) {
        for fault in faults {
            let weight = match self.by_time {
                true => fault.latency_ns.known().map_or(0, |ns| ns.0),
                false => 1,
            };
            *self.weights.entry(stack(names, fault)).or_default() += weight;
        }
    }

    /// All stacks, a line each; those without weight are left out.
    #[must_use]
    pub fn lines(&self) -> String {
        let weighty = self.weights.iter().filter(|(_, weight)| **weight > 0);
        weighty.map(|(stack, weight)| format!("{stack} {weight}\n")).collect()
    }
}

fn stack(names: &Names, fault: &Fault) -> String {
    let site = names.sites.get(fault.site as usize);
    let file = site.map_or("", |site| site.path.as_str());
    let function = site
        .map_or_else(String::new, |site| site.function.clone().unwrap_or_else(|| site_name(site)));
    let kind = names.places.get(fault.place as usize).map_or("unknown", |p| p.kind.label());
    let frame = |text: &str| escape(text).replace([';', ' '], "_");
    let file = if file.is_empty() { "[no file]" } else { file };
    format!("{};{};[{kind}]", frame(file), frame(&function))
}

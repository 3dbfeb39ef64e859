//! Faults as folded stacks, the input of flame graphs: frames from the outermost on, what lives
//! there as the leaf, and a weight. Where the stack of a fault was not recorded, the instruction's
//! file and function stand for it.

use super::{callers, site_name};
use crate::text::escape;
use pagewise_model::fault::{Fault, Names, Site};
use std::collections::BTreeMap;

/// Stacks under construction.
#[derive(Debug)]
pub(super) struct Folded {
    by_time: bool,
    weights: BTreeMap<String, u64>,
}

impl Folded {
    /// Nothing yet; weighted by nanoseconds of latency, or by number.
    pub(super) const fn new(by_time: bool) -> Self {
        Self { by_time, weights: BTreeMap::new() }
    }

    /// Adds faults.
    pub(super) fn add(&mut self, names: &Names, faults: &[Fault]) {
        for fault in faults {
            let weight = match self.by_time {
                true => fault.latency_ns.known().map_or(0, |ns| ns.0),
                false => 1,
            };
            *self.weights.entry(stack(names, fault)).or_default() += weight;
        }
    }

    /// All stacks, a line each; those without weight are left out.
    pub(super) fn lines(&self) -> String {
        let weighty = self.weights.iter().filter(|(_, weight)| **weight > 0);
        weighty.map(|(stack, weight)| format!("{stack} {weight}\n")).collect()
    }
}

fn stack(names: &Names, fault: &Fault) -> String {
    let site = names.site(fault);
    let kind = names.place(fault).map_or("unknown", |p| p.kind.label());
    let mut frames: Vec<String> = callers(names, fault).rev().map(function).collect();
    if frames.is_empty() {
        let file = site.map_or("", |site| site.path.as_str());
        frames.push(frame(if file.is_empty() { "[no file]" } else { file }));
    }
    frames.extend(site.map(function));
    frames.push(format!("[{kind}]"));
    frames.join(";")
}

/// A function by its own name, or where it is.
fn function(site: &Site) -> String {
    frame(&site.function.clone().unwrap_or_else(|| site_name(site)))
}

fn frame(text: &str) -> String {
    escape(text).replace([';', ' '], "_")
}

//! Guards of a running service, checked after each window. A harmful remedy must not stay on longer than it
//! takes to see the harm.
//!
//! A window breaks a guard in three cases: requests failed; memory exceeded its bound; or the windows with
//! the remedy on lie, on average, beyond the bound and more than [`SURE`] standard errors above those with it
//! off. The evidence of whole blocks later finds what this check misses.

use super::window_value;
use crate::guards::{GuardFigures, broken_text};
use pagewise_model::guard::ArmGuard;
use pagewise_model::service::{ServerMemory, ServiceWindow};
use pagewise_model::trial::ComparedQuantity;
use std::collections::BTreeMap;

/// Windows with the remedy off that are needed for their deviation.
const LEAST: usize = 4;
/// Standard errors: each window is looked at, and one of ten is a stray.
const SURE: f64 = 5.0;
/// By this share of its degrees of freedom a deviation of few windows is widened, as Student's quantiles are.
const FEW: f64 = 1.0;
/// Deviation of the logarithm that windows have at least, however equal the first ones are.
const LEAST_DEVIATION: f64 = 0.05;

/// All windows so far.
#[derive(Debug, Clone)]
pub struct ServiceWatch<'a> {
    guards: &'a [ArmGuard],
    off: Vec<ServiceWindow>,
    /// With a remedy on, by arm.
    on: BTreeMap<usize, Vec<ServiceWindow>>,
}

impl<'a> ServiceWatch<'a> {
    /// Creates a watch with these guards. `off` are windows without a change.
    #[must_use]
    pub const fn new(guards: &'a [ArmGuard], off: Vec<ServiceWindow>) -> Self {
        Self { guards, off, on: BTreeMap::new() }
    }

    /// Adds a window without a change.
    pub fn add_off(&mut self, window: &ServiceWindow) {
        self.off.push(window.clone());
    }

    /// Adds a window with this arm's remedy on. Returns what it breaks.
    #[must_use]
    pub fn add_on(&mut self, arm: usize, window: &ServiceWindow) -> Option<String> {
        self.on.entry(arm).or_default().push(window.clone());
        let on = self.on.get(&arm).map(Vec::as_slice).unwrap_or_default();
        let bound = |guard: &ArmGuard| passed(guard.quantity?, *guard, &self.off, on);
        self.failed(window).or_else(|| self.guards.iter().find_map(bound))
    }

    /// What failed requests break. This also checks windows that count for nothing else.
    #[must_use]
    pub fn failed(&self, window: &ServiceWindow) -> Option<String> {
        let errors = window.load.errors.unwrap_or(0.0);
        let guard = self.guards.iter().find(|guard| guard.quantity.is_none() && errors > 0.0)?;
        Some(broken_text(*guard, 1.0, errors))
    }

    /// What memory with the remedy on breaks. Little memory breaks nothing.
    #[must_use]
    pub fn memory(&self, off: &ServerMemory, on: &ServerMemory) -> Option<String> {
        let (before, after) = (off.pss_bytes.0, on.pss_bytes.0);
        let ratio = after as f64 / (before as f64).max(1.0);
        let more = after.cast_signed().saturating_sub(before.cast_signed());
        let beside = GuardFigures { errors: 0.0, memory_change_bytes: Some(more) };
        let is_passed = |guard: &&ArmGuard| {
            guard.quantity == Some(ComparedQuantity::Memory)
                && ratio > 1.0 + guard.limit_share
                && beside.counts(guard)
        };
        self.guards.iter().find(is_passed).map(|guard| broken_text(*guard, ratio, 0.0))
    }
}

fn passed(
    quantity: ComparedQuantity,
    guard: ArmGuard,
    off: &[ServiceWindow],
    on: &[ServiceWindow],
) -> Option<String> {
    let values = |windows: &[ServiceWindow]| -> Option<Vec<f64>> {
        windows.iter().map(|window| window_value(quantity, window)).collect()
    };
    let (off, on) = (values(off)?, values(on)?);
    if off.len() < LEAST || on.is_empty() {
        return None;
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let (usual, now) = (mean(&off), mean(&on));
    let squares: f64 = off.iter().map(|value| (value - usual).powi(2)).sum();
    let freedom = (off.len() - 1) as f64;
    // A deviation of few windows may be far too small.
    let deviation = (squares / freedom).sqrt().max(LEAST_DEVIATION) * (1.0 + FEW / freedom);
    let error = deviation * (1.0 / on.len() as f64 + 1.0 / off.len() as f64).sqrt();
    let ratio = (now - usual).exp();
    let is_broken = ratio > 1.0 + guard.limit_share && now - usual > SURE * error;
    is_broken.then(|| broken_text(guard, ratio, 0.0))
}

//! CPU samples for other tools: folded stacks for flame graphs, and profiles for Firefox Profiler, pprof and
//! OpenTelemetry. The last two use the same [`tables`], which faults use as well.
//!
//! Aggregated samples have no timestamps. In the profile each stack stands once, weighted by its samples. So
//! call tree and flame graph are right, and the time line has no meaning.

mod firefox;
mod otlp;
mod pprof;
mod protobuf;
pub(crate) mod tables;

use crate::escape::escape;
use pagewise_model::profile::{ProfiledStack, StackSamples, UserFrame};
use pagewise_model::run::SavedRun;
use protobuf::ProtobufMessage;
use std::borrow::Cow;
use tables::{ProfileQuantity, ProfileTables};

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum ProfileForm {
    /// `process;root;...;leaf COUNT`, kernel frames marked `_[k]`.
    Folded,
    /// For profiler.firefox.com.
    Firefox,
    /// For pprof, compressed.
    Pprof,
    /// For OpenTelemetry: its profiles, in binary.
    Otlp,
}

/// The samples of `run` in this form.
#[must_use]
pub fn profile_export(samples: &StackSamples, run: &SavedRun, form: ProfileForm) -> Vec<u8> {
    match form {
        ProfileForm::Folded => samples.stacks.iter().map(folded).collect::<String>().into_bytes(),
        ProfileForm::Firefox => firefox::write(samples, run),
        ProfileForm::Pprof => pprof::write(tables(samples, run)),
        ProfileForm::Otlp => otlp::write(tables(samples, run), program(run)),
    }
}

/// The tables of `run` as bytes, for pprof or OpenTelemetry.
pub(crate) fn from_tables(mut tables: ProfileTables, run: &SavedRun, is_pprof: bool) -> Vec<u8> {
    tables.date(run, 0);
    if is_pprof { pprof::write(tables) } else { otlp::write(tables, program(run)) }
}

/// The message that both formats call `ValueType`: a name and a unit.
fn quantity(tables: &mut ProfileTables, quantity: ProfileQuantity) -> ProtobufMessage {
    let (name, unit) = (tables.text(quantity.name), tables.text(quantity.unit));
    ProtobufMessage::default().number(1, u64::from(name)).number(2, u64::from(unit))
}

/// The program that was run.
fn program(run: &SavedRun) -> &str {
    run.command.first().map_or("", |word| word.rsplit('/').next().unwrap_or_default())
}

fn tables(samples: &StackSamples, run: &SavedRun) -> ProfileTables {
    let mut tables = ProfileTables::new(tables::OF_SAMPLES);
    let period = samples.period_ns.0.max(1);
    for stack in &samples.stacks {
        let kernel = stack.kernel.iter().map(|function| {
            let function = Cow::from(&**function);
            tables::ProfileFrame { function, file: KERNEL, offset: 0, is_kernel: true }
        });
        let user = stack.user.iter().map(|frame| tables::ProfileFrame {
            function: named(frame).into(),
            file: &frame.path,
            offset: frame.offset_bytes.0,
            is_kernel: false,
        });
        let values = [stack.count, stack.count.saturating_mul(period)];
        tables.add(&stack.process, kernel.chain(user), values);
    }
    tables.date(run, period);
    tables
}

/// The file of the kernel's functions.
const KERNEL: &str = "[kernel.kallsyms]";

/// The name of a program's frame: its function, or its position.
fn named(frame: &UserFrame) -> String {
    match &frame.function {
        Some(function) => function.to_string(),
        None if frame.path.is_empty() => format!("{:#x}", frame.offset_bytes.0),
        None => {
            let file = frame.path.rsplit('/').next().unwrap_or_default();
            format!("{file}+{:#x}", frame.offset_bytes.0)
        }
    }
}

/// Names of the frames, outermost first, and whether they are kernel frames.
fn frames(stack: &ProfiledStack) -> impl Iterator<Item = (String, bool)> + '_ {
    let user = stack.user.iter().rev().map(|frame| (named(frame), false));
    user.chain(stack.kernel.iter().rev().map(|function| (function.to_string(), true)))
}

fn folded(stack: &ProfiledStack) -> String {
    // The separators of frames and counts must not appear in a name.
    let plain = |text: &str| escape(text).replace(';', ":");
    let mut line = plain(&stack.process);
    for (name, is_kernel) in frames(stack) {
        line.push(';');
        line.push_str(&plain(&name));
        line.push_str(if is_kernel { "_[k]" } else { "" });
    }
    format!("{line} {}\n", stack.count)
}

#[cfg(test)]
mod tests;

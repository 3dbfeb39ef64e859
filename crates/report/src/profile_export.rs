//! CPU samples for other tools: folded stacks for flame graphs, and a profile for Firefox Profiler.
//!
//! Samples that were added up have no moments: in the profile each stack stands once, weighted by its samples,
//! so call tree and flame graph are right and the time line says nothing.

use crate::text::escape;
use fxprof_processed_profile::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, ReferenceTimestamp,
    SamplingInterval, Timestamp,
};
use pagewise_model::profile::{ProfiledStack, StackSamples, UserFrame};
use pagewise_model::run::Run;

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileForm {
    /// `process;root;...;leaf COUNT`, kernel frames marked `_[k]`.
    Folded,
    /// For profiler.firefox.com.
    Firefox,
}

/// The samples of `run` in this form.
#[must_use]
pub fn profile_export(samples: &StackSamples, run: &Run, form: ProfileForm) -> String {
    match form {
        ProfileForm::Folded => samples.stacks.iter().map(folded).collect(),
        ProfileForm::Firefox => firefox(samples, run),
    }
}

/// The name of a frame of a program: its function, or where it lies.
fn named(frame: &UserFrame) -> String {
    match &frame.function {
        Some(function) => function.clone(),
        None if frame.path.is_empty() => format!("{:#x}", frame.offset_bytes.0),
        None => {
            let file = frame.path.rsplit('/').next().unwrap_or_default();
            format!("{file}+{:#x}", frame.offset_bytes.0)
        }
    }
}

/// Names of the frames, outermost first, and whether they are the kernel's.
fn frames(stack: &ProfiledStack) -> impl Iterator<Item = (String, bool)> + '_ {
    let user = stack.user.iter().rev().map(|frame| (named(frame), false));
    user.chain(stack.kernel.iter().rev().map(|function| (function.clone(), true)))
}

fn folded(stack: &ProfiledStack) -> String {
    // What divides frames and counts must not stand in a name.
    let plain = |text: &str| escape(text).replace(';', ":");
    let mut line = plain(&stack.process);
    for (name, is_kernel) in frames(stack) {
        line.push(';');
        line.push_str(&plain(&name));
        line.push_str(if is_kernel { "_[k]" } else { "" });
    }
    format!("{line} {}\n", stack.count)
}

fn firefox(samples: &StackSamples, run: &Run) -> String {
    let start = ReferenceTimestamp::from_millis_since_unix_epoch(run.started_unix_ns as f64 / 1e6);
    let period = samples.period_ns.0.max(1);
    let mut profile = Profile::new("pagewise", start, SamplingInterval::from_nanos(period));
    profile.set_symbolicated(true);
    profile.set_product(&run.command.join(" "));
    let user = profile.add_category("Program", CategoryColor::Blue);
    let kernel = profile.add_category("Kernel", CategoryColor::Orange);
    let begin = Timestamp::from_nanos_since_reference(0);
    let mut at = 0;
    for (process, number) in processes(samples) {
        let handle = profile.add_process(process, number, begin);
        let thread = profile.add_thread(handle, number, begin, true);
        for stack in samples.stacks.iter().filter(|stack| stack.process == process) {
            let infos: Vec<FrameInfo> = frames(stack)
                .map(|(name, is_kernel)| FrameInfo {
                    frame: Frame::Label(profile.intern_string(&name)),
                    category_pair: if is_kernel { kernel } else { user }.into(),
                    flags: FrameFlags::empty(),
                })
                .collect();
            let handle = profile.intern_stack_frames(thread, infos.into_iter());
            let took = period.saturating_mul(stack.count);
            at += took;
            let moment = Timestamp::from_nanos_since_reference(at);
            let weight = i32::try_from(stack.count).unwrap_or(i32::MAX);
            profile.add_sample(thread, moment, handle, CpuDelta::from_nanos(took), weight);
        }
    }
    serde_json::to_string(&profile).unwrap_or_default() + "\n"
}

/// Names of processes in the order of their first stack, with a number each.
fn processes(samples: &StackSamples) -> Vec<(&str, u32)> {
    let mut names: Vec<&str> = Vec::new();
    for stack in &samples.stacks {
        if !names.contains(&stack.process.as_str()) {
            names.push(&stack.process);
        }
    }
    names.into_iter().zip(1..).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::run::RunKind;
    use pagewise_model::{Bytes, Nanos};

    fn samples() -> StackSamples {
        let frame = |function: Option<&str>| UserFrame {
            path: "/usr/bin/my;app".into(),
            offset_bytes: Bytes(16),
            function: function.map(str::to_owned),
            maker: None,
        };
        let stack = |kernel: &[&str], count| ProfiledStack {
            process: "app".into(),
            kernel: kernel.iter().map(|name| (*name).to_owned()).collect(),
            user: vec![frame(None), frame(Some("main"))],
            count,
        };
        let stacks = vec![stack(&["clear_page_erms", "asm_exc_page_fault"], 7), stack(&[], 3)];
        StackSamples { stacks, period_ns: Nanos(250_000), ..StackSamples::default() }
    }

    fn exported(form: ProfileForm) -> String {
        let run = Run::new(RunKind::Profile, "r".into(), 0, vec!["app".into()]);
        profile_export(&samples(), &run, form)
    }

    #[test]
    fn folded_stacks_begin_with_the_process() {
        assert_eq!(
            exported(ProfileForm::Folded),
            "app;main;my:app+0x10;asm_exc_page_fault_[k];clear_page_erms_[k] 7\napp;main;my:app+0x10 3\n"
        );
    }

    #[test]
    fn a_profile_holds_every_sample() {
        let json: serde_json::Value =
            serde_json::from_str(&exported(ProfileForm::Firefox)).unwrap();
        let thread = &json["threads"][0];
        let weights: Vec<i64> = thread["samples"]["weight"]
            .as_array()
            .unwrap()
            .iter()
            .map(|weight| weight.as_i64().unwrap())
            .collect();
        assert_eq!(weights, [7, 3]);
        assert!(json.to_string().contains("clear_page_erms"));
    }
}

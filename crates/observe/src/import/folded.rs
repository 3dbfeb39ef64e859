//! Folded stacks: one line for each stack, `process;root;...;leaf COUNT`.

use super::enters_kernel;
use super::stacks::{Frame, Stack, Stacks};

/// The mark of a kernel frame (`stackcollapse-perf.pl --kernel`).
const KERNEL: &str = "_[k]";
/// Marks of frames of programs: inlined, compiled at run time, of a library.
const OTHERS: [&str; 3] = ["_[i]", "_[j]", "_[u]"];

/// Process, its frames and the count of a line.
fn parts(line: &str) -> Option<(&str, impl Iterator<Item = &str>, u64)> {
    let (stack, count) = line.trim().rsplit_once(' ')?;
    let count = count.parse().ok()?;
    let mut frames = stack.split(';');
    let process = frames.next().filter(|name| !name.is_empty())?;
    Some((process, frames, count))
}

/// Whether this line is a folded stack.
pub(super) fn is_stack(line: &str) -> bool {
    parts(line).is_some()
}

/// Adds the stack of a line.
pub(super) fn line(line: &str, stack: &mut Stack, to: &mut Stacks) {
    if line.trim().is_empty() || line.starts_with('#') {
        return;
    }
    let Some((process, frames, count)) = parts(line) else {
        to.unknown_lines += 1;
        return;
    };
    stack.begin(to.texts.number(process));
    let mut is_kernel = false;
    for frame in frames {
        if let Some(name) = frame.strip_suffix(KERNEL) {
            stack.kernel.push(to.texts.number(name));
            continue;
        }
        is_kernel = is_kernel || enters_kernel(frame);
        if is_kernel {
            stack.kernel.push(to.texts.number(frame));
        } else {
            let name = OTHERS.iter().find_map(|mark| frame.strip_suffix(mark)).unwrap_or(frame);
            let (path, function) = (to.texts.number(""), Some(to.texts.number(name)));
            stack.user.push(to.frame(Frame { path, function, offset: 0 }));
        }
    }
    stack.kernel.reverse();
    stack.user.reverse();
    to.add(stack, count);
}

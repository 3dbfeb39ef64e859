//! Folded stacks: one line for each stack, `process;root;...;leaf COUNT`.

use super::enters_kernel;
use super::stacks::{FrameCache, ImportedFrame, ImportedStack, ImportedStacks};

/// The mark of a kernel frame (`stackcollapse-perf.pl --kernel`).
const KERNEL: &str = "_[k]";
/// Marks of frames of programs: inlined, compiled at run time, of a library.
const OTHERS: [&str; 3] = ["_[i]", "_[j]", "_[u]"];

/// Process, its frames and the count of a line.
fn parts(line: &str) -> Option<(&str, impl Iterator<Item = &str>, u64)> {
    let (stack, count) = line.trim_ascii_end().rsplit_once(' ')?;
    let count =
        count.parse().ok().filter(|_| count.starts_with(|digit: char| digit.is_ascii_digit()))?;
    // Other tables have columns.
    if stack.starts_with(char::is_whitespace) || stack.ends_with(char::is_whitespace) {
        return None;
    }
    let mut frames = stack.split(';');
    let process = frames.next().filter(|name| !name.is_empty())?;
    Some((process, frames, count))
}

/// Whether this line is a folded stack.
pub(super) fn is_stack(line: &str) -> bool {
    parts(line).is_some()
}

/// Folded stacks while their lines come.
#[derive(Debug, Default)]
pub(super) struct FoldedReader {
    stack: ImportedStack,
    names: FrameCache<FoldedFrame>,
}

/// What a frame's name says of it.
#[derive(Debug, Clone, Copy)]
enum FoldedFrame {
    /// Marked as the kernel's: its text.
    Kernel(u32),
    /// The first of the kernel's: its text.
    Entry(u32),
    /// Of the program, unless the kernel was entered: its frame and its text as it stands.
    User { frame: u32, text: u32 },
}

impl FoldedReader {
    pub(super) fn kept_bytes(&self) -> u64 {
        self.names.kept_bytes()
    }

    /// Adds the stack of a line; whether it is one, or nothing.
    pub(super) fn line(&mut self, line: &str, to: &mut ImportedStacks) -> bool {
        if line.trim().is_empty() || line.starts_with('#') {
            return true;
        }
        let Some((process, frames, count)) = parts(line) else { return false };
        let stack = &mut self.stack;
        stack.begin(to.texts.number(process));
        let mut is_kernel = false;
        for name in frames {
            match self.names.get(name, || part(name, to)) {
                FoldedFrame::Kernel(text) => stack.kernel.push(text),
                FoldedFrame::Entry(text) => {
                    is_kernel = true;
                    stack.kernel.push(text);
                }
                FoldedFrame::User { text, .. } if is_kernel => stack.kernel.push(text),
                FoldedFrame::User { frame, .. } => stack.user.push(frame),
            }
        }
        stack.kernel.reverse();
        stack.user.reverse();
        to.add(stack, count);
        true
    }
}

fn part(name: &str, to: &mut ImportedStacks) -> FoldedFrame {
    if let Some(name) = name.strip_suffix(KERNEL) {
        return FoldedFrame::Kernel(to.texts.number(name));
    }
    let text = to.texts.number(name);
    if enters_kernel(name) {
        return FoldedFrame::Entry(text);
    }
    let name = OTHERS.iter().find_map(|mark| name.strip_suffix(mark)).unwrap_or(name);
    let (path, function) = (to.texts.number(""), Some(to.texts.number(name)));
    FoldedFrame::User { frame: to.frame(ImportedFrame { path, function, offset: 0 }), text }
}

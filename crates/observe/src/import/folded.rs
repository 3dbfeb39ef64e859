//! Folded stacks: one line for each stack, `process;root;...;leaf COUNT`.

use super::{Key, enters_kernel};

/// The mark of a kernel frame (`stackcollapse-perf.pl --kernel`).
const KERNEL: &str = "_[k]";
/// Marks of frames of programs: inlined, compiled at run time, of a library.
const OTHERS: [&str; 3] = ["_[i]", "_[j]", "_[u]"];

/// The stack of a line and how often it was seen.
pub(super) fn parse(line: &str) -> Option<(Key, u64)> {
    let (stack, count) = line.trim().rsplit_once(' ')?;
    let count = count.parse().ok()?;
    let mut frames = stack.split(';');
    let process = frames.next().filter(|name| !name.is_empty())?.to_owned();
    let mut key = Key { process, ..Key::default() };
    let mut is_kernel = false;
    for frame in frames {
        match frame.strip_suffix(KERNEL) {
            Some(name) => key.kernel.push(name.to_owned()),
            None => {
                is_kernel |= enters_kernel(frame);
                if is_kernel {
                    key.kernel.push(frame.to_owned());
                } else {
                    let name = OTHERS.iter().find_map(|mark| frame.strip_suffix(mark));
                    key.user.push((String::new(), name.unwrap_or(frame).to_owned()));
                }
            }
        }
    }
    key.kernel.reverse();
    key.user.reverse();
    Some((key, count))
}

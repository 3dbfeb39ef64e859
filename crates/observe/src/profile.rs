//! The functions of a program in the stacks of its profile, by the symbols of its files.
//!
//! As [`crate::faults`] has them: not demangled, none of files that are gone or of code of no file. Cost:
//! the symbols of a file are read once (1-100 ms by their number), a look-up is a binary search.

use crate::faults::Images;
use pagewise_model::profile::StackSamples;

/// Looks the functions of all user frames up.
pub fn name_functions(samples: &mut StackSamples) {
    let mut images = Images::default();
    for frame in samples.stacks.iter_mut().flat_map(|stack| &mut stack.user) {
        frame.function = images.function(&frame.path, frame.offset_bytes.0);
    }
}

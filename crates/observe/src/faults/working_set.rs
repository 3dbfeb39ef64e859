//! The files of a working set as they are now: what a later start compares before it reads ahead.
//!
//! A file that is not there any more, is not a regular file or may not be read is left out. Cost: one
//! open and one look at its notes for each file.

use pagewise_kernel::file_view::open_regular;
use pagewise_model::Bytes;
use pagewise_model::fault::{WORKING_SET_SCHEMA, WorkingFile, WorkingRange, WorkingSet};
use pagewise_tracee::read_ahead;
use std::path::Path;

/// The working set of `command` from the touched parts of files, and the paths that are left out.
#[must_use]
pub fn identify(
    command: &[String],
    touched: Vec<(String, Vec<WorkingRange>)>,
) -> (WorkingSet, Vec<String>) {
    let (mut files, mut left_out) = (Vec::new(), Vec::new());
    for (path, ranges) in touched {
        match file(&path, &ranges) {
            Some(file) => files.push(file),
            None => left_out.push(path),
        }
    }
    let command = command.to_vec();
    (WorkingSet { working_set_schema: WORKING_SET_SCHEMA, command, files }, left_out)
}

fn file(path: &str, ranges: &[WorkingRange]) -> Option<WorkingFile> {
    let (file, size) = open_regular(Path::new(path)).ok()?;
    let size = size as u64;
    let within = |range: &WorkingRange| {
        let left = size.checked_sub(range.offset_bytes.0).filter(|left| *left > 0)?;
        Some(WorkingRange { length_bytes: Bytes(range.length_bytes.0.min(left)), ..*range })
    };
    Some(WorkingFile {
        path: path.to_owned(),
        size_bytes: Bytes(size),
        modified_unix_ns: read_ahead::modified(&file)?,
        build_id: read_ahead::build_id(&file),
        ranges: ranges.iter().filter_map(within).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Nanos;

    fn range(offset: u64, length: u64) -> WorkingRange {
        WorkingRange {
            offset_bytes: Bytes(offset),
            length_bytes: Bytes(length),
            first_touch_ns: Nanos(0),
        }
    }

    #[test]
    fn ranges_end_with_the_file_and_what_is_gone_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data").to_string_lossy().into_owned();
        std::fs::write(&path, vec![1; 5000]).unwrap();
        let touched = vec![
            (path.clone(), vec![range(0, 65536), range(131_072, 4096)]),
            ("/nonexistent/file".to_owned(), vec![range(0, 1)]),
            ("/dev/zero".to_owned(), vec![range(0, 1)]),
        ];
        let (set, left_out) = identify(&["x".to_owned()], touched);
        assert_eq!(left_out, ["/nonexistent/file", "/dev/zero"]);
        let [file] = &set.files[..] else { panic!("{:?}", set.files) };
        assert_eq!(
            (&file.path, file.size_bytes, file.build_id.as_ref()),
            (&path, Bytes(5000), None)
        );
        assert_eq!(file.ranges, [range(0, 5000)]);
        assert_eq!(set.size(), Bytes(5000));
    }
}

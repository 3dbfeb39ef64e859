//! The current state of a working set's files: a later start compares it before it reads ahead.
//!
//! Files that no longer exist, are not regular files or may not be read are left out. So is a file that was
//! written since the recording began: it would be a different one at the next start. Beyond [`MOST_FILES`],
//! the files touched last are left out. Cost: one open and one stat for each file.

use pagewise_kernel::file_view::open_regular;
use pagewise_model::Bytes;
use pagewise_model::fault::{WORKING_SET_SCHEMA, WorkingSet, WorkingSetFile, WorkingSetRange};
use pagewise_tracee::read_ahead::{self, MOST_FILES};
use std::path::Path;

/// The working set of `command` from the touched parts of files, and the paths that are left out, each with
/// the reason. The recording began at `began_unix_ns`.
#[must_use]
pub fn identify(
    command: &[String],
    mut touched: Vec<(String, Vec<WorkingSetRange>)>,
    began_unix_ns: u64,
) -> (WorkingSet, Vec<(String, &'static str)>) {
    let (mut files, mut left_out) = (Vec::new(), Vec::new());
    let first = |ranges: &[WorkingSetRange]| ranges.iter().map(|range| range.first_touch_ns).min();
    if touched.len() > MOST_FILES {
        touched.sort_by_cached_key(|(_, ranges)| first(ranges));
        let rest = touched.split_off(MOST_FILES);
        left_out.extend(rest.into_iter().map(|(path, _)| (path, "there are too many files")));
        touched.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
    for (path, ranges) in touched {
        match file(&path, &ranges) {
            Some(file) if file.modified_unix_ns >= began_unix_ns => {
                left_out.push((path, "it was written meanwhile"));
            }
            // A file without content after trimming.
            Some(file) if file.ranges.is_empty() => {}
            Some(file) => files.push(file),
            None => left_out.push((path, "it is gone, or cannot be read")),
        }
    }
    let command = command.to_vec();
    (WorkingSet { working_set_schema: WORKING_SET_SCHEMA, command, files }, left_out)
}

fn file(path: &str, ranges: &[WorkingSetRange]) -> Option<WorkingSetFile> {
    let (file, size) = open_regular(Path::new(path)).ok()?;
    let size = size as u64;
    let within = |range: &WorkingSetRange| {
        let left = size.checked_sub(range.offset_bytes.0).filter(|left| *left > 0)?;
        Some(WorkingSetRange { length_bytes: Bytes(range.length_bytes.0.min(left)), ..*range })
    };
    Some(WorkingSetFile {
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

    fn range(offset: u64, length: u64) -> WorkingSetRange {
        WorkingSetRange {
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
        let (set, left_out) = identify(&["x".to_owned()], touched.clone(), u64::MAX);
        let gone = "it is gone, or cannot be read";
        assert_eq!(
            left_out,
            [("/nonexistent/file".to_owned(), gone), ("/dev/zero".to_owned(), gone)]
        );
        let [file] = &set.files[..] else { panic!("{:?}", set.files) };
        assert_eq!(
            (&file.path, file.size_bytes, file.build_id.as_ref()),
            (&path, Bytes(5000), None)
        );
        assert_eq!(file.ranges, [range(0, 5000)]);
        assert_eq!(set.size(), Bytes(5000));
        let (set, left_out) = identify(&["x".to_owned()], touched, 0);
        assert_eq!((set.files.len(), &left_out[0]), (0, &(path, "it was written meanwhile")));
    }

    #[test]
    fn of_too_many_files_those_touched_first_are_kept() {
        let own = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let mut touched = vec![("/nonexistent/file".to_owned(), vec![range(0, 1)]); MOST_FILES];
        let late = WorkingSetRange { first_touch_ns: Nanos(1), ..range(0, 1) };
        touched.insert(0, (own.clone(), vec![late]));
        let (set, left_out) = identify(&[], touched.clone(), u64::MAX);
        assert!(set.files.is_empty() && left_out[0] == (own.clone(), "there are too many files"));
        touched.pop();
        assert_eq!(identify(&[], touched, u64::MAX).0.files.len(), 1);
    }
}

use super::*;
use crate::page_probe;
use rustix::fs::{CWD, FileType, mknodat};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A file of `len` bytes in a directory of its own.
fn written(len: Bytes) -> (tempfile::TempDir, File, usize) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, vec![7; len.0 as usize]).unwrap();
    let (file, len) = open_regular(&path).unwrap();
    (dir, file, len)
}

fn own_mapping_of(view: &FileView) -> (u64, u64) {
    let listed = view.listed().unwrap();
    (listed.start, listed.end)
}

#[test]
fn views_begin_at_boundaries_and_leave_nothing_beside_them() {
    let huge = page_size::huge().bytes();
    if huge > Bytes::mib(64).0 {
        return println!("SKIP views_begin_at_boundaries: a huge page of {huge} bytes");
    }
    let (_dir, file, len) = written(Bytes(huge + 1));
    let view = FileView::map(&file, len).unwrap();
    let (start, end) = own_mapping_of(&view);
    assert_eq!(start % huge, 0);
    assert_eq!(end - start, (len as u64).next_multiple_of(page_size::base().bytes()));
    let around = maps::read(own_pid()).unwrap();
    let reserved = |m: &Mapping| !m.perms.read && (m.end == start || m.start == end);
    assert!(!around.iter().any(reserved), "reserved address space is given back");
}

#[test]
fn what_was_written_is_resident_and_can_be_entered() {
    let page = page_size::base().bytes() as usize;
    let (_dir, file, len) = written(Bytes(5 * page as u64 + 1));
    let view = FileView::map(&file, len).unwrap();
    assert_eq!((view.len(), view.is_empty()), (len, false));
    assert_eq!(view.resident_pages(0, len).unwrap(), [true; 6]);
    assert_eq!(view.resident_pages(4 * page, usize::MAX).unwrap().len(), 2);
    assert!(is_answered_for(&file) && page_probe::is_cached(&file, 0));
    view.enter(page, page).unwrap();
    assert_eq!(view.frames().unwrap().len(), 6);
    assert_eq!(view.huge_bytes().unwrap(), Bytes(0));
    match view.huge_ranges() {
        Ok(ranges) => assert!(ranges.is_empty()),
        Err(error) => println!("SKIP huge ranges: {error}"),
    }
}

#[test]
fn what_a_fault_brings_along_takes_none_of_its_own() {
    let page = page_size::base().bytes();
    let (_dir, file, len) = written(Bytes(200 * page));
    let faults = |shift: u64, pages: &[usize]| {
        let part = 2 * page..len as u64;
        let view = FileView::map_part(&file, part, (shift * page) as usize).unwrap();
        assert_eq!(own_mapping_of(&view).0 % page_size::huge().bytes(), shift * page);
        view.count_faults(pages.iter().map(|at| at * page as usize)).unwrap()
    };
    let all: Vec<usize> = (0..198).collect();
    for shift in [0, 5] {
        let taken = faults(shift, &all);
        assert!((1..=198).contains(&taken), "{taken}");
        // Later touches of the same pages, and pages beyond the end, cause no fault.
        assert_eq!(faults(shift, &[&all[..], &all[..], &[1000]].concat()), taken);
    }
    assert_eq!(faults(0, &[0, 190, 0, 190]), 2);
}

#[test]
fn a_file_that_is_shortened_is_an_error_and_no_signal() {
    let page = page_size::base().bytes() as usize;
    let (dir, file, len) = written(Bytes(4 * page as u64));
    let view = FileView::map(&file, len).unwrap();
    let path = dir.path().join("file");
    File::options().write(true).open(path).unwrap().set_len(1).unwrap();
    let error = view.enter(2 * page, page).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EFAULT), "{error}");
}

#[test]
fn a_file_is_read_whole_up_to_a_size() {
    let (dir, _file, _len) = written(Bytes(10));
    let path = dir.path().join("file");
    assert_eq!(read_at_most(&path, Bytes(10)).unwrap(), [7; 10]);
    let error = read_at_most(&path, Bytes(9)).unwrap_err().to_string();
    assert!(error.ends_with("it is larger than 9 B"), "{error}");
}

#[test]
fn a_pipe_that_is_open_here_is_read_by_its_number() {
    let number = |end: &OwnedFd| PathBuf::from(format!("/proc/self/fd/{}", end.as_raw_fd()));
    let (read, write) = rustix::pipe::pipe().unwrap();
    // A read would wait for the writer.
    let error = read_named(&number(&write), Bytes(5)).unwrap_err().to_string();
    assert!(error.contains("Bad file descriptor"), "{error}");
    rustix::io::write(&write, b"12345").unwrap();
    drop(write);
    assert_eq!(read_named(&number(&read), Bytes(5)).unwrap(), b"12345");
    let (read, write) = rustix::pipe::pipe().unwrap();
    rustix::io::write(&write, b"123456").unwrap();
    let error = read_named(&number(&read), Bytes(5)).unwrap_err().to_string();
    assert!(error.ends_with("it is larger than 5 B"), "{error}");
}

#[test]
fn what_is_no_file_with_content_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (fifo, empty) = (dir.path().join("fifo"), dir.path().join("empty"));
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    std::fs::write(&empty, []).unwrap();
    let said = |path: &Path| open_regular(path).unwrap_err().to_string();
    // Without a writer, a plain open of the FIFO would wait for ever.
    for path in [&fifo, Path::new("/dev/zero"), dir.path()] {
        assert!(said(path).ends_with("not a regular file"), "{}", said(path));
    }
    assert!(said(&empty).ends_with("the file is empty"));
    assert!(said(Path::new("/nonexistent")).starts_with("`stat` on /nonexistent failed"));
}

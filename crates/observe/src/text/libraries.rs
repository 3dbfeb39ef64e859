//! The libraries that programs need, found as the dynamic loader of glibc finds them, without running it. A
//! loader that runs maps untrusted files and starts to execute their instructions.
//!
//! For each needed name these are searched: the directories of the file's own `DT_RPATH` if it has no
//! `DT_RUNPATH`, those of `LD_LIBRARY_PATH`, those of `DT_RUNPATH`, each with `$ORIGIN` for the file's own
//! directory, the list that `ldconfig` keeps (`/etc/ld.so.cache`), then the usual directories. A found file
//! counts if it is an ELF file of the same class and machine. Not seen: what is loaded later by dlopen(3),
//! preloaded libraries, `$LIB`, `$PLATFORM`, the search of a file by the `DT_RPATH` of those that need it,
//! subdirectories for processors with more instructions, and the search path files of other C libraries.

use super::layout::ElfFile;
use pagewise_kernel::file_view::open_regular;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

const CACHE: &str = "/etc/ld.so.cache";
/// The directories that the loader searches last. The x86-64 and aarch64 ones are those of Debian.
const USUAL: [&str; 6] =
    ["/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib", "/usr/lib"];
/// Libraries beyond this are not of a program that starts.
const MOST: usize = 1000;

/// What programs need.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NeededLibraries {
    /// The files, each once, in the loader's order.
    pub found: Vec<PathBuf>,
    /// Names without a file.
    pub missing: Vec<String>,
}

/// The libraries of these programs and libraries, and what those need in turn.
#[must_use]
pub fn of_programs<'a>(
    programs: impl IntoIterator<Item = (&'a Path, &'a ElfFile)>,
) -> NeededLibraries {
    let places = LibraryPlaces::read();
    let mut libraries = NeededLibraries::default();
    let mut seen = BTreeSet::new();
    let mut open: VecDeque<(PathBuf, ElfFile)> =
        programs.into_iter().map(|(path, elf)| (path.to_owned(), elf.clone())).collect();
    while let Some((path, elf)) = open.pop_front() {
        for name in &elf.needed {
            if seen.len() >= MOST || !seen.insert((name.clone(), elf.machine)) {
                continue;
            }
            match places.find(name, &path, &elf) {
                Some((file, found)) => {
                    if !libraries.found.contains(&file) {
                        libraries.found.push(file.clone());
                    }
                    open.push_back((file, found));
                }
                None => libraries.missing.push(name.clone()),
            }
        }
    }
    libraries
}

/// Where libraries are looked for.
struct LibraryPlaces {
    /// Directories that the environment names.
    asked: Vec<PathBuf>,
    /// Paths by name, from the loader's list.
    listed: BTreeMap<String, Vec<PathBuf>>,
}

impl LibraryPlaces {
    fn read() -> Self {
        let asked = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        let listed = std::fs::read(CACHE).map_or_else(|_| BTreeMap::new(), |text| listed(&text));
        Self { asked: directories(&asked, Path::new("/")), listed }
    }

    /// The first file of this name that `elf`, which lies at `path`, could load.
    fn find(&self, name: &str, path: &Path, elf: &ElfFile) -> Option<(PathBuf, ElfFile)> {
        let fits = |file: PathBuf| {
            // The file chooses these names, so do not block on a FIFO or open a device.
            let found = ElfFile::read(&open_regular(&file).ok()?.0).ok()?;
            (found.machine == elf.machine).then_some((file, found))
        };
        if name.contains('/') {
            return fits(PathBuf::from(name));
        }
        let origin = path.canonicalize().ok();
        let origin = origin.as_deref().and_then(Path::parent).unwrap_or(Path::new("/"));
        let own = elf.search.as_deref().map_or_else(Vec::new, |list| directories(list, origin));
        let (first, second) =
            if elf.is_searched_first { (&own, &self.asked) } else { (&self.asked, &own) };
        let in_directories = first.iter().chain(second).map(|directory| directory.join(name));
        let listed = self.listed.get(name).into_iter().flatten().cloned();
        let usual = USUAL.iter().map(|directory| Path::new(directory).join(name));
        in_directories.chain(listed).chain(usual).find_map(fits)
    }
}

/// The directories of a list, without those whose name only the loader can expand.
fn directories(list: &str, origin: &Path) -> Vec<PathBuf> {
    let origin = origin.to_string_lossy();
    let full = list
        .split([':', ';'])
        .filter(|part| !part.is_empty())
        .map(|part| part.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin));
    full.filter(|part| !part.contains('$')).map(PathBuf::from).collect()
}

/// Names and paths in the loader's list of the present form (glibc, dl-cache.h: `cache_file_new`).
fn listed(text: &[u8]) -> BTreeMap<String, Vec<PathBuf>> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEAD: usize = 48;
    const ENTRY: usize = 24;
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    // An older list may stand before it.
    let Some(start) = text.windows(MAGIC.len()).position(|bytes| bytes == MAGIC) else {
        return found;
    };
    let text = &text[start..];
    let word = |at: usize| {
        let bytes = text.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_ne_bytes(bytes)).ok()
    };
    let string = |at: usize| {
        let rest = text.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    let entries = text.get(HEAD..).map_or(0, |rest| rest.len() / ENTRY);
    let count = word(MAGIC.len()).unwrap_or(0).min(entries);
    // Those for processors with more instructions have a mark.
    let is_for_all = |entry: &usize| {
        text.get(entry + 16..entry + 24).is_some_and(|mark| mark.iter().all(|byte| *byte == 0))
    };
    for entry in (0..count).map(|nth| HEAD + nth * ENTRY).filter(is_for_all) {
        let (name, path) = (word(entry + 4).and_then(string), word(entry + 8).and_then(string));
        if let Some((name, path)) = name.zip(path) {
            found.entry(name).or_default().push(PathBuf::from(path));
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn this_program_needs_the_files_that_it_maps() {
        let path = std::env::current_exe().unwrap();
        let elf = ElfFile::read(&File::open(&path).unwrap()).unwrap();
        if elf.needed.is_empty() {
            return println!("SKIP this_program_needs_the_files_that_it_maps: it is static");
        }
        let libraries = of_programs([(path.as_path(), &elf)]);
        assert_eq!(libraries.missing, [""; 0]);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        for library in &libraries.found {
            let library = library.canonicalize().unwrap();
            assert!(maps.contains(&*library.to_string_lossy()), "{library:?} in\n{maps}");
        }
    }

    #[test]
    fn a_name_that_leads_to_no_file_is_passed_over() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let dir = tempfile::tempdir().unwrap();
        mknodat(CWD, dir.path().join("libx.so"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let path = std::env::current_exe().unwrap();
        let mut elf = ElfFile::read(&File::open(&path).unwrap()).unwrap();
        let fifo = dir.path().join("libx.so").to_string_lossy().into_owned();
        elf.needed = vec!["libx.so".into(), fifo.clone(), "/dev/zero".into()];
        elf.search = Some(dir.path().to_string_lossy().into_owned());
        let libraries = of_programs([(path.as_path(), &elf)]);
        assert_eq!(libraries.missing, ["libx.so".to_owned(), fifo, "/dev/zero".to_owned()]);
    }

    #[test]
    fn who_comes_first_in_the_search() {
        let dir = tempfile::tempdir().unwrap();
        let path = std::env::current_exe().unwrap();
        let elf = ElfFile::read(&File::open(&path).unwrap()).unwrap();
        let [own, asked] = ["own", "asked"].map(|name| dir.path().join(name));
        for place in [&own, &asked] {
            std::fs::create_dir(place).unwrap();
            std::fs::copy(&path, place.join("libx.so")).unwrap();
        }
        let places = LibraryPlaces { asked: vec![asked.clone()], listed: BTreeMap::new() };
        let search = Some(own.to_string_lossy().into_owned());
        for (is_searched_first, first) in [(false, &asked), (true, &own)] {
            let elf = ElfFile { search: search.clone(), is_searched_first, ..elf.clone() };
            let (found, _) = places.find("libx.so", &path, &elf).unwrap();
            assert_eq!(found, first.join("libx.so"));
        }
    }

    #[test]
    fn lists_of_directories_know_their_origin() {
        let of = |list| directories(list, Path::new("/opt/x/bin"));
        assert_eq!(
            of("$ORIGIN/../lib:/a;${ORIGIN}"),
            ["/opt/x/bin/../lib", "/a", "/opt/x/bin"].map(PathBuf::from)
        );
        assert!(of("/$LIB/x:").is_empty());
    }

    /// A list of one entry, as ldconfig writes it.
    fn list(count: u32, name: u32, path: u32) -> Vec<u8> {
        marked(count, name, path, 0)
    }

    /// The same entry, restricted to some processors.
    fn marked(count: u32, name: u32, path: u32, mark: u32) -> Vec<u8> {
        let mut text = b"glibc-ld.so.cache1.1".to_vec();
        text.extend([count, 0, 0, 0, 0, 0, 0].map(u32::to_ne_bytes).concat());
        text.extend([1, name, path, 0, 0, mark].map(u32::to_ne_bytes).concat());
        text.extend(b"libx.so.1\0/lib/libx.so.1\0");
        text
    }

    #[test]
    fn the_loaders_list_is_read() {
        let (head, entry) = (48, 24);
        let found = listed(&list(1, head + entry, head + entry + 10));
        assert_eq!(found["libx.so.1"], [PathBuf::from("/lib/libx.so.1")]);
        assert!(listed(&marked(1, head + entry, head + entry + 10, 1 << 30)).is_empty());
        let behind = [b"ld.so-1.7.0 older list".to_vec(), list(1, 72, 82)].concat();
        assert_eq!(listed(&behind), found);
    }

    #[test]
    fn damaged_lists_are_taken() {
        assert!(listed(b"").is_empty() && listed(b"glibc-ld.so.cache1.1").is_empty());
        assert!(listed(&list(u32::MAX, u32::MAX, 0)).len() <= 2);
        for end in 0..list(1, 72, 82).len() {
            let _some = listed(&list(1, 72, 82)[..end]);
        }
    }
}

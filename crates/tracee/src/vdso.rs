//! The code that the kernel maps into every program (vdso(7)). It is an ELF image, the same in all programs
//! of the machine's width while a kernel runs. So this process's copy shows the content in another program,
//! even in one that has ended.

use crate::ptrace::read_memory;
use pagewise_kernel::proc::maps::{self, Mapping};
use pagewise_kernel::proc::own_pid;
use std::sync::LazyLock;

/// The kernel's name for the mapping.
pub const NAME: &str = "[vdso]";

static IMAGE: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| {
    let maps = maps::read(own_pid()).ok()?;
    let vdso = find(&maps)?;
    let mut image = vec![0; usize::try_from(vdso.size().0).ok()?];
    let read = read_memory(own_pid(), vdso.start, &mut image).ok()?;
    (read == image.len()).then_some(image)
});

/// Its bytes; `None` if the kernel provides none.
#[must_use]
pub fn image() -> Option<&'static [u8]> {
    IMAGE.as_deref()
}

/// Its mapping in a process with these mappings.
pub(crate) fn find(maps: &[Mapping]) -> Option<&Mapping> {
    maps.iter().find(|mapping| mapping.path == NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn the_image_is_an_elf_file() {
        match image() {
            Some(image) => assert!(image.starts_with(b"\x7fELF")),
            None => println!("SKIP the_image_is_an_elf_file: this kernel gives no vDSO"),
        }
    }
}

//! The code that the kernel maps into every program (vdso(7)): an ELF image, the same in all programs of
//! the machine's width while a kernel runs. So our own says what another program's holds, which may
//! have ended.

use crate::ptrace::read_memory;
use pagewise_kernel::proc::maps::{self, Mapping};
use pagewise_kernel::proc::own_pid;
use std::sync::LazyLock;

/// What the kernel calls its mapping.
pub const NAME: &str = "[vdso]";

static IMAGE: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| {
    let maps = maps::read(own_pid()).ok()?;
    let vdso = find(&maps)?;
    let mut image = vec![0; usize::try_from(vdso.size().0).ok()?];
    let read = read_memory(own_pid(), vdso.start, &mut image).ok()?;
    (read == image.len()).then_some(image)
});

/// Its bytes; `None` where the kernel gives none.
#[must_use]
pub fn image() -> Option<&'static [u8]> {
    IMAGE.as_deref()
}

/// Where a process with these mappings has it.
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

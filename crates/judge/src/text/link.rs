//! How a linker lays out a program so that all of its code can be on huge pages: what a copy with other
//! headers can do only in part, since it cannot move anything.
//!
//! With `max-page-size` as large as a huge page GNU ld and lld begin every part at a multiple of it, in
//! the file and in memory, so each is congruent; with `common-page-size` GNU ld does so for data that are
//! made read-only after relocation too. Sizes are numbers: ld takes no `2M`. The file grows by up to a
//! slot for each part, by zeros. `separate-code` keeps text and read-only data apart; with
//! `noseparate-code` (lld: `--no-rosegment`) they are one part, and read-only data can be executed.
//!
//! A part still ends within its last slot. The script fills it: a section after the last one of that
//! part, up to the next multiple. It adds to the default script of GNU ld (`INSERT`), and begins with a
//! byte because an empty section would take no room.

use pagewise_model::PageSize;
use pagewise_model::fold::LinkAdvice;

/// The options and the script; `is_merged` where text and read-only data are to be one part.
#[must_use]
pub fn link_advice(is_merged: bool, huge: PageSize) -> LinkAdvice {
    let size = format!("{:#x}", huge.bytes());
    let (code, rosegment) =
        if is_merged { ("noseparate-code", " -Wl,--no-rosegment") } else { ("separate-code", "") };
    LinkAdvice {
        gnu: format!("-Wl,-z,max-page-size={size} -Wl,-z,common-page-size={size} -Wl,-z,{code}"),
        lld: format!("-Wl,-z,max-page-size={size} -Wl,-z,separate-loadable-segments{rosegment}"),
        script: script(is_merged, &size),
    }
}

fn script(is_merged: bool, size: &str) -> String {
    let fill = |section: &str, after: &str| {
        format!(
            "SECTIONS\n{{\n  {section} : {{ BYTE(0) . = ALIGN({size}); }}\n}}\nINSERT AFTER {after};\n"
        )
    };
    // The last of the code in the default script, and the last of what is only read.
    let read_only = fill(".huge_read_only_tail", ".exception_ranges");
    if is_merged { read_only } else { fill(".huge_text_tail", ".fini") + &read_only }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_that_linkers_take() {
        for is_merged in [false, true] {
            let advice = link_advice(is_merged, PageSize::PMD_2M);
            for text in [&advice.gnu, &advice.lld, &advice.script] {
                assert!(text.contains("0x200000") && !text.contains("2M"), "{text}");
            }
            assert_eq!(advice.script.matches("INSERT AFTER").count(), 2 - usize::from(is_merged));
        }
    }
}

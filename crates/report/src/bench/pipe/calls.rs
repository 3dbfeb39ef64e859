//! The call graph of kernel samples: who called whom, with the share of all samples.
//!
//! Stacks come leaf first and are merged from their outermost frame inwards. A frame whose samples all lie in
//! one callee shares a line with it, so that chains of wrappers do not hide the branches. Rare branches are
//! left out. The limit is higher in a terminal than on a page, where branches can be opened.

use crate::number::percent;
use crate::page::ReportDocument;
use crate::style::TextTone;
use pagewise_model::look::CpuSamples;

/// Smallest share of all samples that gets a line in a terminal; below, on a page.
const TERMINAL: f64 = 0.05;
const PAGE: f64 = 0.01;
/// Most frames joined on one line, so that deep stacks stay readable.
const JOINED: usize = 4;
/// Most frames of one stack, as many as the kernel records (`PERF_MAX_STACK_DEPTH`). A saved file may hold more.
const FRAMES: usize = 127;
/// Deepest line; deeper frames count in their ancestor's share.
const DEEPEST: usize = 12;

/// A frame with its callees.
#[derive(Debug, Default)]
struct CallNode {
    symbol: String,
    count: u64,
    callees: Vec<CallNode>,
}

impl CallNode {
    fn add(&mut self, frames: &mut dyn Iterator<Item = &str>, count: u64) {
        self.count = self.count.saturating_add(count);
        let Some(symbol) = frames.next() else { return };
        let at = self.callees.iter().position(|c| c.symbol == symbol).unwrap_or_else(|| {
            self.callees.push(Self { symbol: symbol.to_owned(), ..Self::default() });
            self.callees.len() - 1
        });
        self.callees[at].add(frames, count);
    }
}

/// All stacks under one root.
#[derive(Debug)]
pub(super) struct CallTree {
    root: CallNode,
    total: u64,
}

/// One line of the graph.
struct CallTreeLine<'a> {
    depth: usize,
    text: String,
    share: f64,
    node: &'a CallNode,
}

impl CallTree {
    pub(super) fn from_samples(samples: &CpuSamples) -> Self {
        let mut root = CallNode::default();
        for stack in &samples.stacks {
            let frames = stack.symbols.iter().rev().map(String::as_str);
            root.add(&mut frames.take(FRAMES), stack.count);
        }
        Self { root, total: samples.total() }
    }

    /// The graph as indented lines.
    pub(super) fn terminal(&self) -> ReportDocument {
        let mut page = ReportDocument::default();
        for top in self.branches(&self.root, 0, TERMINAL) {
            self.terminal_under(&top, &mut page);
        }
        page
    }

    fn terminal_under(&self, line: &CallTreeLine<'_>, page: &mut ReportDocument) {
        let text = format!("{} {}", percent(line.share), line.text);
        page.single(&text, 6 + 2 * line.depth, TextTone::Faint);
        for callee in self.branches(line.node, line.depth + 1, TERMINAL) {
            self.terminal_under(&callee, page);
        }
    }

    /// The graph as nested details that open by symbol.
    pub(super) fn details(&self) -> ReportDocument {
        let mut page = ReportDocument::default();
        for top in self.branches(&self.root, 0, PAGE) {
            self.details_under(&top, &mut page);
        }
        page
    }

    fn details_under(&self, line: &CallTreeLine<'_>, page: &mut ReportDocument) {
        let text = format!("{} {}", percent(line.share), line.text);
        let callees = self.branches(line.node, line.depth + 1, PAGE);
        if callees.is_empty() {
            return page.para(&text, 0, TextTone::Plain);
        }
        let mut inside = ReportDocument::default();
        for callee in &callees {
            self.details_under(callee, &mut inside);
        }
        page.details(&text, inside);
    }

    /// The branches under `node` with at least the share `least`, the most frequent first.
    fn branches<'a>(&self, node: &'a CallNode, depth: usize, least: f64) -> Vec<CallTreeLine<'a>> {
        if self.total == 0 || depth > DEEPEST {
            return Vec::new();
        }
        let share = |node: &CallNode| node.count as f64 / self.total as f64;
        let mut kept: Vec<&CallNode> = node.callees.iter().filter(|c| share(c) >= least).collect();
        kept.sort_by_key(|c| std::cmp::Reverse(c.count));
        let line = |start: &'a CallNode| {
            let mut names = vec![start.symbol.as_str()];
            let mut node = start;
            while let [only] = node.callees.as_slice() {
                if only.count != node.count || names.len() == JOINED {
                    break;
                }
                names.push(&only.symbol);
                node = only;
            }
            CallTreeLine { depth, text: names.join(" > "), share: share(start), node }
        };
        kept.into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::TerminalStyle;
    use pagewise_model::look::KernelStack;

    fn samples() -> CpuSamples {
        let stack = |symbols: &[&str], count| KernelStack {
            symbols: symbols.iter().map(ToString::to_string).collect(),
            count,
        };
        CpuSamples {
            user: 20,
            stacks: vec![
                stack(&["_copy_to_iter", "anon_pipe_read", "vfs_read", "entry"], 50),
                stack(&["mutex_lock", "anon_pipe_read", "vfs_read", "entry"], 20),
                stack(&["<b>\u{202e}", "entry"], 9),
                stack(&["rare", "entry"], 1),
            ],
            ..CpuSamples::default()
        }
    }

    #[test]
    fn stacks_are_joined_from_outside_and_rare_ones_left_out() {
        let text = CallTree::from_samples(&samples()).terminal().text(&TerminalStyle::default());
        let want = "      80% entry\n        70% vfs_read > anon_pipe_read\n          50% \
                    _copy_to_iter\n          20% mutex_lock\n        9.0% <b>\\u{202e}\n";
        assert_eq!(text, want);
    }

    #[test]
    fn the_page_opens_by_symbol_and_escapes_it() {
        let html = CallTree::from_samples(&samples()).details().html();
        assert!(html.starts_with("<details><summary>80% entry</summary>"), "{html}");
        assert!(html.contains("9.0% &lt;b&gt;\\u{202e}</p>"), "{html}");
        assert_eq!(html.matches("<details").count(), html.matches("</details>").count());
        assert_eq!(CallTree::from_samples(&CpuSamples::default()).details().html(), "");
    }
}

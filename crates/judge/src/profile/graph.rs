//! The call graph of a bucket: from the process over its own functions to those of the kernel.
//!
//! Stacks that begin alike share their beginning. Callees below one percent of the bucket are folded
//! into one line, so that a graph has some hundred lines at most however many stacks there are.

use pagewise_model::profile::{GraphLine, ProfiledStack, UserFrame};
use std::borrow::Cow;
use std::collections::HashMap;

/// Callees with less than one sample in so many of the bucket are folded.
const FOLDED_BELOW: u64 = 100;

#[derive(Debug, Default)]
struct Node<'a> {
    name: Cow<'a, str>,
    samples: u64,
    /// By the order in which they came.
    callees: Vec<usize>,
}

/// A tree of callers; the first node stands for all of them.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    nodes: Vec<Node<'a>>,
    found: HashMap<(usize, Cow<'a, str>), usize>,
}

impl<'a> Graph<'a> {
    pub(super) fn of(stacks: &[&'a ProfiledStack]) -> Self {
        let mut graph = Self { nodes: vec![Node::default()], found: HashMap::new() };
        for stack in stacks {
            graph.add(stack);
        }
        graph
    }

    fn add(&mut self, stack: &'a ProfiledStack) {
        let process = std::iter::once(Cow::from(stack.process.as_str()));
        let user = stack.user.iter().rev().map(name);
        let kernel = stack.kernel.iter().rev().map(|symbol| Cow::from(symbol.as_str()));
        let mut at = 0;
        self.nodes[at].samples += stack.count;
        for frame in process.chain(user).chain(kernel) {
            at = self.callee(at, frame);
            self.nodes[at].samples += stack.count;
        }
    }

    fn callee(&mut self, caller: usize, name: Cow<'a, str>) -> usize {
        let new = self.nodes.len();
        let at = *self.found.entry((caller, name.clone())).or_insert(new);
        if at == new {
            self.nodes.push(Node { name, ..Node::default() });
            self.nodes[caller].callees.push(new);
        }
        at
    }

    /// The graph from the outermost callers on.
    pub(super) fn lines(&self) -> Vec<GraphLine> {
        let mut lines = Vec::new();
        // Stacks may be deep: what is left to tell, the next last.
        let mut left: Vec<(u32, Entry)> = self.entries(0, 0);
        while let Some((depth, entry)) = left.pop() {
            match entry {
                Entry::Node(at) => {
                    let node = &self.nodes[at];
                    let name = node.name.clone().into_owned();
                    lines.push(GraphLine { depth, name, samples: node.samples, folded: 0 });
                    left.extend(self.entries(at, depth + 1));
                }
                Entry::Folded { callees, samples } => {
                    lines.push(GraphLine { depth, name: String::new(), samples, folded: callees });
                }
            }
        }
        lines
    }

    /// The callees of a node, the most frequent last.
    fn entries(&self, at: usize, depth: u32) -> Vec<(u32, Entry)> {
        let all = self.nodes[0].samples;
        let of = |callee: &usize| &self.nodes[*callee];
        let is_listed = |callee: &usize| of(callee).samples.saturating_mul(FOLDED_BELOW) >= all;
        let (mut listed, folded): (Vec<usize>, Vec<usize>) =
            self.nodes[at].callees.iter().copied().partition(is_listed);
        listed.sort_by(|a, b| {
            of(a).samples.cmp(&of(b).samples).then_with(|| of(b).name.cmp(&of(a).name))
        });
        let samples = folded.iter().map(|callee| of(callee).samples).sum();
        let rest = Entry::Folded { callees: folded.len() as u64, samples };
        let rest = (samples > 0).then_some(rest);
        let entries = rest.into_iter().chain(listed.into_iter().map(Entry::Node));
        entries.map(|entry| (depth, entry)).collect()
    }
}

#[derive(Debug)]
enum Entry {
    Node(usize),
    Folded { callees: u64, samples: u64 },
}

/// A function of the program with its file; the file alone where it is not known.
fn name(frame: &UserFrame) -> Cow<'_, str> {
    let file = frame.path.rsplit('/').next().unwrap_or_default();
    let file = if file.is_empty() { "no file" } else { file };
    Cow::from(match &frame.function {
        Some(function) => format!("{function} ({file})"),
        None => format!("({file})"),
    })
}

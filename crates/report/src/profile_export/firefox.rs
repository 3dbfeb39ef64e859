//! Samples in the processed form of Firefox Profiler, version 55: <https://github.com/firefox-devtools/profiler>.
//!
//! The library that writes faults keeps 70 bytes for each node of the stack tree, to find it again. Imported
//! profiles have millions of nodes. Sorted stacks need no search: each shares its prefix with the one before.

use super::frames;
use super::tables::{NumberedValues, number};
use pagewise_model::profile::{ProfiledStack, StackSamples};
use pagewise_model::run::SavedRun;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::iter::repeat_n;

/// Most processes of a profile: the viewer shows a time line for each. Further ones share one, with the
/// process name as the outermost frame.
pub(super) const MOST_PROCESSES: usize = 1000;
pub(super) const OTHERS: &str = "other processes";

/// Category numbers.
const PROGRAM: u32 = 1;
const KERNEL: u32 = 2;

/// The values of a column, one for each row of its table.
type Values<'a> = Box<dyn Iterator<Item = Value> + 'a>;

/// The profile of `run` in JSON.
pub(super) fn write(samples: &StackSamples, run: &SavedRun) -> Vec<u8> {
    let period = samples.period_ns.0.max(1);
    let mut json = format!("{{\"meta\":{},\"libs\":[],\"threads\":[", meta(run, period));
    for ((process, stacks), number) in by_process(samples).into_iter().zip(1_u32..) {
        json += if number > 1 { "," } else { "" };
        FirefoxThread::new(process, &stacks).write(&mut json, number, period);
    }
    json += "],\"pages\":[],\"profilerOverhead\":[],\"counters\":[]}\n";
    json.into_bytes()
}

fn meta(run: &SavedRun, period: u64) -> Value {
    let category = |name, color| json!({"name": name, "color": color, "subcategories": ["Other"]});
    let categories = [("Other", "grey"), ("Program", "blue"), ("Kernel", "orange")];
    json!({
        "version": 24,
        "preprocessedProfileVersion": 55,
        "product": run.command.join(" "),
        "startTime": run.started_unix_ns as f64 / 1e6,
        "interval": period as f64 / 1e6,
        "processType": 0,
        "debug": false,
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "categories": categories.map(|(name, color)| category(name, color)),
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs"},
        "extensions": {"length": 0, "baseURL": [], "id": [], "name": []},
        "markerSchema": [],
        "pausedRanges": [],
    })
}

/// Stacks by process, in order of first appearance. Processes beyond [`MOST_PROCESSES`] come last, together.
fn by_process(samples: &StackSamples) -> Vec<(&str, Vec<&ProfiledStack>)> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut all: Vec<(&str, Vec<&ProfiledStack>)> = Vec::new();
    for stack in &samples.stacks {
        let next = places.len().min(MOST_PROCESSES);
        let at = *places.entry(&stack.process).or_insert(next);
        if at == all.len() {
            let name = if at < MOST_PROCESSES { &stack.process } else { OTHERS };
            all.push((name, Vec::new()));
        }
        all[at].1.push(stack);
    }
    all
}

/// A node of the stack tree: the indices of its caller and of its function.
#[derive(Debug)]
struct StackNode {
    caller: Option<u32>,
    function: u32,
}

/// The samples of a process: the viewer requires a thread for them.
#[derive(Debug)]
struct FirefoxThread<'a> {
    process: &'a str,
    stacks: &'a [&'a ProfiledStack],
    /// Names of functions with their categories.
    functions: NumberedValues<(String, u32)>,
    /// The tree of stacks.
    nodes: Vec<StackNode>,
    /// The node of each stack.
    leaves: Vec<Option<u32>>,
}

impl<'a> FirefoxThread<'a> {
    fn new(process: &'a str, stacks: &'a [&'a ProfiledStack]) -> Self {
        let mut functions = NumberedValues::default();
        // The functions of all stacks, outermost first, and the end index of each stack.
        let (mut called, mut ends) = (Vec::new(), Vec::new());
        for stack in stacks {
            let own_name = (process != &*stack.process).then(|| (stack.process.to_string(), false));
            for (name, is_kernel) in own_name.into_iter().chain(frames(stack)) {
                let category = if is_kernel { KERNEL } else { PROGRAM };
                called.push(functions.number((name, category)));
            }
            ends.push(called.len());
        }
        let (nodes, leaves) = tree(&called, &ends);
        Self { process, stacks, functions, nodes, leaves }
    }

    fn write(&self, json: &mut String, number: u32, period: u64) {
        let head = self.head(number).to_string();
        *json += head.strip_suffix('}').unwrap_or_default();
        *json += ",\"stringArray\":";
        list(json, Box::new(self.functions.all.iter().map(|(name, _)| Value::from(&**name))));
        self.write_functions(json);
        let callers = self.nodes.iter().map(|node| Value::from(node.caller));
        let called = self.nodes.iter().map(|node| Value::from(node.function));
        *json += ",\"stackTable\":{";
        table(json, self.nodes.len(), [("prefix", Box::new(callers)), ("frame", Box::new(called))]);
        let took = || self.stacks.iter().map(move |stack| period.saturating_mul(stack.count));
        let columns: [(_, Values<'_>); 4] = [
            ("stack", Box::new(self.leaves.iter().map(|leaf| Value::from(*leaf)))),
            ("timeDeltas", Box::new(took().map(|took| Value::from(took as f64 / 1e6)))),
            ("weight", Box::new(self.stacks.iter().map(|stack| Value::from(stack.count)))),
            ("threadCPUDelta", Box::new(took().map(|took| Value::from(took / 1000)))),
        ];
        *json += r#","samples":{"weightType":"samples","#;
        table(json, self.stacks.len(), columns);
        *json += "}";
    }

    /// Everything except the tables with rows.
    fn head(&self, number: u32) -> Value {
        json!({
            "name": self.process,
            "processName": self.process,
            "pid": number.to_string(),
            "tid": number.to_string(),
            "processType": "default",
            "processStartupTime": 0.0,
            "processShutdownTime": null,
            "registerTime": 0.0,
            "unregisterTime": null,
            "isMainThread": true,
            "showMarkersInTimeline": false,
            "pausedRanges": [],
            "markers": {
                "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": []
            },
            "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
            "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
        })
    }

    fn write_functions(&self, json: &mut String) {
        let rows = self.functions.all.len();
        let same = |value: Value| -> Values<'_> { Box::new(repeat_n(value, rows)) };
        let numbers = || -> Values<'_> { Box::new((0..rows).map(Value::from)) };
        let categories = self.functions.all.iter().map(|(_, category)| Value::from(*category));
        let frames = [
            ("func", numbers()),
            ("category", Box::new(categories)),
            ("address", same(json!(-1))),
            ("inlineDepth", same(json!(0))),
            ("subcategory", same(json!(0))),
            ("innerWindowID", same(json!(0))),
            ("nativeSymbol", same(Value::Null)),
            ("line", same(Value::Null)),
            ("column", same(Value::Null)),
        ];
        let functions = [
            ("name", numbers()),
            ("isJS", same(json!(false))),
            ("relevantForJS", same(json!(false))),
            ("resource", same(json!(-1))),
            ("fileName", same(Value::Null)),
            ("lineNumber", same(Value::Null)),
            ("columnNumber", same(Value::Null)),
        ];
        *json += ",\"frameTable\":{";
        table(json, rows, frames);
        *json += ",\"funcTable\":{";
        table(json, rows, functions);
    }
}

/// The tree of consecutive stacks, each with its end: the nodes, and the node of each stack.
fn tree(called: &[u32], ends: &[usize]) -> (Vec<StackNode>, Vec<Option<u32>>) {
    let stack = |at: usize| {
        let begin = at.checked_sub(1).map_or(0, |before| ends[before]);
        &called[begin..ends[at]]
    };
    let mut sorted: Vec<usize> = (0..ends.len()).collect();
    sorted.sort_unstable_by_key(|at| stack(*at));
    let (mut nodes, mut leaves) = (Vec::new(), vec![None; ends.len()]);
    let (mut path, mut before): (Vec<u32>, &[u32]) = (Vec::new(), &[]);
    for at in sorted {
        let stack = stack(at);
        let shared = before.iter().zip(stack).take_while(|(one, other)| one == other).count();
        path.truncate(shared);
        for function in &stack[shared..] {
            nodes.push(StackNode { caller: path.last().copied(), function: *function });
            path.push(number(nodes.len() - 1));
        }
        leaves[at] = path.last().copied();
        before = stack;
    }
    (nodes, leaves)
}

/// The rest of a table after its opening brace.
fn table<const N: usize>(json: &mut String, rows: usize, columns: [(&str, Values<'_>); N]) {
    *json += &format!("\"length\":{rows}");
    for (name, values) in columns {
        *json += &format!(",\"{name}\":");
        list(json, values);
    }
    *json += "}";
}

fn list(json: &mut String, values: Values<'_>) {
    let mut before = '[';
    for value in values {
        json.push(before);
        *json += &value.to_string();
        before = ',';
    }
    *json += if before == '[' { "[]" } else { "]" };
}

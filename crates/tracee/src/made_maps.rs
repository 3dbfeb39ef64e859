//! What makes interpreters write a map of the code that they make, for perf and so for us.
//!
//! - Python from 3.12 on gives each function code of its own and names it: `PYTHONPERFSUPPORT`
//!   (docs.python.org/3/howto/perf_profiling.html). Calls take some percent longer. Older ones ignore it.
//! - node from 12.16 on takes both options from `NODE_OPTIONS`; an older one refuses to start with them. It also
//!   writes a log into the directory it runs in.
//! - A JVM writes the methods that it compiled when it ends (JDK 17); `JAVA_TOOL_OPTIONS` has it say so on standard
//!   error. Older ones ignore the option. Frame pointers let its callers be walked.
//!
//! What the user has set of these stays.

use pagewise_model::plan::{EnvMerge, Settings};

/// The settings of a program whose interpreters are to write maps.
#[must_use]
pub fn asked() -> Settings {
    let variable = |name: &str, separator, entries: &[&str]| EnvMerge {
        name: name.to_owned(),
        separator,
        entries: entries.iter().map(|&entry| entry.to_owned()).collect(),
    };
    let node = ["--perf-basic-prof", "--interpreted-frames-native-stack"];
    let java = [
        "-XX:+IgnoreUnrecognizedVMOptions",
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:+DumpPerfMapAtExit",
        "-XX:+PreserveFramePointer",
    ];
    Settings {
        env: vec![
            variable("PYTHONPERFSUPPORT", None, &["1"]),
            variable("NODE_OPTIONS", Some(' '), &node),
        ],
        jvm_options: java.map(str::to_owned).to_vec(),
        ..Settings::default()
    }
}

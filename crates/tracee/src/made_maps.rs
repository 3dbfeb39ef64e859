//! Settings that make interpreters write a map of their generated code, for perf and therefore for pagewise.
//!
//! - Python 3.12 and later gives each function its own code and names it: `PYTHONPERFSUPPORT`
//!   (docs.python.org/3/howto/perf_profiling.html). Calls get a few percent slower. Older versions ignore it.
//! - node 12.16 and later takes both options from `NODE_OPTIONS`; an older one refuses to start with them. It
//!   also writes a log to its working directory.
//! - A JVM writes its compiled methods when it ends (JDK 17). `JAVA_TOOL_OPTIONS` makes it report that on
//!   standard error. Older ones ignore the option. Frame pointers make its callers visible.
//!
//! Variables and options that the user has set stay.

use pagewise_model::plan::{ArmSettings, EnvMerge};

/// The settings for a program whose interpreters are to write maps.
#[must_use]
pub fn asked() -> ArmSettings {
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
    ArmSettings {
        env: vec![
            variable("PYTHONPERFSUPPORT", None, &["1"]),
            variable("NODE_OPTIONS", Some(' '), &node),
        ],
        jvm_options: java.map(str::to_owned).to_vec(),
        ..ArmSettings::default()
    }
}

//! The environment of a receipt for containers: options for `docker run`, and YAML lines for Compose and
//! Kubernetes.
//!
//! Values are strings in double quotes. Compose expands `$NAME`, and Kubernetes expands `$(NAME)`. Both read
//! `$$` as `$`, so each `$` is doubled. The user fills in the names in capitals.

use crate::receipt::{TestedStart, all_of, environment_alone};
use pagewise_model::name::yaml_string;
use pagewise_model::plan::{ContainerLines, RemedyDose};

/// The lines for these doses on this start.
///
/// # Errors
/// A sentence that says why no lines are possible.
pub fn lines(doses: &[RemedyDose], start: &TestedStart<'_>) -> Result<ContainerLines, String> {
    let settings = all_of(doses);
    if !environment_alone(&settings) {
        return Err("put pagewise into the image and use the first line".to_owned());
    }
    let mut options = Vec::new();
    let mut compose = ["services:", "  NAME:", "    environment:"].map(str::to_owned).to_vec();
    let mut kubernetes = vec!["env:".to_owned()];
    for (name, value) in start.variables(&settings, true) {
        let refused = |why: &str| format!("the value of {} {why}", name.to_string_lossy());
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
            return Err(refused("is not UTF-8"));
        };
        if value.contains(char::is_control) {
            return Err(refused("holds a control character"));
        }
        options.push(format!("--env {} ", start.quoted(format!("{name}={value}"))));
        let doubled = yaml_string(&value.replace('$', "$$"));
        compose.push(format!("      {name}: {doubled}"));
        kubernetes.push(format!("- name: {name}"));
        kubernetes.push(format!("  value: {doubled}"));
    }
    let docker_run = format!("docker run {}IMAGE", options.concat());
    Ok(ContainerLines { docker_run, compose, kubernetes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt::ReceiptConditions;
    use crate::registry::tests_support::parse;
    use std::ffi::OsString;

    fn of(list: &str, environment: &[(&str, &str)]) -> Result<ContainerLines, String> {
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
        let here = ReceiptConditions {
            environment: environment.collect(),
            ..ReceiptConditions::default()
        };
        let command: Vec<OsString> = vec!["redis-server".into()];
        let quote = |word: &[u8]| format!("'{}'", String::from_utf8_lossy(word));
        let (command, here) = (&command[..], &here);
        lines(
            &parse(list).unwrap(),
            &TestedStart { command, input: None, here, system: false, quote },
        )
    }

    #[test]
    fn an_environment_is_written_for_each() {
        let lines = of("malloc-keep=1M", &[]).unwrap();
        let value = "glibc.malloc.mmap_threshold=1048576:glibc.malloc.trim_threshold=1048576:glibc.malloc.top_pad=1048576";
        assert_eq!(lines.docker_run, format!("docker run --env 'GLIBC_TUNABLES={value}' IMAGE"));
        let compose = format!("      GLIBC_TUNABLES: \"{value}\"");
        assert_eq!(lines.compose, ["services:", "  NAME:", "    environment:", &compose]);
        let value = format!("  value: \"{value}\"");
        assert_eq!(lines.kubernetes, ["env:", "- name: GLIBC_TUNABLES", &value]);
    }

    #[test]
    fn the_users_own_entries_stay_and_nothing_is_put_in_for_a_dollar() {
        let lines = of("heap-huge=java", &[("JAVA_TOOL_OPTIONS", "-Da=\"$(b)\\$c")]).unwrap();
        let option = "-XX:+UseTransparentHugePages -Da=";
        let compose = format!("      JAVA_TOOL_OPTIONS: \"{option}\\\"$$(b)\\\\$$c\"");
        assert_eq!(lines.compose.last(), Some(&compose));
        let kubernetes = format!("  value: \"{option}\\\"$$(b)\\\\$$c\"");
        assert_eq!(lines.kubernetes.last(), Some(&kubernetes));
        // Kubernetes reads each pair as one, so two pairs stay two characters.
        let lines = of("heap-huge=java", &[("JAVA_TOOL_OPTIONS", "-Da=b$$c$")]).unwrap();
        let kubernetes = format!("  value: \"{option}b$$$$c$$\"");
        assert_eq!(lines.kubernetes.last(), Some(&kubernetes));
    }

    #[test]
    fn what_an_environment_does_not_hold_is_refused() {
        assert!(of("heap-small", &[]).unwrap_err().contains("into the image"));
        let control = of("heap-huge=java", &[("JAVA_TOOL_OPTIONS", "a\nb")]).unwrap_err();
        assert!(control.contains("JAVA_TOOL_OPTIONS holds a control"), "{control}");
    }
}

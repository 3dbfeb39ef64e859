//! One answer from many hosts, and scripts with which cluster engines run the task on them.

use crate::number::{change, counted, interval, percent};
use crate::page::ReportDocument;
use crate::quote;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::fleet::{FleetArm, FleetWord, HostClass, HostPromise, PooledEffect};
use pagewise_model::name::{is_in_line, yaml_string as yaml};

const fn word(word: FleetWord) -> (&'static str, TextTone) {
    match word {
        FleetWord::Keep => ("keep", TextTone::Good),
        FleetWord::Reject => ("reject", TextTone::Bad),
        FleetWord::DiffersByClass => ("differs by class", TextTone::Warn),
        FleetWord::CannotTell => ("cannot tell", TextTone::Plain),
    }
}

/// All arms: the answer first, then the classes that differ.
#[must_use]
pub fn fleet_page(arms: &[FleetArm]) -> ReportDocument {
    let mut page = ReportDocument::default();
    if arms.is_empty() {
        page.para("no run holds an arm", 0, TextTone::Plain);
    }
    for arm in arms {
        page.section(one(arm));
    }
    page
}

fn one(arm: &FleetArm) -> ReportDocument {
    let mut page = ReportDocument::default();
    let (text, tone) = word(arm.word);
    page.para(&format!("{text}: {} ({})", arm.arm, arm.quantity), 0, tone);
    page.single(&arm.command, 2, TextTone::Faint);
    if let Some(pooled) = &arm.pooled {
        page.para(&mean(pooled), 2, TextTone::Plain);
        if let Some((low, high)) = pooled.next_host {
            let text = format!(
                "on a further host: {}; hosts deviate by {}",
                interval(pooled.ratio, low, high),
                percent(pooled.tau)
            );
            page.para(&text, 2, TextTone::Plain);
        }
    }
    if !arm.classes.is_empty() {
        page.table(classes(&arm.classes));
    }
    if !arm.rejected_on.is_empty() {
        let hosts = arm.rejected_on.join(", ");
        page.para(&format!("failed or broke a guard on {hosts}"), 2, TextTone::Bad);
    }
    if arm.open_on > 0 {
        let hosts = counted(u64::from(arm.open_on), "host", "hosts");
        page.para(&format!("no interval yet from {hosts}"), 2, TextTone::Faint);
    }
    page
}

/// Hosts by what remedies will probably save on them, in the given order.
#[must_use]
pub fn rank_page(hosts: &[HostPromise]) -> ReportDocument {
    let mut page = ReportDocument::default();
    let mut table = ReportTable::new(&[
        ("host", ColumnAlignment::Text),
        ("busy", ColumnAlignment::Right),
        ("saves", ColumnAlignment::Right),
        ("80%", ColumnAlignment::Left),
        ("most by", ColumnAlignment::Text),
    ]);
    for host in hosts {
        let best = host.program.as_ref().zip(host.arm.as_ref());
        let range = || format!("{:.2} to {:.2}", host.low_cpus, host.high_cpus);
        table.row(vec![
            host.host.clone().into(),
            format!("{:.2}", host.busy_cpus).into(),
            best.map_or_else(|| "-".to_owned(), |_| format!("{:.2}", host.saved_cpus)).into(),
            best.map_or_else(String::new, |_| range()).into(),
            best.map_or_else(String::new, |(program, arm)| format!("{program}: {arm}")).into(),
        ]);
    }
    page.section(table);
    page.para("in CPUs, predicted and not tried", 0, TextTone::Faint);
    page
}

fn mean(pooled: &PooledEffect) -> String {
    let more = (pooled.sessions > pooled.hosts).then(|| format!(" ({} sessions)", pooled.sessions));
    format!(
        "{} on {}{}, 95% {}",
        change(pooled.ratio),
        counted(u64::from(pooled.hosts), "host", "hosts"),
        more.unwrap_or_default(),
        interval(pooled.ratio, pooled.low, pooled.high)
    )
}

fn classes(classes: &[HostClass]) -> ReportTable {
    let mut table = ReportTable::new(&[
        ("by", ColumnAlignment::Left),
        ("", ColumnAlignment::Text),
        ("hosts", ColumnAlignment::Right),
        ("change", ColumnAlignment::Right),
        ("95%", ColumnAlignment::Left),
        ("", ColumnAlignment::Left),
    ]);
    for class in classes {
        let (text, tone) = word(class.word);
        let pooled = &class.pooled;
        table.row(vec![
            class.key.into_str().into(),
            class.value.clone().into(),
            pooled.hosts.to_string().into(),
            change(pooled.ratio).into(),
            interval(pooled.ratio, pooled.low, pooled.high).into(),
            TableCell::new(text, tone),
        ]);
    }
    table
}

/// The task that every host runs.
#[derive(Debug, Clone)]
pub struct FleetTask {
    /// Name of the program, for the job's name.
    pub program: String,
    /// The command line before `--seed`, quoted for a shell.
    pub front: String,
    /// The rest of the command line, from `--` on.
    pub back: String,
    /// Number of hosts.
    pub hosts: u32,
    /// Directory of the results, as seen by all hosts.
    pub results: String,
    /// The directory to run in, if the command line names files relative to it.
    pub directory: Option<String>,
}

impl FleetTask {
    fn line(&self, seed: &str) -> String {
        format!("{} --seed {seed} {}", self.front, self.back)
    }
}

/// Shell code after a run. A result of status 0 or 3 (cannot tell) is moved into place as a whole; others are
/// dropped. Status 3 without a result means that another experiment kept the host busy.
const TAKE: &str = "status=$?
case $status in
    0 | 3) if [ -s \"$name.tmp.$$\" ]; then exec mv \"$name.tmp.$$\" \"$name.json\"; fi ;;
esac
rm -f \"$name.tmp.$$\"
exit \"$status\"
";

/// A job array for Slurm: one exclusive task for each host.
#[must_use]
pub fn slurm(task: &FleetTask) -> String {
    let FleetTask { program, hosts, .. } = task;
    let line = task.line("\"$SLURM_ARRAY_TASK_ID\"");
    let (results, shown) = (quote(&task.results), comment(&task.results));
    let chdir = task.directory.as_ref().map(|to| format!("cd {} || exit\n", quote(to)));
    let chdir = chdir.unwrap_or_default();
    format!(
        "#!/bin/bash
# Submit with sbatch. Then: pagewise merge {shown}
#SBATCH --job-name=pagewise-{program}
#SBATCH --array=1-{hosts}
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --open-mode=append
results={results}
mkdir -p -- \"$results\" || exit
case $results in /*) ;; *) results=$PWD/$results ;; esac
# A task that is started again leaves a second result: merge takes that of the last start.
task=$SLURM_ARRAY_JOB_ID.$SLURM_ARRAY_TASK_ID.${{SLURM_RESTART_COUNT:-0}}
name=$results/$task.${{SLURMD_NODENAME:-$(hostname -s)}}
{chdir}{line} >\"$name.tmp.$$\"
{TAKE}"
    )
}

/// A directory as a word of a comment; a comment ends with its line, so line breaks are not allowed.
fn comment(directory: &str) -> String {
    if is_in_line(directory) { quote(directory) } else { "DIR".to_owned() }
}

/// Text that Jinja leaves unchanged: without an opening brace, no template construct can begin.
fn literal(text: &str) -> String {
    text.replace('{', "{{ '{' }}")
}

/// A playbook for Ansible: one run on each host of the inventory, results fetched.
#[must_use]
pub fn ansible(task: &FleetTask) -> String {
    const NUMBER: &str = "{{ ansible_play_hosts.index(inventory_hostname) + 1 }}";
    let line = yaml(&format!("{} --seed {NUMBER} {}", literal(&task.front), literal(&task.back)));
    let chdir = task.directory.as_ref();
    let chdir = chdir.map(|to| format!("        chdir: {}\n", yaml(&literal(to))));
    let chdir = chdir.unwrap_or_default();
    let results = literal(&task.results);
    let file = yaml(&format!("{results}/1.{NUMBER}.0.{{{{ inventory_hostname }}}}.json"));
    let results = yaml(&results);
    let shown = comment(&task.results);
    format!(
        "# ansible-playbook -i INVENTORY FILE. Then: pagewise merge {shown}
- name: Measure a remedy on every host
  hosts: all
  gather_facts: false
  tasks:
    - name: Measure
      ansible.builtin.shell:
        cmd: {line}
{chdir}      register: measured
      changed_when: false
      failed_when: measured.rc not in [0, 3]
    - name: Make the directory of results
      ansible.builtin.file:
        path: {results}
        state: directory
        mode: \"0755\"
      delegate_to: localhost
      run_once: true
    - name: Keep the result
      ansible.builtin.copy:
        content: \"{{{{ measured.stdout }}}}\"
        dest: {file}
        mode: \"0644\"
      # A host that another experiment kept busy has no result.
      when: measured.stdout | length > 0
      delegate_to: localhost
"
    )
}

/// Longest label in Kubernetes; the host name of a pod is a label.
const LONGEST_LABEL: usize = 63;

/// The job name for a program. A pod's host name is this name, a hyphen and the pod's number.
fn job_name(program: &str, hosts: u32) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let number = hosts.saturating_sub(1).to_string().len() + 1;
    let name: String = "pagewise-".chars().chain(program.chars().map(allowed)).collect();
    let name: String = name.chars().take(LONGEST_LABEL - number).collect();
    name.trim_end_matches('-').to_owned()
}

/// The script of a pod, as lines of a block of YAML. Kubernetes reads `$$` as `$` and replaces `$(NAME)`.
fn pod_script(task: &FleetTask) -> String {
    let line = task.line("\"$((JOB_COMPLETION_INDEX + 1))\"");
    let script = format!(
        "name=/results/1.$JOB_COMPLETION_INDEX.0.$NODE
{line} >\"$name.tmp.$$\"
{TAKE}"
    );
    let script = script.replace('$', "$$");
    script.lines().map(|line| format!("              {line}\n")).collect()
}

/// An indexed Job of Kubernetes: one pod on each node, results on a claimed volume.
#[must_use]
pub fn kubernetes(task: &FleetTask, image: &str, claim: &str) -> String {
    let FleetTask { program, hosts, .. } = task;
    let directory =
        task.directory.as_ref().map(|to| format!("          workingDir: {}\n", yaml(to)));
    let (image, claim) = (yaml(image), yaml(claim));
    let directory = directory.unwrap_or_default();
    let script = pod_script(task);
    let name = job_name(program, *hosts);
    format!(
        "# kubectl apply -f FILE. Then copy the volume's files: pagewise merge DIR
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completions: {hosts}
  parallelism: {hosts}
  completionMode: Indexed
  backoffLimit: 4
  template:
    metadata:
      labels:
        app: {name}
    spec:
      restartPolicy: Never
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - labelSelector:
                matchLabels:
                  app: {name}
              topologyKey: kubernetes.io/hostname
      containers:
        - name: measure
          image: {image}
{directory}          command: [\"/bin/sh\", \"-c\"]
          args:
            - |
{script}          env:
            - name: NODE
              valueFrom:
                fieldRef:
                  fieldPath: spec.nodeName
          volumeMounts:
            - name: results
              mountPath: /results
      volumes:
        - name: results
          persistentVolumeClaim:
            claimName: {claim}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::TerminalStyle;
    use pagewise_model::fleet::HostClassKey;

    fn pooled(ratio: f64) -> PooledEffect {
        PooledEffect {
            hosts: 12,
            sessions: 12,
            ratio,
            low: ratio - 0.01,
            high: ratio + 0.01,
            tau: 0.02,
            next_host: Some((ratio - 0.05, ratio + 0.05)),
        }
    }

    #[test]
    fn classes_that_differ_stand_below_the_answer() {
        let class = |value: &str, ratio, word| HostClass {
            key: HostClassKey::Processor,
            value: value.into(),
            pooled: pooled(ratio),
            word,
        };
        let arm = FleetArm {
            command: "app --all".into(),
            arm: "heap-huge".into(),
            quantity: "time".into(),
            word: FleetWord::DiffersByClass,
            pooled: Some(pooled(0.95)),
            classes: vec![
                class("a processor with a long name of the usual kind", 0.9, FleetWord::Keep),
                class("another", 1.05, FleetWord::Reject),
            ],
            rejected_on: vec!["n7".into()],
            open_on: 2,
        };
        let style = TerminalStyle { colour: false, width: 80, unicode: false };
        let text = fleet_page(&[arm]).text(&style);
        assert!(text.starts_with("differs by class: heap-huge (time)\n"), "{text}");
        for part in ["5.0% less on 12 hosts", "another", "reject", "on n7", "from 2 hosts"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let often = PooledEffect { sessions: 40, ..pooled(0.95) };
        assert!(mean(&often).starts_with("5.0% less on 12 hosts (40 sessions), 95%"));
    }

    #[test]
    fn scripts_hold_the_command_once() {
        let task = FleetTask {
            program: "My App".into(),
            front: "pagewise tune --only place".into(),
            back: "-- app 'a b'".into(),
            hosts: 8,
            results: "/shared/all results".into(),
            directory: Some("/srv/my app".into()),
        };
        let slurm = slurm(&task);
        assert!(slurm.contains("#SBATCH --array=1-8\n"), "{slurm}");
        assert!(slurm.contains(
            "--seed \"$SLURM_ARRAY_TASK_ID\" -- app 'a b' >\"$name.tmp.$$\"\nstatus=$?\n"
        ));
        assert!(
            slurm.contains("results='/shared/all results'\n")
                && slurm.contains("cd '/srv/my app' ")
        );
        let play = ansible(&task);
        assert_eq!(play.matches("app 'a b'").count(), 1);
        assert!(play.contains("        chdir: \"/srv/my app\"\n"), "{play}");
        assert!(play.contains("      when: measured.stdout | length > 0\n"), "{play}");
        assert!(play.contains("        dest: \"/shared/all results/1.{{"), "{play}");
        let here = FleetTask { directory: None, ..task.clone() };
        assert!(!ansible(&here).contains("chdir") && !super::slurm(&here).contains("cd "));
        let job = kubernetes(&task, "registry/app:1", "results");
        assert!(job.contains("name: pagewise-my-app\n") && job.contains("completions: 8\n"));
        assert!(job.contains("              name=/results/1.$$JOB_COMPLETION_INDEX.0.$$NODE\n"));
    }

    #[test]
    fn names_in_scripts_are_strings_and_labels_whatever_they_are() {
        let task = FleetTask {
            program: format!("App_{}", "x.".repeat(40)),
            front: "pagewise tune".into(),
            back: "-- app".into(),
            hosts: 1000,
            results: "/a\nrm -rf b".into(),
            directory: None,
        };
        let job = kubernetes(&task, "123", "yes: [\n");
        assert!(job.contains("          image: \"123\"\n"), "{job}");
        assert!(job.contains("            claimName: \"yes: [\\n\"\n"), "{job}");
        let name = job_name(&task.program, task.hosts);
        assert!(name.len() + "-999".len() <= LONGEST_LABEL && name.len() > 55, "{name}");
        assert!(name.starts_with("pagewise-app-x-x-") && name.ends_with('x'), "{name}");
        assert_eq!(job_name("...", 8), "pagewise");
        assert!(slurm(&task).contains("merge DIR\n#SBATCH"));
        assert!(
            ansible(&task)
                .starts_with("# ansible-playbook -i INVENTORY FILE. Then: pagewise merge DIR\n")
        );
    }

    #[test]
    fn ansible_replaces_nothing_of_a_command() {
        let task = FleetTask {
            program: "app".into(),
            front: "pagewise tune --prepare 'a {{ b }}'".into(),
            back: "-- app '{% c %}' '{# d' {}".into(),
            hosts: 8,
            results: "r{{e}}".into(),
            directory: Some("/f{#".into()),
        };
        let play = ansible(&task);
        let known = ["ansible_play_hosts.index(inventory_hostname) + 1", "inventory_hostname"];
        let known = known.into_iter().chain(["measured.stdout"]);
        let rest =
            known.fold(play.clone(), |text, name| text.replace(&format!("{{{{ {name} }}}}"), "1"));
        // The remaining Jinja expressions stand for single braces.
        let parts: Vec<&str> = rest.split("{{ '{' }}").collect();
        assert_eq!(parts.len(), 1 + 2 + 3 + 2 * 2 + 1, "{play}");
        assert!(parts.iter().skip(1).all(|part| !part.contains('{')), "{play}");
        assert!(rest.replace("{{ '{' }}", "{").contains("--seed 1 -- app '{% c %}' '{# d' {}"));
    }
}

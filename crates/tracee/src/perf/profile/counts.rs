//! Counts equal stacks of equally named processes, and names the kernel functions in them.

use super::Walker;
use super::kin::KinFilter;
use super::record::{ProfileEvent, ProfileRecord, ThreadSample};
use crate::mapped_file::MappedFiles;
use crate::perf::spaces::{CodeLocation, CodeSpaces};
use crate::perf::stacks::name;
use crate::perf::texts::NumberedTexts;
use pagewise_kernel::kallsyms::KernelSymbols;
use pagewise_model::profile::{ProfiledStack, SamplingClock, StackSamples, UserFrame};
use pagewise_model::{Bytes, Nanos};
use std::collections::HashMap;
use std::sync::Arc;

/// A stack as sampled.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SampledStack {
    process: u32,
    kernel: Vec<u64>,
    user: Vec<CodeLocation>,
}

/// Stack counts so far.
#[derive(Debug)]
pub(super) struct ProfileCounts {
    clock: SamplingClock,
    /// Selects whose samples count if the events cover all processes.
    kin: Option<KinFilter>,
    spaces: CodeSpaces,
    files: MappedFiles,
    stacks: HashMap<SampledStack, u64>,
    walker: Option<Walker>,
    lost: u64,
    begun_tasks: u64,
}

impl ProfileCounts {
    /// No counts yet, for samples by this clock and code of `files`; `walker` walks the copied stacks.
    pub(super) fn new(clock: SamplingClock, files: MappedFiles, walker: Option<Walker>) -> Self {
        Self {
            kin: (clock == SamplingClock::Cpus).then(KinFilter::default),
            clock,
            spaces: CodeSpaces::default(),
            files,
            stacks: HashMap::new(),
            walker,
            lost: 0,
            begun_tasks: 0,
        }
    }

    /// Takes one event. Events come in the order of their times.
    pub(super) fn take(&mut self, event: ProfileEvent) {
        match event.told {
            ProfileRecord::Sample(sample) => self.count(sample),
            ProfileRecord::Name { pid, name, is_exec } => {
                // Names are reported only for the program's own processes; for the first one, from its exec
                // on.
                if let Some(kin) = &mut self.kin {
                    kin.adopt(pid);
                }
                self.spaces.name(pid, &name, is_exec);
            }
            ProfileRecord::Map(mut map) => {
                if map.is_executable {
                    map.path = self.files.meet(&map).to_string();
                }
                self.spaces.map(&map);
            }
            ProfileRecord::Fork { pid, parent_pid } => {
                if self.kin.as_mut().is_none_or(|kin| kin.fork(pid, parent_pid)) {
                    self.begun_tasks = self.begun_tasks.saturating_add(1);
                    self.spaces.fork(pid, parent_pid);
                }
            }
            ProfileRecord::Lost(count) => self.lost = self.lost.saturating_add(count),
        }
    }

    /// Whether stacks are walked.
    pub(super) const fn walks(&self) -> bool {
        self.walker.is_some()
    }

    /// Whether samples of process `pid` may count.
    pub(super) fn may_count(&self, pid: i32) -> bool {
        !self.kin.as_ref().is_some_and(|kin| kin.is_stranger(pid))
    }

    /// A fork that made process `pid` was read. It is processed later.
    pub(super) fn expect(&mut self, pid: i32) {
        if let Some(kin) = &mut self.kin {
            kin.doubt(pid);
        }
    }

    fn count(&mut self, sample: ThreadSample) {
        if self.kin.as_mut().is_some_and(|kin| !kin.has(sample.pid)) {
            return;
        }
        let process = self.spaces.name_of(sample.pid);
        let addresses = match (sample.copied, &mut self.walker) {
            (Some(stack), Some(walker)) => {
                let spaces = &self.spaces;
                walker.walk(sample.pid, &stack.registers, &stack.bytes, &|address| {
                    spaces.code_at(sample.pid, address)
                })
            }
            _ => sample.user,
        };
        let user = self.callers(sample.pid, &addresses);
        let stack = SampledStack { process, kernel: sample.kernel, user };
        *self.stacks.entry(stack).or_default() += 1;
    }

    /// The code of a call chain, up to the first entry that is not code: a program without frame pointers
    /// uses the register for something else.
    fn callers(&self, pid: i32, addresses: &[u64]) -> Vec<CodeLocation> {
        let place = |(depth, address): (usize, &u64)| {
            // Above the innermost entry, an address is a return address, which may be just past the function.
            let address = if depth == 0 { *address } else { address.saturating_sub(1) };
            self.spaces.code(pid, address)
        };
        addresses.iter().enumerate().map_while(place).collect()
    }

    /// All stacks with the names of kernel functions, most frequent first.
    pub(super) fn resolve(&self, symbols: &KernelSymbols, period_ns: Nanos) -> StackSamples {
        let mut named: HashMap<(u32, Vec<&str>, &[CodeLocation]), u64> = HashMap::new();
        for (stack, count) in &self.stacks {
            let kernel = stack.kernel.iter().enumerate();
            let names: Vec<&str> = kernel.map(|(depth, ip)| name(symbols, depth, *ip)).collect();
            *named.entry((stack.process, names, stack.user.as_slice())).or_default() += count;
        }
        let mut names = NumberedTexts::default();
        let mut frames: HashMap<CodeLocation, Arc<UserFrame>> = HashMap::new();
        let mut frame = |code: &CodeLocation| {
            Arc::clone(frames.entry(*code).or_insert_with(|| Arc::new(self.frame(*code))))
        };
        let mut stacks: Vec<ProfiledStack> = named
            .into_iter()
            .map(|((process, kernel, user), count)| ProfiledStack {
                process: self.spaces.text(process),
                kernel: kernel.into_iter().map(|name| names.shared(name)).collect(),
                user: user.iter().map(&mut frame).collect(),
                count,
            })
            .collect();
        stacks.sort_by(|a, b| {
            b.count
                .cmp(&a.count)
                .then_with(|| a.process.cmp(&b.process))
                .then_with(|| a.kernel.cmp(&b.kernel))
                .then_with(|| a.user.iter().map(place).cmp(b.user.iter().map(place)))
        });
        StackSamples {
            stacks,
            period_ns,
            clock: self.clock.clone(),
            lost: self.lost,
            begun_tasks: self.begun_tasks,
            processes: self.spaces.processes(),
        }
    }

    /// Takes the number of lost records that the kernel counted; not all of them are reported.
    pub(super) fn found_lost(&mut self, counted: u64) {
        self.lost = self.lost.max(counted);
    }

    fn frame(&self, code: CodeLocation) -> UserFrame {
        let path = self.spaces.text(code.path);
        let maker = (code.maker != 0).then_some(code.maker);
        UserFrame { path, offset_bytes: Bytes(code.offset), function: None, maker }
    }
}

fn place(frame: &Arc<UserFrame>) -> (&str, Bytes) {
    (&frame.path, frame.offset_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::fault::event::MapEvent;

    const KERNEL: u64 = 0xffff_ffff_8100_0000;

    fn sample(pid: i32, kernel: &[u64], user: &[u64]) -> ProfileRecord {
        let (kernel, user) = (kernel.to_vec(), user.to_vec());
        ProfileRecord::Sample(ThreadSample { pid, kernel, user, copied: None })
    }

    fn counts(clock: SamplingClock, all: Vec<ProfileRecord>) -> ProfileCounts {
        let mut counts = ProfileCounts::new(clock, MappedFiles::default(), None);
        for (at, told) in all.into_iter().enumerate() {
            counts.take(ProfileEvent { at_ns: Nanos(at as u64), told });
        }
        counts
    }

    #[test]
    fn stacks_of_all_processes_are_counted_and_named() {
        let symbols = KernelSymbols::parse(
            "ffffffff81000000 T filemap_read\nffffffff81000100 T _copy_to_iter\n",
        )
        .unwrap();
        let name =
            |pid, name: &str| ProfileRecord::Name { pid, name: name.to_owned(), is_exec: true };
        let map = MapEvent {
            pid: 1,
            start_address: 0x1000,
            size_bytes: Bytes(0x1000),
            offset_bytes: Bytes(0),
            is_executable: true,
            is_shared: false,
            path: "/bin/cat".to_owned(),
            file: None,
        };
        let copy = |place: u64| sample(1, &[KERNEL + 0x100 + place, KERNEL + 0x50], &[0x1010]);
        let all = counts(
            SamplingClock::default(),
            vec![
                name(1, "cat"),
                ProfileRecord::Map(map),
                name(2, "wc"),
                copy(1),
                copy(2),
                sample(2, &[], &[0x1010]),
                // The following entry is not code, so the rest of the chain is invalid.
                sample(1, &[], &[0x1020, 0x1031, 0x77, 0x1040]),
                ProfileRecord::Fork { pid: 3, parent_pid: 1 },
                ProfileRecord::Lost(3),
            ],
        );
        let samples = all.resolve(&symbols, Nanos(500));
        let frame = |offset| {
            let (path, offset_bytes) = ("/bin/cat".into(), Bytes(offset));
            Arc::new(UserFrame { path, offset_bytes, function: None, maker: None })
        };
        let stack =
            |process: &str, kernel: &[&str], user: Vec<Arc<UserFrame>>, count| ProfiledStack {
                process: process.into(),
                kernel: kernel.iter().map(|name| (*name).into()).collect(),
                user,
                count,
            };
        let want = [
            stack("cat", &["_copy_to_iter", "filemap_read"], vec![frame(0x10)], 2),
            stack("cat", &[], vec![frame(0x20), frame(0x30)], 1),
            stack("wc", &[], vec![], 1),
        ];
        assert_eq!(samples.stacks, want);
        assert_eq!((samples.lost, samples.begun_tasks), (3, 1));
        assert_eq!(samples.period_ns, Nanos(500));
    }

    #[test]
    fn of_whole_cpus_the_programs_own_samples_alone_are_counted() {
        let symbols = KernelSymbols::parse("ffffffff81000000 T exit_mmap\n").unwrap();
        let name =
            |name: &str| ProfileRecord::Name { pid: 1, name: name.to_owned(), is_exec: true };
        let here = |pid| sample(pid, &[KERNEL], &[]);
        let fork = |pid, parent_pid| ProfileRecord::Fork { pid, parent_pid };
        let before = [here(1), here(9)];
        let with = [name("sh"), here(1), fork(2, 1), fork(1, 1), fork(10, 9), here(2), here(10)];
        // 2 has ended. What it releases still belongs to it, until another process has its number.
        let after = [here(2), fork(2, 9), here(2)];
        let mut all = counts(SamplingClock::Cpus, [&before[..], &with, &after].concat());
        let samples = all.resolve(&symbols, Nanos(500));
        let total: u64 = samples.stacks.iter().map(|stack| stack.count).sum();
        assert_eq!((total, samples.begun_tasks, samples.clock), (3, 2, SamplingClock::Cpus));
        assert!(samples.stacks.iter().all(|stack| &*stack.process == "sh"), "{:?}", samples.stacks);
        assert!(all.may_count(1) && !all.may_count(10) && all.may_count(11));
        all.expect(10);
        assert!(all.may_count(10));
    }
}

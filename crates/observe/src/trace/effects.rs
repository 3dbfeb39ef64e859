//! What a program does to the world outside itself that a second run may not repeat safely.
//!
//! A call is judged when it begins, by what is there at that moment, and counted when it succeeds.
//! Files that the tree made itself in this run (by device and inode, or by name) are its own.
//! Not seen: changes through descriptors inherited from the caller, through shared mappings of
//! files opened before, io_uring, and what other programs do on request.

use super::calls::{Address, Flags, Kind, Named, Target, WRITING};
use super::place::{self, Identity, Place, identity, is_lasting, is_process_view};
use pagewise_model::look::SideEffect;
use pagewise_tracee::ptrace::{read_memory, read_u64};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// What will have happened if the call that was seen to begin succeeds.
#[derive(Debug, Clone, Default)]
pub(super) struct Intent {
    /// Action and subject, if it is an effect.
    effect: Option<(String, String)>,
    /// A name that then is the tree's own.
    makes: Option<Place>,
    /// The result is a descriptor of a new file.
    opens_new: bool,
}

/// Effects and what they are judged by.
#[derive(Debug, Default)]
pub(super) struct Effects {
    scratch: Vec<PathBuf>,
    made: HashSet<Identity>,
    names: HashSet<PathBuf>,
    found: Vec<SideEffect>,
}

/// Whether a process belongs to the tree: `(process, thread id or group)`.
pub(super) type InTree<'a> = &'a dyn Fn(i32) -> bool;

impl Effects {
    pub(super) fn new(scratch: &[PathBuf]) -> Self {
        let scratch = scratch
            .iter()
            .map(|path| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()))
            .collect();
        Self { scratch, ..Self::default() }
    }

    pub(super) fn into_found(self) -> Vec<SideEffect> {
        self.found
    }

    /// What descriptor `fd` of `pid` leads to belongs to the run: its own standard output.
    pub(super) fn adopt(&mut self, pid: i32, fd: i32) {
        let meta = std::fs::metadata(format!("/proc/{pid}/fd/{fd}"));
        self.made.extend(meta.ok().map(|meta| identity(&meta)));
    }

    /// Judges a call that begins; `None` when nothing can follow from it.
    pub(super) fn begin(
        &self,
        tid: i32,
        pid: i32,
        kind: Kind,
        args: &[u64; 6],
        number: i64,
        in_tree: InTree<'_>,
    ) -> Option<Intent> {
        match kind {
            Kind::Open(named, flags) => self.begin_open(tid, named, flags, args),
            Kind::Remove(named) => {
                let place = place::named(tid, named, args)?;
                let removed = place.own.as_ref()?;
                let action = if removed.is_dir() { "removed directory" } else { "removed" };
                self.own_effect(action, &place)
            }
            Kind::Rename => self.begin_rename(tid, args, number),
            Kind::Make(named) => {
                let place = place::named(tid, named, args)?;
                Some(Intent { makes: Some(place), ..Intent::default() })
            }
            Kind::Change(named, action) => {
                self.target_effect(action, &place::named(tid, named, args)?)
            }
            Kind::ChangeOpen(action) => {
                self.target_effect(action, &place::opened(tid, args[0] as i32)?)
            }
            Kind::Connect(address) => effect("connected to", far_address(tid, address, args)?),
            Kind::Signal(target) => begin_signal(pid, target, args, in_tree),
            Kind::System(action) => effect(action, String::new()),
            Kind::Memory | Kind::Exec | Kind::ExitGroup => None,
        }
    }

    /// The call came back with `result`.
    pub(super) fn end(&mut self, tid: i32, pid: i32, intent: Intent, result: i64) {
        let under_way = result == i64::from(-libc::EINPROGRESS);
        if result < 0 && !under_way {
            return;
        }
        if intent.opens_new {
            self.adopt(tid, result as i32);
        }
        if let Some(place) = intent.makes {
            let meta = std::fs::symlink_metadata(&place.path);
            self.made.extend(meta.ok().map(|meta| identity(&meta)));
            self.names.insert(place.shown);
        }
        if let Some((action, subject)) = intent.effect {
            let effect = SideEffect { action, subject, pid };
            if !self.found.contains(&effect) {
                self.found.push(effect);
            }
        }
    }

    fn begin_open(&self, tid: i32, named: Named, flags: Flags, args: &[u64; 6]) -> Option<Intent> {
        let flags = match flags {
            Flags::Argument(index) => args[index],
            Flags::Structure => read_u64(tid, args[2]).ok()?,
            Flags::Creat => WRITING,
        };
        if flags & WRITING == 0 {
            return None;
        }
        let place = place::named(tid, named, args)?;
        match &place.target {
            None => Some(Intent { opens_new: true, makes: Some(place), ..Intent::default() }),
            Some(meta) if meta.is_dir() => Some(Intent { opens_new: true, ..Intent::default() }),
            Some(meta) if !meta.is_file() => None,
            Some(_) if flags & libc::O_TRUNC as u64 != 0 => self.target_effect("truncated", &place),
            Some(_) if flags & (libc::O_WRONLY | libc::O_RDWR) as u64 != 0 => {
                self.target_effect("opened for writing", &place)
            }
            Some(_) => None,
        }
    }

    fn begin_rename(&self, tid: i32, args: &[u64; 6], number: i64) -> Option<Intent> {
        let (from, to) = if number == old_rename() {
            (Named::Path, Named::SecondPath)
        } else {
            (Named::At, Named::ThirdAt)
        };
        let (from, to) = (place::named(tid, from, args)?, place::named(tid, to, args)?);
        let mut intent = self
            .own_effect("renamed", &from)
            .or_else(|| self.own_effect("replaced by renaming", &to))
            .unwrap_or_default();
        intent.makes = intent.effect.is_none().then_some(to);
        Some(intent)
    }

    /// The effect on what a name itself is, unless it is the tree's own.
    fn own_effect(&self, action: &str, place: &Place) -> Option<Intent> {
        let own = place.own.as_ref()?;
        let made = self.made.contains(&identity(own)) || self.names.contains(&place.shown);
        if made || self.is_free(&place.shown) {
            return None;
        }
        effect(action, place.shown.display().to_string())
    }

    /// The effect on what a name leads to, unless it is the tree's own.
    fn target_effect(&self, action: &str, place: &Place) -> Option<Intent> {
        let target = place.target.as_ref()?;
        let made = self.made.contains(&identity(target));
        if made || !is_lasting(target) || self.is_free(&place.shown) {
            return None;
        }
        effect(action, place.shown.display().to_string())
    }

    fn is_free(&self, shown: &Path) -> bool {
        is_process_view(shown)
            || shown.starts_with("/memfd:")
            || self.scratch.iter().any(|prefix| shown.starts_with(prefix))
    }
}

#[cfg(target_arch = "x86_64")]
const fn old_rename() -> i64 {
    libc::SYS_rename
}

fn effect(action: &str, subject: String) -> Option<Intent> {
    Some(Intent { effect: Some((action.to_owned(), subject)), ..Intent::default() })
}

fn begin_signal(pid: i32, target: Target, args: &[u64; 6], in_tree: InTree<'_>) -> Option<Intent> {
    let whom = args[0] as i32;
    // Existence is asked for with signal 0; of two ids the first is the process.
    let inside = match target {
        Target::Process if whom == 0 => in_tree(group_of(pid)?),
        Target::Process if whom < -1 => in_tree(whom.checked_neg()?),
        Target::Process | Target::Thread => whom != -1 && in_tree(whom),
        Target::Descriptor => in_tree(pid_of_descriptor(pid, whom)?),
    };
    let asked = matches!(target, Target::Process | Target::Thread) && args[1] == 0;
    if inside || asked {
        return None;
    }
    let subject = match target {
        Target::Descriptor => format!("the process behind descriptor {whom}"),
        _ if whom == -1 => "every process".to_owned(),
        _ if whom <= 0 => format!("process group {}", whom.unsigned_abs()),
        _ => format!("process {whom}"),
    };
    effect("sent a signal to", subject)
}

fn group_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(2)?.parse().ok()
}

fn pid_of_descriptor(pid: i32, fd: i32) -> Option<i32> {
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok())
}

/// The internet address beyond this machine that a call sends to.
fn far_address(tid: i32, address: Address, args: &[u64; 6]) -> Option<String> {
    let (pointer, length) = match address {
        Address::Arguments(pointer, length) => (args[pointer], args[length]),
        Address::Message => (read_u64(tid, args[1]).ok()?, read_u64(tid, args[1] + 8).ok()?),
    };
    let mut bytes = [0; 28];
    let length = usize::try_from(length & 0xffff_ffff).ok()?.min(bytes.len());
    if pointer == 0 {
        return None;
    }
    let read = read_memory(tid, pointer, &mut bytes[..length]).ok()?;
    let address = parse_address(&bytes[..read])?;
    let ip = address.ip().to_canonical();
    (!ip.is_loopback() && !ip.is_unspecified()).then(|| address.to_string())
}

fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip: IpAddr = match family {
        libc::AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inet(ip: [u8; 4]) -> Vec<u8> {
        let mut bytes = (libc::AF_INET as u16).to_ne_bytes().to_vec();
        bytes.extend([0, 80]);
        bytes.extend(ip);
        bytes.extend([0; 8]);
        bytes
    }

    #[test]
    fn addresses_beyond_the_machine_count() {
        let pid = std::process::id() as i32;
        let far = |bytes: &[u8]| {
            let args = [3, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0];
            far_address(pid, Address::Arguments(1, 2), &args)
        };
        assert_eq!(far(&inet([192, 0, 2, 1])), Some("192.0.2.1:80".to_owned()));
        assert_eq!(far(&inet([127, 3, 0, 1])), None);
        assert_eq!(far(&[1, 0, b'/', b'x']), None);
        assert_eq!(far(&[2, 0]), None);
        let mut six = (libc::AF_INET6 as u16).to_ne_bytes().to_vec();
        six.extend([0; 26]);
        six[23] = 1;
        assert_eq!(far(&six), None);
        six[8] = 0x20;
        assert!(far(&six).is_some());
    }

    #[test]
    fn signals_beyond_the_tree_count() {
        let tree = |pid: i32| pid == 7;
        let judge = |args: [u64; 6]| begin_signal(7, Target::Process, &args, &tree).is_some();
        assert!(!judge([7, 15, 0, 0, 0, 0]) && !judge([8, 0, 0, 0, 0, 0]));
        assert!(!judge([-7_i64 as u64, 15, 0, 0, 0, 0]));
        assert!(judge([8, 15, 0, 0, 0, 0]) && judge([-1_i64 as u64, 15, 0, 0, 0, 0]));
    }
}

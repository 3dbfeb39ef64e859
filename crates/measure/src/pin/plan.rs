//! What is to be pinned, and what that will take: told before anything is begun.

use super::means::Means;
use super::once;
use crate::cost::Cost;
use crate::error::PriceError;
use crate::kinds::Kinds;
use pagewise_kernel::region::{Pages, Region};
use pagewise_kernel::{SysError, affinity, limits};
use pagewise_model::pin::{MissingWay, Point, Way};
use pagewise_model::walk::{PageKind, Unavailable};
use pagewise_model::{Bytes, Nanos};

/// Memory that the pieces go through.
const REGION: Bytes = Bytes::mib(2);
/// Time of a sample beside its pieces: thread, mapping, looks at its pages, pipes.
const START: Nanos = Nanos::millis(3);
/// Time of a timed piece, and of one of the short form.
const PIECE: Nanos = Nanos::millis(1);
const QUICK_PIECE: Nanos = Nanos(300_000);
/// What was asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// By which ways; those without pinning that they are set against are taken along.
    pub ways: Vec<Way>,
    /// On which pages.
    pub kinds: Vec<PageKind>,
    /// Bytes of a call, each a power of two and at most 1 MiB.
    pub sizes: Vec<Bytes>,
    /// Fresh mappings of each point.
    pub repeats: u32,
    /// Shorter pieces and a cap of 18 s.
    pub quick: bool,
    /// Seed of all orders.
    pub seed: u64,
}

/// A plan for this machine.
#[derive(Debug)]
pub struct Plan {
    pub(super) asked: Asked,
    pub(super) points: Vec<Point>,
    pub(super) unavailable: Vec<Unavailable>,
    pub(super) missing_ways: Vec<MissingWay>,
    pub(super) kinds: Kinds,
    pub(super) cpu: u32,
}

impl Plan {
    /// What was asked for, as far as this machine has pages and ways.
    ///
    /// # Errors
    /// When the machine does not tell what it has, or nothing is left to be measured.
    pub fn new(mut asked: Asked) -> Result<Self, PriceError> {
        let kinds = Kinds::here();
        let no_cpu = || PriceError::Unavailable("there is no CPU to run on".to_owned());
        let cpu = affinity::get(0)?.first().copied().ok_or_else(no_cpu)?;
        let most = limits::own_memory()?.bytes;
        let tried = asked.kinds.iter().map(|kind| try_kind(kinds, *kind, most));
        let unavailable: Vec<Unavailable> = tried.filter_map(Result::err).collect();
        asked.kinds.retain(|kind| !unavailable.iter().any(|missing| missing.pages == *kind));
        let missing_ways: Vec<MissingWay> =
            asked.ways.iter().filter_map(|way| try_way(*way).err()).collect();
        asked.ways.retain(|way| !missing_ways.iter().any(|missing| missing.way == *way));
        asked.sizes.retain(|size| *size >= Bytes(kinds.base().bytes()) && *size <= REGION);
        let points = points(&asked);
        if points.is_empty() {
            let why = missing_ways.first().map(|m| format!("{}: {}", m.way.name(), m.why));
            let why = why
                .or_else(|| unavailable.first().map(|m| format!("{}: {}", m.pages.name(), m.why)));
            let why = why.unwrap_or_else(|| "no size is left".to_owned());
            return Err(PriceError::Unavailable(format!("nothing to measure: {why}")));
        }
        Ok(Self { asked, points, unavailable, missing_ways, kinds, cpu })
    }

    /// What it takes.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let mappings = self.points.len() as u64 * u64::from(self.asked.repeats);
        let once = START + Nanos(self.piece().0 * u64::from(once::PIECES));
        let about = Nanos(once.0.saturating_mul(mappings));
        let resident = self.asked.kinds.iter().map(|kind| self.kinds.resident(*kind, REGION));
        let (points, asked) = (self.points.len(), &self.asked);
        let memory = resident.max().unwrap_or_default() + Bytes::mib(1);
        Cost::of(points, asked.repeats, about, asked.quick).with_memory(memory)
    }

    /// Memory that the pieces go through.
    pub(super) const fn region() -> Bytes {
        REGION
    }

    /// Time of a timed piece.
    pub(super) const fn piece(&self) -> Nanos {
        if self.asked.quick { QUICK_PIECE } else { PIECE }
    }
}

/// Takes one page of the kind, where a mapping of it leaves enough to others.
fn try_kind(kinds: Kinds, kind: PageKind, most: Bytes) -> Result<(), Unavailable> {
    let resident = kinds.resident(kind, REGION);
    if resident > most {
        return Err(Unavailable {
            pages: kind,
            why: format!("a mapping takes {resident}, and {most} may be taken"),
            next: "again when more memory is free".to_owned(),
        });
    }
    kinds.try_one(kind)
}

/// Every way that was asked for and the one without pinning, on every kind of page, by every size.
fn points(asked: &Asked) -> Vec<Point> {
    let mut points = Vec::new();
    let wanted = |way: &Way| {
        asked.ways.contains(way) || asked.ways.iter().any(|asked| asked.without() == Some(*way))
    };
    for way in Way::ALL.into_iter().filter(wanted) {
        let mut kinds: Vec<PageKind> = asked.kinds.iter().map(|kind| way.pages(*kind)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            points.extend(asked.sizes.iter().map(|size| Point::new(way, kind, *size)));
        }
    }
    points
}

/// Pins one page by a way.
fn try_way(way: Way) -> Result<(), MissingWay> {
    let base = Bytes(pagewise_kernel::page_size::base().bytes());
    let taken = || {
        let size = usize::try_from(base.0).unwrap_or(0);
        let mut region = Region::new(base, Pages::Base)?;
        region.populate()?;
        Means::new(way, size)?.turn(&region, size)
    };
    taken().map(drop).map_err(|error| MissingWay {
        way,
        next: next_step(way, &error),
        why: error.to_string(),
    })
}

fn next_step(way: Way, error: &PriceError) -> String {
    let errno = match error {
        PriceError::Sys(error) => SysError::errno(error),
        _ => None,
    };
    match (way, errno) {
        (Way::GupTest, Some(libc::ENOENT)) => {
            "as root: mount -t debugfs none /sys/kernel/debug, on a kernel with CONFIG_GUP_TEST"
        }
        (Way::GupTest, _) => "run as root",
        (Way::Register, Some(libc::ENOMEM)) => "a larger RLIMIT_MEMLOCK (ulimit -l)",
        (Way::Register, _) => "sysctl kernel.io_uring_disabled=0; in a container: allow io_uring",
        (Way::ReadOwn, _) => "in a container: allow process_vm_readv",
        (Way::Vmsplice | Way::Tee, _) => "in a container: allow vmsplice, tee and splice",
        (Way::Copy, _) => "again when more memory is free",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked {
        Asked {
            ways: vec![Way::ReadOwn],
            kinds: vec![PageKind::Base],
            sizes: [64, 256].map(Bytes::kib).to_vec(),
            repeats: 10,
            quick: false,
            seed: 1,
        }
    }

    #[test]
    fn what_a_way_is_set_against_is_taken_along() {
        let kinds = vec![PageKind::Base, PageKind::Thp];
        let ways = vec![Way::Vmsplice, Way::ReadOwn];
        let points = points(&Asked { kinds, ways, ..asked() });
        let count = |way| points.iter().filter(|point| point.way == way).count();
        let counts = [Way::Vmsplice, Way::Tee, Way::ReadOwn, Way::Copy, Way::Register].map(count);
        assert_eq!(counts, [4, 2, 4, 4, 0]);
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn a_plan_says_what_it_takes() {
        let plan = match Plan::new(asked()) {
            Ok(plan) => plan,
            Err(error) => return println!("SKIP a_plan_says_what_it_takes: {error}"),
        };
        let cost = plan.cost();
        assert_eq!((cost.points, cost.mappings), (4, 40));
        assert!(cost.cap_ns > cost.about_ns && cost.about_ns > Nanos::millis(100), "{cost:?}");
        let quick = Plan::new(Asked { quick: true, ..asked() }).expect("as before").cost();
        assert!(quick.cap_ns < Nanos::secs(20), "{quick:?}");
    }

    #[test]
    fn nothing_is_no_plan() {
        let beyond = Asked { sizes: vec![Bytes(1), Bytes::gib(1)], ..asked() };
        let error = Plan::new(beyond).expect_err("no such size").to_string();
        assert!(error.contains("nothing to measure"), "{error}");
    }

    #[test]
    fn a_way_that_is_missing_says_what_to_do() {
        for way in Way::ALL {
            if let Err(missing) = try_way(way) {
                assert!(!missing.why.is_empty() && !missing.next.is_empty(), "{missing:?}");
            }
        }
        let refused = |errno: i32| {
            let source = std::io::Error::from_raw_os_error(errno);
            PriceError::Sys(SysError::new("x", "y", source))
        };
        assert!(next_step(Way::Register, &refused(libc::ENOMEM)).contains("MEMLOCK"));
        assert!(next_step(Way::Register, &refused(libc::EPERM)).contains("io_uring_disabled"));
        assert!(next_step(Way::GupTest, &refused(libc::ENOENT)).contains("CONFIG_GUP_TEST"));
        assert!(next_step(Way::ReadOwn, &refused(libc::ENOSYS)).contains("process_vm_readv"));
    }
}

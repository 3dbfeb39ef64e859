//! The programs that calls are injected into. Each prints its results as numbers on one line.

use std::arch::asm;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn say(words: &[u64]) {
    let words: Vec<String> = words.iter().map(u64::to_string).collect();
    println!("{}", words.join(" "));
    std::io::stdout().flush().unwrap();
}

fn map_anonymous(length: usize) -> u64 {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping disturbs nothing.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    assert_ne!(address, libc::MAP_FAILED);
    address as u64
}

/// Maps 64 MiB, waits for a byte, writes to each page and sums, then waits for another byte.
pub(crate) fn map() {
    let length = 64 << 20;
    let start = map_anonymous(length);
    say(&[start, length as u64]);
    let mut byte = [0];
    std::io::stdin().read_exact(&mut byte).unwrap();
    let mut sum = 0;
    for offset in (0..length as u64).step_by(4096) {
        let cell = (start + offset) as *mut u64;
        // SAFETY: inside the mapping made above.
        unsafe { cell.write_volatile(1) };
        // SAFETY: inside the mapping made above.
        sum += unsafe { cell.read_volatile() };
    }
    say(&[sum]);
    std::io::stdin().read_exact(&mut byte).unwrap();
}

static STOP: AtomicBool = AtomicBool::new(false);
static HANDLED: AtomicU64 = AtomicU64::new(0);
static SENT: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_signal: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

/// Computes the same checksum again and again, with blocking calls in between, until standard input ends.
/// Prints rounds, wrong sums, calls that returned early, and signals lost.
pub(crate) fn work(signals: bool) {
    let length = 8 << 20;
    let start = map_anonymous(length);
    let truth = checksum();
    if signals {
        // SAFETY: the handler only adds to an atomic.
        unsafe { libc::signal(libc::SIGURG, count as *const () as usize) };
    }
    // SAFETY: has no precondition.
    let process = unsafe { libc::getpid() };
    // SAFETY: has no precondition.
    let main = unsafe { libc::gettid() };
    let (reader, mut writer) = std::io::pipe().unwrap();
    std::thread::spawn(move || {
        while !STOP.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_micros(900));
            if signals && HANDLED.load(Ordering::SeqCst) == SENT.load(Ordering::SeqCst) {
                SENT.fetch_add(1, Ordering::SeqCst);
                // SAFETY: sends a handled signal to a thread of this process.
                unsafe { libc::syscall(libc::SYS_tgkill, process, main, libc::SIGURG) };
            }
            writer.write_all(b"x").unwrap();
        }
    });
    std::thread::spawn(|| {
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        STOP.store(true, Ordering::SeqCst);
    });
    say(&[start, length as u64]);
    let (mut rounds, mut wrong, mut early) = (0, 0, 0);
    while !STOP.load(Ordering::SeqCst) {
        wrong += u64::from(checksum() != truth);
        early += timed_calls(Duration::from_millis(1));
        let mut byte = [0_u8];
        // SAFETY: room for one byte.
        let read = unsafe { libc::read(reader.as_raw_fd(), byte.as_mut_ptr().cast(), 1) };
        early += u64::from(read != 1);
        rounds += 1;
    }
    std::thread::sleep(Duration::from_millis(20));
    let lost = SENT.load(Ordering::SeqCst).abs_diff(HANDLED.load(Ordering::SeqCst));
    say(&[rounds, wrong, early, lost]);
}

/// Makes one wait of each kind for `wait`. Returns how many ended early.
fn timed_calls(wait: Duration) -> u64 {
    let millis = wait.as_millis() as i32;
    let spec = libc::timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
    let in_time = |call: &mut dyn FnMut() -> bool| {
        let begin = Instant::now();
        u64::from(!call() || begin.elapsed() < wait)
    };
    // SAFETY: has no precondition.
    let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    let word = 0_u32;
    // SAFETY: room for the one event asked for.
    let epoll = in_time(&mut || unsafe { libc::epoll_wait(set, &raw mut event, 1, millis) } == 0);
    // SAFETY: `spec` lives; no remainder is asked for.
    let sleep =
        in_time(&mut || unsafe { libc::nanosleep(&raw const spec, std::ptr::null_mut()) } == 0);
    // SAFETY: no descriptors.
    let poll = in_time(&mut || unsafe { libc::poll(std::ptr::null_mut(), 0, millis) } == 0);
    let futex = in_time(&mut || {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: `word` and `spec` live through the call.
        let result = unsafe {
            libc::syscall(libc::SYS_futex, &raw const word, operation, 0, &raw const spec)
        };
        result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT)
    });
    // SAFETY: a descriptor of our own.
    unsafe { libc::close(set) };
    epoll + sleep + poll + futex
}

/// Makes one long wait of each kind in the only thread. Prints rounds, and calls that returned early.
pub(crate) fn waits() {
    let length = 8 << 20;
    let start = map_anonymous(length);
    say(&[start, length as u64]);
    let early = timed_calls(Duration::from_millis(200));
    say(&[1, early]);
}

/// Waits, as after `vfork`, for a child that waits for a byte.
pub(crate) fn vfork() {
    let length = 8 << 20;
    let start = map_anonymous(length);
    say(&[start, length as u64]);
    let flags = libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: as fork: the child has a copy of the memory and makes two system calls only.
    let child = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if child == 0 {
        let mut byte = [0_u8];
        // SAFETY: room for one byte.
        unsafe { libc::read(0, byte.as_mut_ptr().cast(), 1) };
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(0) };
    }
    say(&[u64::from(child > 0)]);
}

/// Sleeps in `nanosleep` of the 32-bit table, called from 64-bit code. Prints the result, and whether it came
/// early. It prints no first line if the kernel has no such calls.
pub(crate) fn old_table() {
    const NANOSLEEP: i64 = 162;
    const GETPID: i64 = 20;
    let call = |number: i64, first: u64, second: u64| {
        let result: i64;
        // SAFETY: a call that takes two integers or pointers to below 4 GiB; it changes rax and,
        // on old kernels, the four registers that 32-bit code has not.
        unsafe {
            asm!(
                "xchg rbx, {first}",
                "int 0x80",
                "xchg rbx, {first}",
                first = inout(reg) first => _,
                inout("rax") number => result,
                in("rcx") second,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            );
        }
        result
    };
    // SAFETY: has no precondition.
    if call(GETPID, 0, 0) != i64::from(unsafe { libc::getpid() }) {
        return say(&[]);
    }
    let length = 8 << 20;
    let start = map_anonymous(length);
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT,
    );
    // SAFETY: a new anonymous mapping disturbs nothing.
    let low = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
    assert_ne!(low, libc::MAP_FAILED);
    let wait = Duration::from_millis(300);
    // SAFETY: the page is ours and aligned; seconds and nanoseconds are 32 bits wide.
    unsafe { low.cast::<[u32; 2]>().write([0, wait.subsec_nanos()]) };
    say(&[start, length as u64]);
    let begin = Instant::now();
    let result = call(NANOSLEEP, low as u64, 0);
    say(&[result.unsigned_abs(), u64::from(begin.elapsed() < wait)]);
}

static ROUNDS: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

/// Computes on a separate stack, in the only thread, until standard input ends. Prints rounds and wrong sums.
pub(crate) fn other_stack() {
    let length = 8 << 20;
    let start = map_anonymous(length);
    let top = map_anonymous(1 << 20) + (1 << 20);
    say(&[start, length as u64]);
    // SAFETY: `compute` runs as any C function, on an aligned stack of 1 MiB; the pointer to the
    // stack before is kept in a register that it preserves.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {compute}",
            "mov rsp, r12",
            top = in(reg) top,
            compute = in(reg) compute as *const (),
            out("r12") _,
            clobber_abi("C"),
        );
    }
    say(&[ROUNDS.load(Ordering::SeqCst), WRONG.load(Ordering::SeqCst)]);
}

extern "C" fn compute() {
    let truth = checksum();
    let mut input = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
    // SAFETY: one live entry; returns at once.
    while unsafe { libc::poll(&raw mut input, 1, 0) } == 0 {
        WRONG.fetch_add(u64::from(checksum() != truth), Ordering::SeqCst);
        ROUNDS.fetch_add(1, Ordering::SeqCst);
    }
}

/// A sum over general registers, the carry flag, vector registers and the red zone.
fn checksum() -> [u64; 6] {
    if std::arch::is_x86_feature_detected!("avx2") { wide_sum() } else { narrow_sum() }
}

const STEPS: u64 = 300_000;

fn wide_sum() -> [u64; 6] {
    let mut lanes = [1_u64, 2, 3, 4];
    let (mut a, mut b) = (7_u64, 11_u64);
    // SAFETY: avx2 is there; reads and writes `lanes` alone and memory below the stack pointer.
    unsafe {
        asm!(
            "vmovdqu ymm5, [{lanes}]",
            "vpaddq ymm6, ymm5, ymm5",
            "vpxor ymm15, ymm15, ymm15",
            "clc",
            "2:",
            "adc {a}, {b}",
            "mov [rsp - 64], {a}",
            "vpaddq ymm5, ymm5, ymm6",
            "vpxor ymm6, ymm6, ymm5",
            "vpaddq ymm15, ymm15, ymm6",
            "rcl {b}, 5",
            "mov {a}, [rsp - 64]",
            "dec {n}",
            "jnz 2b",
            "vpaddq ymm5, ymm5, ymm15",
            "vmovdqu [{lanes}], ymm5",
            lanes = in(reg) lanes.as_mut_ptr(),
            a = inout(reg) a,
            b = inout(reg) b,
            n = inout(reg) STEPS => _,
            out("ymm5") _, out("ymm6") _, out("ymm15") _,
        );
    }
    [lanes[0], lanes[1], lanes[2], lanes[3], a, b]
}

fn narrow_sum() -> [u64; 6] {
    let mut lanes = [1_u64, 2];
    let (mut a, mut b) = (7_u64, 11_u64);
    // SAFETY: reads and writes `lanes` alone and memory below the stack pointer.
    unsafe {
        asm!(
            "movdqu xmm5, [{lanes}]",
            "movdqa xmm6, xmm5",
            "clc",
            "2:",
            "adc {a}, {b}",
            "mov [rsp - 64], {a}",
            "paddq xmm5, xmm6",
            "pxor xmm6, xmm5",
            "rcl {b}, 5",
            "mov {a}, [rsp - 64]",
            "dec {n}",
            "jnz 2b",
            "movdqu [{lanes}], xmm5",
            lanes = in(reg) lanes.as_mut_ptr(),
            a = inout(reg) a,
            b = inout(reg) b,
            n = inout(reg) STEPS => _,
            out("xmm5") _, out("xmm6") _,
        );
    }
    [lanes[0], lanes[1], 0, 0, a, b]
}

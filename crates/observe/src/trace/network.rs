//! Requests of ioctl(2) to sockets about the network (netdevice(7), `<linux/sockios.h>`): which of them change
//! something. Those that are not known to be questions do. Pure, but for the command behind a pointer of
//! `SIOCETHTOOL`.

use pagewise_tracee::ptrace::{read_memory, read_u64};

/// Questions from `SIOCADDRT` on, up to the wireless ones.
#[rustfmt::skip]
const QUESTIONS: [u32; 27] = [
    // Names, lists, marks, addresses and sizes of interfaces.
    0x8910, 0x8912, 0x8913, 0x8915, 0x8917, 0x8919, 0x891b, 0x891d, 0x891f, 0x8921, 0x8925, 0x8927, 0x8929,
    0x8933, 0x8935, 0x8938, 0x8940, 0x8942,
    // Their media, unsent bytes of a socket, its network.
    0x8947, 0x8948, 0x894b, 0x894c,
    // Neighbours, resources, bonds, time stamps.
    0x8954, 0x8961, 0x8970, 0x8994, 0x89b1,
];
/// Wireless: the odd ones ask.
const WIRELESS: u32 = 0x8b00;

const ETHTOOL: u32 = 0x8946;
/// Where `struct ifreq` holds the pointer to the command.
const COMMAND_AT: u64 = 16;
/// Commands of `SIOCETHTOOL` that ask for what programs ask: settings, driver, link, strings, statistics,
/// features, address, time stamps.
const ETHTOOL_QUESTIONS: [u32; 11] =
    [0x1, 0x3, 0xa, 0x1b, 0x1d, 0x20, 0x37, 0x3a, 0x41, 0x42, 0x4c];

/// Whether `request` of thread `tid`, with the argument at `pointer`, changes something.
pub(super) fn changes(tid: i32, request: u32, pointer: u64) -> bool {
    match request {
        ETHTOOL => !command(tid, pointer).is_some_and(|c| ETHTOOL_QUESTIONS.contains(&c)),
        WIRELESS.. => request & 1 == 0,
        _ => !QUESTIONS.contains(&request),
    }
}

fn command(tid: i32, pointer: u64) -> Option<u32> {
    let at = read_u64(tid, pointer.wrapping_add(COMMAND_AT)).ok()?;
    let mut word = [0; 4];
    (read_memory(tid, at, &mut word).ok()? == word.len()).then(|| u32::from_ne_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_change_nothing() {
        let own = std::process::id() as i32;
        let changes = |request| changes(own, request, 8);
        // SIOCADDRT, SIOCSIFFLAGS, SIOCSIFADDR, SIOCBRADDBR, SIOCSIWESSID.
        assert!([0x890b, 0x8914, 0x8916, 0x89a0, 0x8b1a].into_iter().all(changes));
        // SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFINDEX, SIOCGIWNAME.
        assert!(![0x8912, 0x8913, 0x8933, 0x8b01].into_iter().any(changes));
    }

    #[test]
    fn the_command_of_ethtool_decides() {
        let asks = |command: u32| {
            let request = [0, 0, (&raw const command) as u64];
            !changes(std::process::id() as i32, ETHTOOL, request.as_ptr() as u64)
        };
        assert!(asks(0x4c) && !asks(0x4d) && !asks(2));
    }
}

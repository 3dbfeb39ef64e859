//! What has been published about pinning for pipes, set beside what this machine says.
//!
//! The figures are those of a study of 2022 on one laptop (Linux 5.17, pieces of 128 KiB, base pages):
//! finding the pages is 18% of all samples of writer and reader, a third of vmsplice; on huge pages one
//! entry of the page table serves for 32 pages of a piece. A share is confirmed when this machine's is within
//! a quarter of it, as for the ladder of pipes.

use pagewise_model::ladder::{Answer, Claim};
use pagewise_model::pin::{Ratio, Share, Way};
use pagewise_model::walk::PageKind;
use pagewise_model::{Bytes, Fact};

/// Pieces of the published figures: half of 256 KiB.
const PUBLISHED_PIECE: Bytes = Bytes::kib(128);
const OF_CALL: f64 = 1.0 / 3.0;
const OF_TRANSFER: f64 = 0.18;
/// A share this far from the published one, either way, is still the same.
const SAME: f64 = 1.25;

/// Every claim with its answer.
pub(super) fn claims(shares: &[Share], ratios: &[Ratio]) -> Vec<Claim> {
    let base = shares.iter().filter(|share| share.pages == PageKind::Base);
    let nearest = base.min_by_key(|share| share.size_bytes.0.abs_diff(PUBLISHED_PIECE.0));
    vec![
        share_of("a third of vmsplice", "of the call", OF_CALL, nearest, |s| &s.of_call_share),
        share_of(
            "18% of a transfer by vmsplice and splice",
            "of call and emptying together, by one thread",
            OF_TRANSFER,
            nearest,
            |s| &s.of_transfer_share,
        ),
        huge_is_cheaper(ratios),
    ]
}

fn share_of(
    what: &str,
    of: &str,
    published: f64,
    share: Option<&Share>,
    pick: impl Fn(&Share) -> &Fact<f64>,
) -> Claim {
    let claim = format!("finding and holding base pages is {what}");
    let (answer, why) = match share.map(|share| (share, pick(share))) {
        None => (Answer::CannotTell, "vmsplice was not measured on base pages".to_owned()),
        Some((_, Fact::Missing(why))) => (Answer::CannotTell, why.clone()),
        Some((share, Fact::Known(here))) => {
            let is_same = *here <= published * SAME && *here >= published / SAME;
            let answer = if is_same { Answer::Confirmed } else { Answer::Refuted };
            (answer, format!("{:.0}% {of}, pieces of {}", here * 100.0, share.size_bytes))
        }
    };
    Claim { claim, answer, why }
}

fn huge_is_cheaper(ratios: &[Ratio]) -> Claim {
    let claim = "huge pages are cheaper to find and hold: one entry serves for many".to_owned();
    let ratio = ratios.iter().find(|r| (r.way, r.pages) == (Way::Vmsplice, PageKind::Thp));
    let (answer, why) = match ratio.map(|ratio| (ratio.ratio, &ratio.interval)) {
        None => (Answer::CannotTell, "vmsplice was not measured on both".to_owned()),
        Some((ratio, Fact::Missing(why))) => {
            (Answer::CannotTell, format!("{ratio:.2} of base pages; {why}"))
        }
        Some((ratio, Fact::Known((low, high)))) => {
            let answer = match (*low, *high) {
                (_, high) if high < 1.0 => Answer::Confirmed,
                (low, _) if low >= 1.0 => Answer::Refuted,
                _ => Answer::CannotTell,
            };
            (
                answer,
                format!("by vmsplice and splice: {ratio:.2} ({low:.2}-{high:.2}) of a base page"),
            )
        }
    };
    Claim { claim, answer, why }
}

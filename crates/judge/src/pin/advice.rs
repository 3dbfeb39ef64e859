//! What the machine should do: three sentences, on page size, on the size of a call, and on registering.

use pagewise_model::pin::{Pins, Price, Ratio, Share, Way};
use pagewise_model::walk::PageKind;
use pagewise_model::{Bytes, Fact};

/// Below this ratio larger pages are worth asking for.
const WORTH: f64 = 0.9;
/// A call is paid for when it is at most this share of what its pages cost.
const SMALL: f64 = 0.1;
/// Buffer of the sentences: what the study of pipes used.
const USUAL: Bytes = Bytes::kib(256);

/// Three sentences, each a reason where nothing is known.
pub(super) fn advice(
    pins: &Pins,
    prices: &[Price],
    ratios: &[Ratio],
    shares: &[Share],
) -> Vec<String> {
    vec![pages(ratios, shares), calls(pins, prices), register(pins, prices)]
}

fn pages(ratios: &[Ratio], shares: &[Share]) -> String {
    let of_way = ratios.iter().filter(|r| r.way == Way::Vmsplice);
    let Some(best) = of_way.min_by(|a, b| a.ratio.total_cmp(&b.ratio)) else {
        return "Nothing was lent on two kinds of pages, so nothing is said about them.".to_owned();
    };
    let base = shares.iter().filter(|share| share.pages == PageKind::Base);
    let usual = base.min_by_key(|share| share.size_bytes.0.abs_diff(USUAL.0));
    let share = usual.and_then(|share| share.of_transfer_share.known());
    let part = share.map_or_else(String::new, |share| {
        format!("; on base pages {:.0}% of it is finding and holding them", share * 100.0)
    });
    let is_proven = best.interval.known().is_some_and(|(_, high)| *high < WORTH);
    if is_proven {
        format!(
            "Lend huge pages to pipes: by vmsplice and splice a page takes {:.0}% less on {}{part}.",
            (1.0 - best.ratio) * 100.0,
            best.pages.name()
        )
    } else {
        format!(
            "Do not take huge pages for the sake of pinning alone: a tenth less for each page lent is not \
             proven (ratio {:.2}){part}.",
            best.ratio
        )
    }
}

/// The price of a way on base pages.
fn base(prices: &[Price], way: Way) -> Option<&Price> {
    prices.iter().find(|price| (price.way, price.pages) == (way, PageKind::Base))
}

fn calls(pins: &Pins, prices: &[Price]) -> String {
    let price = base(prices, Way::Vmsplice).or_else(|| base(prices, Way::ReadOwn));
    let Some(price) = price else {
        return "Nothing is said about the size of a call: no way was measured on base pages."
            .to_owned();
    };
    match (&price.page_ns, &price.call_ns) {
        (Fact::Known(page), Fact::Known(call)) => {
            let count = (call.median / page.median / SMALL).ceil().max(1.0);
            let size = Bytes((count * pins.base_page_bytes.bytes() as f64) as u64);
            format!(
                "Pin at least {size} in a call of {}: a call costs {:.0} ns beside its pages, a page \
                 {:.1} ns, and from there on the call is less than a tenth.",
                price.way.label(),
                call.median,
                page.median
            )
        }
        (Fact::Missing(why), _) | (_, Fact::Missing(why)) => {
            format!("Nothing is said about the size of a call: {}: {why}.", price.way.label())
        }
    }
}

fn register(pins: &Pins, prices: &[Price]) -> String {
    let known = |way| {
        let price = base(prices, way)?;
        Some((price.page_ns.known()?.median, price.call_ns.known().map_or(0.0, |c| c.median)))
    };
    let pages = USUAL.pages(pins.base_page_bytes) as f64;
    match (known(Way::Register), known(Way::GupTest).or_else(|| known(Way::Vmsplice))) {
        (Some((page, call)), Some((each, _))) => {
            let (once, spared) = (call + page * pages, each * pages);
            format!(
                "Register a buffer of {USUAL} with io_uring when it is used {:.0} times or more: \
                 registering costs {:.1} us on base pages, pinning it anew {:.1} us each time.",
                (once / spared).ceil().max(1.0),
                once / 1e3,
                spared / 1e3
            )
        }
        (Some((page, call)), None) => format!(
            "Count {:.1} us for registering a buffer of {USUAL} with io_uring on base pages; what \
             pinning it anew costs is not known here.",
            (call + page * pages) / 1e3
        ),
        (None, _) => {
            "Nothing is said about registered buffers: their price is not known here.".to_owned()
        }
    }
}

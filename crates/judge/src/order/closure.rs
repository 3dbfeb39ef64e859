//! What entry points reach through references, and the order in which it is laid out.
//!
//! The closure follows every reference until nothing new is found (Drepper, "What every programmer should
//! know about memory", section 7.5). Most programs are one closure, so the order matters most. A piece has
//! the chance of the best path that leads to it. A call on the path is taken with chance [`CALL`]. An address
//! that code takes leads to a call with chance [`ADDRESS`], an address in a table with [`TABLE`]. Functions
//! with many references gain a little. Lists of constructors are entry points.
//!
//! Then each piece joins the likeliest piece that refers to it, as long as both groups fit a window of
//! fault-around (call-chain clustering, Ottoni and Maher 2017, with chances for counts). Groups are sorted by
//! chance per byte. No run is needed. The direction of branches is not known.

use pagewise_model::Bytes;
use pagewise_model::pieces::{LinkPiece, LinkPieces, PieceKind, PieceReference};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Chance that running code reaches one of its calls.
const CALL: f64 = 0.9;
/// Chance that an address that code takes is used.
const ADDRESS: f64 = 0.54;
/// Chance that an address in a table leads to a call.
const TABLE: f64 = 0.02;
/// What code that the compiler found unlikely keeps of its chance.
const COLD: f64 = 0.05;
/// Power of the number of pieces of code that refer to one.
const REFERRED: f64 = 0.15;
/// Largest group: the bytes that one fault maps.
const GROUP: Bytes = Bytes::kib(64);

/// The pieces that `entries` and the constructors reach, as they are best laid out.
#[must_use]
pub fn closure(pieces: &LinkPieces, entries: &[usize]) -> Vec<usize> {
    let starts = pieces.all.iter().enumerate().filter(|(_, piece)| piece.is_start_list);
    let roots = entries.iter().copied().chain(starts.map(|(at, _)| at));
    let mut chances = chances(pieces, roots);
    for (chance, referred) in chances.iter_mut().zip(referred(pieces)) {
        *chance *= f64::from(1 + referred).powf(REFERRED);
    }
    group(pieces, &chances)
}

/// A piece on the best way found so far.
#[derive(PartialEq)]
struct ClosureStep(f64, usize);

impl Eq for ClosureStep {}

impl Ord for ClosureStep {
    fn cmp(&self, other: &Self) -> Ordering {
        // Of equals the first.
        self.0.total_cmp(&other.0).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for ClosureStep {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The chance of the best way to each piece; 0 of those that none leads to.
fn chances(pieces: &LinkPieces, roots: impl Iterator<Item = usize>) -> Vec<f64> {
    let mut chances = vec![0.0; pieces.all.len()];
    let mut open: BinaryHeap<ClosureStep> = roots.map(|root| ClosureStep(1.0, root)).collect();
    while let Some(ClosureStep(chance, at)) = open.pop() {
        if chance <= chances[at] {
            continue;
        }
        chances[at] = chance;
        let piece = &pieces.all[at];
        for (to, how) in &piece.references {
            let next = chance * passed(piece, *how, &pieces.all[*to]);
            if next > chances[*to] {
                open.push(ClosureStep(next, *to));
            }
        }
    }
    chances
}

fn passed(from: &LinkPiece, how: PieceReference, to: &LinkPiece) -> f64 {
    let cold = if to.kind == PieceKind::ColdCode { COLD } else { 1.0 };
    let chance = match how {
        _ if from.is_start_list => 1.0,
        _ if from.kind == PieceKind::Data => TABLE,
        PieceReference::Call => CALL,
        PieceReference::Address => ADDRESS,
    };
    chance * cold
}

/// How many references code makes to each piece.
fn referred(pieces: &LinkPieces) -> Vec<u32> {
    let mut referred = vec![0; pieces.all.len()];
    let code = pieces.all.iter().filter(|piece| piece.kind != PieceKind::Data);
    code.flat_map(|piece| &piece.references).for_each(|(to, _)| referred[*to] += 1);
    referred
}

/// Joins the reached pieces into groups, code and data apart, and sorts the groups.
fn group(pieces: &LinkPieces, chances: &[f64]) -> Vec<usize> {
    let likeliest = likeliest(pieces, chances);
    let mut reached: Vec<usize> = (0..chances.len()).filter(|at| chances[*at] > 0.0).collect();
    reached.sort_by(|a, b| chances[*b].total_cmp(&chances[*a]));
    let mut groups: Vec<Vec<usize>> = (0..chances.len()).map(|at| vec![at]).collect();
    let mut group_of: Vec<usize> = (0..chances.len()).collect();
    let size = |group: &[usize]| group.iter().map(|at| pieces.all[*at].bytes.0).sum::<u64>();
    for at in &reached {
        let Some(from) = likeliest[*at] else { continue };
        let (into, joined) = (group_of[from], group_of[*at]);
        if into != joined && size(&groups[into]) + size(&groups[joined]) <= GROUP.0 {
            let moved = std::mem::take(&mut groups[joined]);
            moved.iter().for_each(|at| group_of[*at] = into);
            groups[into].extend(moved);
        }
    }
    let density = |group: &[usize]| {
        let weight = |at: &usize| chances[*at] * pieces.all[*at].bytes.0 as f64;
        group.iter().map(weight).sum::<f64>() / size(group) as f64
    };
    groups.retain(|group| group.first().is_some_and(|at| chances[*at] > 0.0));
    // Within a group the order of the files, which their authors have chosen.
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups.sort_by(|a, b| density(b).total_cmp(&density(a)));
    groups.concat()
}

/// For each piece, the likeliest piece of the same sort that refers to it.
fn likeliest(pieces: &LinkPieces, chances: &[f64]) -> Vec<Option<usize>> {
    let mut likeliest: Vec<Option<(usize, f64)>> = vec![None; chances.len()];
    for (from, piece) in pieces.all.iter().enumerate() {
        for (to, how) in &piece.references {
            let is_data = pieces.all[*to].kind == PieceKind::Data;
            let weight = chances[from] * if *how == PieceReference::Call { 1.0 } else { 0.3 };
            let is_better = weight > likeliest[*to].map_or(0.0, |(_, former)| former);
            if is_better && is_data == (piece.kind == PieceKind::Data) {
                likeliest[*to] = Some((from, weight));
            }
        }
    }
    likeliest.into_iter().map(|best| best.map(|(from, _)| from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;
    use pagewise_model::pieces::LinkPiece;

    fn pieces(references: &[&[(usize, PieceReference)]]) -> LinkPieces {
        let piece = |(at, references): (usize, &&[(usize, PieceReference)])| LinkPiece {
            name: at.to_string(),
            section: format!(".text.{at}"),
            object: 0,
            kind: PieceKind::Code,
            bytes: Bytes(64),
            align: 16,
            symbols: 1,
            is_start_list: false,
            references: references.to_vec(),
        };
        let all = references.iter().enumerate().map(piece).collect();
        LinkPieces { objects: vec!["a.o".into()], all, ..LinkPieces::default() }
    }

    fn order(pieces: &LinkPieces) -> Vec<usize> {
        closure(pieces, &[0])
    }

    #[test]
    fn what_no_reference_leads_to_is_left_out() {
        use PieceReference::{Address, Call};
        let all = pieces(&[&[(2, Call)], &[(0, Call)], &[(3, Address)], &[(0, Call)]]);
        assert_eq!(order(&all), [0, 2, 3]);
    }

    #[test]
    fn a_call_is_likelier_than_an_address_and_that_than_a_table() {
        use PieceReference::{Address, Call};
        let mut all =
            pieces(&[&[(1, Address), (2, Call), (3, Address)], &[], &[], &[(4, Address)], &[]]);
        all.all[3].kind = PieceKind::Data;
        let chances = chances(&all, std::iter::once(0));
        assert_eq!(chances, [1.0, ADDRESS, CALL, ADDRESS, ADDRESS * TABLE]);
    }

    #[test]
    fn unlikely_code_comes_last_and_constructors_are_reached() {
        use PieceReference::{Address, Call};
        let mut all =
            pieces(&[&[(1, Call), (2, Call)], &[(3, Call)], &[], &[], &[(5, Address)], &[]]);
        all.all.iter_mut().for_each(|piece| piece.bytes = GROUP);
        all.all[2].kind = PieceKind::ColdCode;
        all.all[4].kind = PieceKind::Data;
        all.all[4].is_start_list = true;
        let order = order(&all);
        assert_eq!(order.len(), 6);
        assert_eq!(order.last(), Some(&2));
    }

    #[test]
    fn a_callee_joins_its_caller() {
        use PieceReference::Call;
        let all = pieces(&[&[(1, Call), (3, Call)], &[(4, Call)], &[], &[], &[]]);
        assert_eq!(order(&all), [0, 1, 3, 4]);
        let cycle = pieces(&[&[(1, Call)], &[(2, Call)], &[(0, Call), (1, Call)]]);
        assert_eq!(order(&cycle), [0, 1, 2]);
    }
}

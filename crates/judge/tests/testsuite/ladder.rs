//! A recorded ladder, judged again: the account closes, and the claims match the recording.
use pagewise_judge::bench::pipe::{PipeContext, claims, judge};
use pagewise_model::bench::{BenchClaim, ClaimAnswer};
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::run::SavedRun;
use pagewise_model::{Fact, PageSize};

#[test]
fn a_recording_judged_again_closes_its_accounts() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/ladders/busy.json");
    let run = SavedRun::from_json(&std::fs::read(path).unwrap()).unwrap();
    let Some(RunBody::Bench(BenchReport::Pipe(ladder))) = run.body else { panic!("no ladder") };
    let now = claims(&ladder, &Fact::missing("not recorded"));
    let texts = |claims: &[BenchClaim]| claims.iter().map(|c| c.claim.clone()).collect::<Vec<_>>();
    // From seven on there are claims that the recording had not.
    assert_eq!(texts(&now[..6]), texts(&ladder.claims[..6]));
    // This ladder has neither two of the published rungs nor several sizes.
    let (reach, open) = now.split_last().unwrap();
    assert!(open.iter().all(|claim| claim.answer == ClaimAnswer::CannotTell), "{now:#?}");
    assert_eq!(reach.answer, ClaimAnswer::Refuted, "{reach:?}");
    let before = ladder.judgement.as_ref().unwrap();
    let known = PipeContext {
        prices: run.prices.as_ref(),
        reference: &before.prices,
        base_page: PageSize::BASE_4K,
        l2_bytes: &Fact::missing("not recorded"),
        samples: &[],
    };
    let judgement = judge(&ladder, &known);
    assert_eq!((judgement.accounts.len(), judgement.steps.len()), (3, 2));
    for account in &judgement.accounts {
        let explained: f64 = account.parts.iter().map(|part| part.per_gib_ns).sum();
        let sum = explained + account.unexplained_per_gib_ns;
        assert!((sum - account.per_gib_ns).abs() < 1.0, "{sum} of {}", account.per_gib_ns);
    }
}

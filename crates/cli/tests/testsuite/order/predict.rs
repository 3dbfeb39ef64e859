//! `order predict`: after a relink, the same calculation shows the predicted pages.

use super::{lines, objects, order};
use crate::helper::{Place, said};
use pagewise_model::pieces::OrderForecast;
use std::process::Command;

#[test]
fn a_relink_has_what_was_predicted() {
    let place = Place::new();
    let Some([main, part]) = objects(&place, &["-ffunction-sections", "-falign-functions=512"])
    else {
        return;
    };
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let list = at("start");
    std::fs::write(&list, "main\nfirst\nsecond\nthird\nhelper\nconstruct\n").unwrap();
    let link = |options: &[&str], to: &str| {
        let done = Command::new("cc").args([&main, &part]).args(options).args(["-o", to]).status();
        assert!(done.unwrap().success());
    };
    let (plain, ordered) = (at("plain"), at("ordered"));
    link(&[], &plain);
    let script = at("script");
    lines(&order(&place, &["emit", &list, "--linker", "ld-script", "-o", &script]));
    link(&["-fuse-ld=bfd", &format!("-Wl,-T,{script}")], &ordered);
    let build = format!("relinked={ordered}");
    let words = ["predict", &list, "--program", &plain, "--build", &build, "--json"];
    let done = order(&place, &words);
    let text = said(&done.stdout);
    let forecast: OrderForecast = serde_json::from_str(&text).unwrap();
    let pages = |layout: &str| {
        let found = forecast.layouts.iter().find(|one| one.layout == layout).unwrap();
        found.touched[0].pages
    };
    // The predicted layout begins with the first function of the current one, the relink with its own section.
    assert!(pages("relinked").abs_diff(pages("ordered")) <= 1, "{text}");
    let (page, drawn) = (at("page.html"), &["--map", "--html"]);
    let shown = order(&place, &[&words[..4], drawn, &[&page]].concat());
    let map = said(&shown.stderr);
    assert!(map.contains("as linked\n") && map.contains("each cell is 1 page"), "{map}");
    let shown = lines(&shown).join("\n");
    assert!(shown.contains("as linked") && shown.contains("2.0 MiB"), "{shown}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("<desc>as linked: "), "{page}");
}

#[test]
fn pages_that_were_touched_count_as_they_were_seen() {
    let place = Place::new();
    let Some([main, part]) = objects(&place, &["-ffunction-sections", "-falign-functions=4096"])
    else {
        return;
    };
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (program, list, set) = (at("program"), at("list"), at("set"));
    let linked = Command::new("cc").args([&main, &part]).args(["-o", &program]).status();
    assert!(linked.unwrap().success());
    // `never` is not called: it lies on its own page, which no run touches.
    std::fs::write(&list, "main\nfirst\nsecond\nthird\nhelper\nconstruct\nnever\n").unwrap();
    let words = ["faults", "--exact", "--save-working-set", &set, "--", &program];
    let ran = place.pagewise(&words).output().unwrap();
    if ran.status.code() == Some(3) {
        return println!("SKIP pages_that_were_touched: {}", said(&ran.stderr));
    }
    let predict = |options: &[&str]| {
        let words = [&["predict", &list, "--program", &program, "--json"], options].concat();
        let text = said(&order(&place, &words).stdout);
        let forecast: OrderForecast = serde_json::from_str(&text).unwrap();
        assert!(forecast.layouts.iter().all(|layout| layout.touched[0].is_counted), "{text}");
        forecast.layouts[0].touched[0]
    };
    let (whole, seen) = (predict(&[]).pages, predict(&["--touched", &set]).pages);
    assert!(seen > 0 && seen < whole, "{seen} of {whole}");
    let refused =
        order(&place, &["predict", &list, "--program", &main.to_string_lossy(), "--touched", &set]);
    assert!(said(&refused.stderr).contains("has no code of"), "{}", said(&refused.stderr));
    let many = order(&place, &["predict", &list, "--program", &program, "--touched", &set, &set]);
    assert!(said(&many.stderr).contains("gives 2 files for 1 orders"), "{}", said(&many.stderr));
}

#[test]
fn orders_without_a_counterpart_are_refused() {
    let place = Place::new();
    let Some([main, _]) = objects(&place, &["-ffunction-sections"]) else { return };
    let list = place.path().join("list");
    std::fs::write(&list, "nothing_of_the_kind\n").unwrap();
    let words = [list.to_str().unwrap(), "--program", main.to_str().unwrap()];
    let refused = order(&place, &[&["predict"], &words[..]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused.stderr).contains("has none of these functions"));
    let weights = order(&place, &[&["predict", "--weight", "1,2"], &words[..]].concat());
    assert!(said(&weights.stderr).contains("2 weights for 1 orders"));
}

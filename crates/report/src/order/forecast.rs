//! The predicted effect of orders: pages and faults by layout, and other page sizes.

use super::map::{CodeMap, picture, text_maps};
use crate::number::{change, count, three_digits};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::pieces::{LayoutForecast, OrderForecast};
use pagewise_model::run::SavedRun;

/// The forecast as tables.
#[must_use]
pub fn forecast_section(forecast: &OrderForecast) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading("code touched at the start, predicted");
    page.table(layouts(forecast));
    page.para(faults_from(forecast), 0, TextTone::Faint);
    if forecast.workloads.len() > 1 {
        page.blank();
        page.heading("each workload");
        page.table(workloads(forecast));
    }
    page.blank();
    page.heading("other page sizes, all workloads together");
    page.table(sizes(forecast));
    page
}

/// The forecast as a page, with a picture of each workload.
#[must_use]
pub fn forecast_page(forecast: &OrderForecast, run: &SavedRun) -> String {
    let mut page = ReportDocument::default();
    let title = "Pages of code, in the order of their first touches, predicted";
    for (at, name) in forecast.workloads.iter().enumerate() {
        page.heading(name);
        page.figure(picture(title, "the last", &maps(forecast, at)));
    }
    page.append(forecast_section(forecast));
    page.details("the pages as text", forecast_map(forecast));
    crate::run::page_titled("code touched at the start, predicted", run, page)
}

/// The pages of each layout as characters, for the first workload.
#[must_use]
pub fn forecast_map(forecast: &OrderForecast) -> ReportDocument {
    text_maps(maps(forecast, 0))
}

/// The layouts of a workload.
fn maps(forecast: &OrderForecast, workload: usize) -> Vec<CodeMap> {
    let map = |layout: &LayoutForecast| {
        let pages = layout.pages.get(workload)?;
        Some(CodeMap::by_rank(&layout.layout, layout.code.clone(), pages))
    };
    forecast.layouts.iter().filter_map(map).collect()
}

/// How the faults were obtained.
fn faults_from(forecast: &OrderForecast) -> &'static str {
    match forecast.layouts.iter().flat_map(|layout| &layout.touched).all(|one| one.is_counted) {
        true => {
            "Faults were counted by touching these pages in the file, the mean over all places where the program may be loaded."
        }
        false => {
            "Faults are windows of 64 KiB, the mean over all places where the program may be loaded."
        }
    }
}

/// Weighted sums for each layout.
fn layouts(forecast: &OrderForecast) -> ReportTable {
    let mut table = ReportTable::new(&[
        ("layout", ColumnAlignment::Name),
        ("pages", ColumnAlignment::Right),
        ("", ColumnAlignment::Right),
        ("faults", ColumnAlignment::Right),
        ("", ColumnAlignment::Right),
    ]);
    let sum = |layout: &LayoutForecast, of: &dyn Fn(usize) -> f64| -> f64 {
        let weights = forecast.weights.iter().enumerate().take(layout.touched.len());
        let total: f64 = forecast.weights.iter().sum();
        weights.map(|(at, weight)| weight * of(at)).sum::<f64>() / total.max(f64::MIN_POSITIVE)
    };
    let figures: Vec<[f64; 2]> = forecast
        .layouts
        .iter()
        .map(|layout| {
            let pages = sum(layout, &|at| layout.touched[at].pages as f64);
            [pages, sum(layout, &|at| layout.touched[at].faults)]
        })
        .collect();
    for (at, (layout, [pages, faults])) in forecast.layouts.iter().zip(&figures).enumerate() {
        let against = |now: f64, first: f64| match at {
            0 => String::new(),
            _ => change(now / first.max(f64::MIN_POSITIVE)),
        };
        table.row(vec![
            layout.layout.clone().into(),
            three_digits(*pages).into(),
            against(*pages, figures[0][0]).into(),
            three_digits(*faults).into(),
            against(*faults, figures[0][1]).into(),
        ]);
    }
    table
}

fn workloads(forecast: &OrderForecast) -> ReportTable {
    let columns = [
        ("workload", ColumnAlignment::Name),
        ("layout", ColumnAlignment::Name),
        ("called", ColumnAlignment::Right),
        ("pages", ColumnAlignment::Right),
        ("faults", ColumnAlignment::Right),
    ];
    let mut table = ReportTable::new(&columns);
    for (at, name) in forecast.workloads.iter().enumerate() {
        for layout in &forecast.layouts {
            let touched = layout.touched[at];
            let row: Vec<TableCell> = vec![
                name.clone().into(),
                layout.layout.clone().into(),
                touched.called_bytes.to_string().into(),
                count(touched.pages).into(),
                three_digits(touched.faults).into(),
            ];
            table.row(row);
        }
    }
    table
}

fn sizes(forecast: &OrderForecast) -> ReportTable {
    let columns = [
        ("page size", ColumnAlignment::Name),
        ("as linked", ColumnAlignment::Right),
        ("never called", ColumnAlignment::Right),
        ("ordered", ColumnAlignment::Right),
        ("never called", ColumnAlignment::Right),
    ];
    let mut table = ReportTable::new(&columns);
    for size in &forecast.sizes {
        table.row(vec![
            size.page_bytes.to_string().into(),
            count(size.today_pages).into(),
            size.today_waste_bytes.to_string().into(),
            count(size.ordered_pages).into(),
            size.ordered_waste_bytes.to_string().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::PageSize;
    use pagewise_model::pieces::TouchedCode;
    use pagewise_model::run::RunKind;

    #[test]
    fn each_layout_has_a_map_and_each_workload_a_picture() {
        let page = PageSize::BASE_4K.bytes();
        let layout = |name: &str, pages: [u64; 2]| LayoutForecast {
            layout: name.into(),
            touched: vec![TouchedCode::default(); 2],
            code: 0..40 * page,
            pages: vec![pages.map(|at| at * page).to_vec(), vec![0]],
        };
        let forecast = OrderForecast {
            workloads: vec!["version".into(), "help".into()],
            weights: vec![1.0; 2],
            layouts: vec![layout("as linked", [30, 2]), layout("ordered", [0, 1])],
            sizes: Vec::new(),
        };
        let text = forecast_map(&forecast).text(&crate::TerminalStyle::default());
        assert!(text.contains("as linked\n2 of 40 pages touched\n"), "{text}");
        assert!(text.contains("         0 19.............."), "{text}");
        let run = SavedRun::new(RunKind::Faults, String::new(), 0, Vec::new());
        let html = forecast_page(&forecast, &run);
        assert_eq!((html.matches("<svg").count(), html.matches("1. of 2").count()), (4, 4));
    }
}

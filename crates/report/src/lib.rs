//! Facts and verdicts as text for people: terminal, markdown, CSV.
//!
//! Everything here is a pure function of the saved form ([`pagewise_model`]): no clock, file, environment or
//! kernel. The reader sees the verdict first, then the reasons, what was tried, and the lines that keep the
//! gain. Missing facts are shown with their reason, never as 0. Upper bounds are marked.
//!
//! Foreign text (command lines, paths, symbols, reasons from a saved file) is escaped in one place, where
//! lines are laid out, so that no caller can forget it. No line is wider than the style allows, except the
//! lines of a receipt, which are exact so that they can be copied.
//!
//! Not seen: how a terminal renders its fonts. A coarse table counts a character as one or two cells, and
//! errs on the wide side.
#![forbid(unsafe_code)]

pub mod address;
mod applied;
pub mod bench;
mod brief;
mod cache;
mod cache_restore;
mod candidates;
mod chart;
mod check;
mod choice;
mod claims;
mod code;
mod code_tlb;
mod compare;
mod csv;
mod diagnosis;
mod doctor;
pub mod escape;
mod experiment;
pub mod faults;
mod fleet;
mod fold;
mod headline;
mod history;
mod look;
mod markdown;
mod markup;
mod memory_account;
mod metrics;
pub mod number;
pub mod order;
mod page;
mod paragraph;
mod prediction;
mod profile;
mod profile_export;
mod receipt;
mod recheck;
mod run;
mod service;
pub mod shell;
mod style;
mod symbol;
mod table;
mod text_report;
mod text_system;
mod text_trial;
mod top;
mod tradeoff;

pub use applied::{applied_list, applied_page, change_page, undone_page};
pub use bench::svg;
pub use cache::cache_section;
pub use cache_restore::cache_restore_section;
pub use candidates::{budget_line, candidates_section, fitting_line};
pub use chart::SvgPicture;
pub use check::{check_junit, check_markdown, check_page, check_summary};
pub use choice::choice_section;
pub use compare::{compare, comparison_page};
pub use diagnosis::diagnosis_section;
pub use doctor::doctor_section;
pub use experiment::{race_lines, short_arm};
pub use fleet::{FleetTask, ansible, fleet_page, kubernetes, rank_page, slurm};
pub use fold::link_script;
pub use headline::{ENDED_EARLY, headline, outcome_line};
pub use history::{RunHead, history_table, lost_gains_page, trend_table};
pub use look::{look_section, machine_line};
pub use markdown::markdown;
pub use memory_account::memory_section;
pub use metrics::{MOST_SERIES, metrics};
pub use page::ReportDocument;
pub use prediction::{offsets_page, prediction_table};
pub use profile::{graph_section, profile_section};
pub use profile_export::{ProfileForm, profile_export};
pub use receipt::{continue_section, output_section, receipt_section};
pub use recheck::recheck_page;
pub use run::{csv, html, pictures, render, render_whole};
pub use shell::{command_line, quote, quote_bytes, start_line};
pub use style::TerminalStyle;
pub use text_report::text_section;
pub use text_trial::text_trial_section;
pub use top::top_page;

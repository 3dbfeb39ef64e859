//! `pagewise page`

use crate::args::PageArgs;
use crate::failure::{CommandFailure, observing_help};
use crate::terminal;
use pagewise_judge::address::{half, take_apart, understand};
use pagewise_kernel::page_table;
use pagewise_kernel::proc::cpuinfo;
use pagewise_model::address::{
    ADDRESS_SCHEMA, AddressHalf, AddressLayout, AddressReport, AddressView, ExaminedProcess,
    VirtualAddress,
};
use pagewise_observe::address::look;
use pagewise_tracee::target::{TargetError, TargetProcess};
use std::process::ExitCode;

/// Walks addresses through the page table.
pub(super) fn run(args: &PageArgs) -> Result<ExitCode, CommandFailure> {
    let info = cpuinfo::read().map_err(|error| CommandFailure::usage(error.to_string()))?;
    let layout = page_table::layout(&info).ok_or_else(|| {
        CommandFailure::unfit("the page table layout of this processor is not known")
            .with_help("run on x86-64")
    })?;
    let (process, addresses) = match args.pid {
        Some(pid) => of_process(pid, &layout, &args.addresses)?,
        None => (None, args.explain.iter().map(|a| take_apart(&layout, *a)).collect()),
    };
    let report = AddressReport {
        schema: ADDRESS_SCHEMA,
        pagewise: env!("CARGO_PKG_VERSION").to_owned(),
        process,
        layout,
        page_sizes_bytes: page_table::page_sizes(&info),
        addresses,
    };
    let text = if args.json {
        report.to_json() + "\n"
    } else {
        pagewise_report::address::render(&report, &terminal::style())
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn of_process(
    pid: i32,
    layout: &AddressLayout,
    addresses: &[VirtualAddress],
) -> Result<(Option<ExaminedProcess>, Vec<AddressView>), CommandFailure> {
    let of_nobody =
        |address: &&VirtualAddress| half(layout, address.0) == AddressHalf::NotCanonical;
    if let Some(address) = addresses.iter().find(of_nobody) {
        let bits = layout.user_bits;
        return Err(CommandFailure::usage(format!(
            "{address} is not canonical: no process on this machine can use it"
        ))
        .with_help(format!(
            "user addresses have {bits} bits here; pagewise page --explain shows the parts"
        )));
    }
    let target = TargetProcess::find(pid).map_err(refusal)?;
    let seen = look(&target, layout, addresses).map_err(refusal)?;
    let process = ExaminedProcess { pid, command: target.command().to_vec() };
    Ok((Some(process), seen.iter().map(|seen| understand(layout, seen)).collect()))
}

fn refusal(error: TargetError) -> CommandFailure {
    let failure = CommandFailure::usage(error.to_string());
    match error {
        TargetError::Gone(_) => failure.with_help("ps shows the processes that are running"),
        TargetError::Thread { pid, .. } => {
            failure.with_help(format!("its threads share one address space: use {pid}"))
        }
        TargetError::NotAllowed(_) => failure.with_help(observing_help("CAP_SYS_PTRACE")),
        TargetError::Kernel(_) | TargetError::Sys(_) => failure,
    }
}

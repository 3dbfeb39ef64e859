//! Profiles for pprof: `perftools.profiles.Profile` of google/pprof, proto/profile.proto, compressed by gzip
//! as its documentation requires. Indices of functions, files and locations begin with 1: entry 0 of the
//! tables is not written.

use super::protobuf::ProtobufMessage;
use super::quantity;
use super::tables::ProfileTables;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// The compressed file.
pub(super) fn write(mut tables: ProfileTables) -> Vec<u8> {
    let quantities = tables.quantities.map(|one| quantity(&mut tables, one));
    let of = tables.period_of();
    let period_type = quantity(&mut tables, of);
    let process = u64::from(tables.text("process"));
    let profile = ProtobufMessage::default().messages(1, &quantities, ProtobufMessage::clone);
    let profile = profile.messages(2, &tables.samples, |sample| {
        let places = tables.stacks.all[sample.stack as usize].iter().map(|place| u64::from(*place));
        let label =
            ProtobufMessage::default().number(1, process).number(2, u64::from(sample.process));
        let message = ProtobufMessage::default().numbers(1, places);
        message.numbers(2, sample.values).message(3, &label)
    });
    let profile = files(profile, &tables);
    let profile = functions(locations(profile, &tables), &tables);
    let profile = profile.texts(6, &tables.texts.all).number(9, tables.start_unix_ns);
    let profile = profile.number(10, tables.duration_ns).message(11, &period_type);
    compressed(&profile.number(12, tables.period).into_bytes())
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}

/// The indices of the entries that are written.
fn numbers<T>(all: &[T]) -> Vec<usize> {
    (1..all.len()).collect()
}

fn files(profile: ProtobufMessage, tables: &ProfileTables) -> ProtobufMessage {
    let all = &tables.files.all;
    profile.messages(3, &numbers(all), |number| {
        let message = ProtobufMessage::default().number(1, *number as u64);
        // Names are known: the viewer need not look for the file.
        message.number(5, u64::from(all[*number])).number(7, 1)
    })
}

fn locations(profile: ProtobufMessage, tables: &ProfileTables) -> ProtobufMessage {
    let all = &tables.locations.all;
    profile.messages(4, &numbers(all), |number| {
        let location = all[*number];
        let line = ProtobufMessage::default().number(1, u64::from(location.function));
        let message = ProtobufMessage::default().number(1, *number as u64);
        message.number(2, u64::from(location.file)).number(3, location.offset).message(4, &line)
    })
}

fn functions(profile: ProtobufMessage, tables: &ProfileTables) -> ProtobufMessage {
    let all = &tables.functions.all;
    profile.messages(5, &numbers(all), |number| {
        let name = u64::from(all[*number]);
        ProtobufMessage::default().number(1, *number as u64).number(2, name).number(3, name)
    })
}

//! Profiles for OpenTelemetry: `ProfilesData` of opentelemetry-proto 1.10.0, profiles/v1development. A
//! receiver accepts the same bytes as `ExportProfilesServiceRequest`, whose fields have the same numbers.
//! Each quantity has its own profile; entry 0 of every table is empty.

use super::protobuf::ProtobufMessage;
use super::quantity;
use super::tables::{NumberedValues, ProfileSample, ProfileTables};

/// Names of attributes (OpenTelemetry semantic conventions).
const EXECUTABLE: &str = "process.executable.name";
const FRAME_TYPE: &str = "profile.frame.type";
const SERVICE: &str = "service.name";

/// Text indices of the name and value of each attribute.
type Attributes = NumberedValues<(u32, u32)>;

/// The bytes of the profiles of `program`.
pub(super) fn write(mut tables: ProfileTables, program: &str) -> Vec<u8> {
    let mut attributes = Attributes::beginning_with((0, 0));
    let key = tables.text(FRAME_TYPE);
    let types = ["native", "kernel"].map(|name| attributes.number((key, tables.text(name))));
    let key = tables.text(EXECUTABLE);
    let of_process: Vec<u32> =
        tables.samples.iter().map(|sample| attributes.number((key, sample.process))).collect();
    let of = tables.period_of();
    let period_type = quantity(&mut tables, of);
    let mut scope =
        ProtobufMessage::default().message(1, &ProtobufMessage::default().text(1, "pagewise"));
    for (at, kind) in tables.quantities.into_iter().enumerate() {
        let kind = quantity(&mut tables, kind);
        let profile = ProtobufMessage::default().message(1, &kind);
        let profile = samples(profile, &tables.samples, &of_process, at);
        let profile = profile.fixed(3, tables.start_unix_ns).number(4, tables.duration_ns);
        let profile = profile.message(5, &period_type).number(6, tables.period);
        scope = scope.message(2, &profile);
    }
    let value = ProtobufMessage::default().text(1, program);
    let service = ProtobufMessage::default().text(1, SERVICE).message(2, &value);
    let resource = ProtobufMessage::default().message(1, &service);
    let of_resource = ProtobufMessage::default().message(1, &resource).message(2, &scope);
    let dictionary = dictionary(&tables, &attributes, types);
    ProtobufMessage::default().message(1, &of_resource).message(2, &dictionary).into_bytes()
}

/// Adds the samples, weighted by one of their quantities.
fn samples(
    profile: ProtobufMessage,
    all: &[ProfileSample],
    of_process: &[u32],
    quantity: usize,
) -> ProtobufMessage {
    all.iter().zip(of_process).fold(profile, |profile, (sample, process)| {
        let message = ProtobufMessage::default().number(1, u64::from(sample.stack));
        let message = message.numbers(2, [u64::from(*process)]);
        profile.message(2, &message.numbers(4, [sample.values[quantity]]))
    })
}

fn dictionary(
    tables: &ProfileTables,
    attributes: &Attributes,
    [native, kernel]: [u32; 2],
) -> ProtobufMessage {
    let number = |number: &u32| u64::from(*number);
    let message = ProtobufMessage::default()
        .messages(1, &tables.files.all, |name| ProtobufMessage::default().number(4, number(name)));
    let nowhere = tables.locations.all.first();
    let message = message.messages(2, &tables.locations.all, |location| {
        if Some(location) == nowhere {
            return ProtobufMessage::default();
        }
        let line = ProtobufMessage::default().number(1, number(&location.function));
        let of = if location.is_kernel { kernel } else { native };
        let place =
            ProtobufMessage::default().number(1, number(&location.file)).number(2, location.offset);
        place.message(3, &line).numbers(4, [u64::from(of)])
    });
    let message = message.messages(3, &tables.functions.all, |name| {
        ProtobufMessage::default().number(1, number(name))
    });
    // There are no links except the empty one.
    let message = message.message(4, &ProtobufMessage::default()).texts(5, &tables.texts.all);
    let message = message.messages(6, &attributes.all, |(key, value)| {
        let text = &tables.texts.all[*value as usize];
        let value = ProtobufMessage::default().text(1, text);
        let named = ProtobufMessage::default().number(1, number(key));
        if *key == 0 { named } else { named.message(2, &value) }
    });
    message.messages(7, &tables.stacks.all, |places| {
        ProtobufMessage::default().numbers(1, places.iter().map(number))
    })
}

use super::firefox::{MOST_PROCESSES, OTHERS};
use super::*;
use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::profiles::v1development::{ProfilesData, ProfilesDictionary};
use pagewise_model::run::RunKind;
use pagewise_model::{Bytes, Nanos};
use prost::Message;
use std::collections::BTreeSet;
use std::io::Read;

fn samples() -> StackSamples {
    let frame = |function: Option<&str>| UserFrame {
        path: "/usr/bin/my;app".into(),
        offset_bytes: Bytes(16),
        function: function.map(Into::into),
        maker: None,
    };
    let stack = |kernel: &[&str], count| ProfiledStack {
        process: "app".into(),
        kernel: kernel.iter().map(|name| (*name).into()).collect(),
        user: vec![frame(None).into(), frame(Some("main")).into()],
        count,
    };
    let stacks = vec![stack(&["clear_page_erms", "asm_exc_page_fault"], 7), stack(&[], 3)];
    StackSamples { stacks, period_ns: Nanos(250_000), ..StackSamples::default() }
}

fn exported(form: ProfileForm) -> Vec<u8> {
    let mut run = SavedRun::new(RunKind::Profile, "r".into(), 99, vec!["/usr/bin/app".into()]);
    run.took_ns = Nanos(5);
    profile_export(&samples(), &run, form)
}

#[test]
fn folded_stacks_begin_with_the_process() {
    let text = String::from_utf8(exported(ProfileForm::Folded)).unwrap();
    let want = "app;main;my:app+0x10;asm_exc_page_fault_[k];clear_page_erms_[k] 7\n\
                app;main;my:app+0x10 3\n";
    assert_eq!(text, want);
}

#[test]
fn folded_stacks_make_a_flame_graph() {
    let text = String::from_utf8(exported(ProfileForm::Folded)).unwrap();
    let mut picture = Vec::new();
    let mut options = inferno::flamegraph::Options::default();
    inferno::flamegraph::from_lines(&mut options, text.lines(), &mut picture).unwrap();
    let picture = String::from_utf8(picture).unwrap();
    assert!(picture.contains("clear_page_erms (7 samples, 70.00%)"), "{picture}");
    assert!(picture.contains("main (10 samples, 100.00%)"), "{picture}");
}

#[test]
fn a_profile_holds_every_sample() {
    let json: serde_json::Value = serde_json::from_slice(&exported(ProfileForm::Firefox)).unwrap();
    let thread = &json["threads"][0];
    let weights = thread["samples"]["weight"].as_array().unwrap();
    let weights: Vec<i64> = weights.iter().map(|weight| weight.as_i64().unwrap()).collect();
    assert_eq!(weights, [7, 3]);
    assert!(json.to_string().contains("clear_page_erms"));
}

/// The paths of everything in `json`, each with its type: text, number or list.
fn shape(json: &serde_json::Value, path: &str, into: &mut BTreeSet<String>) {
    match json {
        serde_json::Value::Object(all) => {
            all.iter().for_each(|(name, value)| shape(value, &format!("{path}.{name}"), into));
        }
        serde_json::Value::Array(all) => {
            into.insert(format!("{path}[]"));
            all.iter().for_each(|value| shape(value, &format!("{path}[]"), into));
        }
        other => drop(into.insert(format!("{path}: {:?}", std::mem::discriminant(other)))),
    }
}

/// The profile as made by the library that follows the viewer's format.
fn by_library() -> serde_json::Value {
    use fxprof_processed_profile as fx;
    let period = fx::SamplingInterval::from_nanos(250_000);
    let start = fx::ReferenceTimestamp::from_millis_since_unix_epoch(99e-6);
    let mut profile = fx::Profile::new("pagewise", start, period);
    profile.set_symbolicated(true);
    profile.set_product("/usr/bin/app");
    let user = profile.add_category("Program", fx::CategoryColor::Blue);
    let kernel = profile.add_category("Kernel", fx::CategoryColor::Orange);
    let begin = fx::Timestamp::from_nanos_since_reference(0);
    let process = profile.add_process("app", 1, begin);
    let thread = profile.add_thread(process, 1, begin, true);
    let mut at = 0;
    for stack in &samples().stacks {
        let infos = super::frames(stack).map(|(name, is_kernel)| fx::FrameInfo {
            frame: fx::Frame::Label(profile.intern_string(&name)),
            category_pair: if is_kernel { kernel } else { user }.into(),
            flags: fx::FrameFlags::empty(),
        });
        let infos: Vec<_> = infos.collect();
        let handle = profile.intern_stack_frames(thread, infos.into_iter());
        let took = 250_000 * stack.count;
        at += took;
        let moment = fx::Timestamp::from_nanos_since_reference(at);
        let weight = i32::try_from(stack.count).unwrap();
        profile.add_sample(thread, moment, handle, fx::CpuDelta::from_nanos(took), weight);
    }
    serde_json::to_value(&profile).unwrap()
}

/// The functions of each sample with their categories, leaf first.
fn stacks_of(thread: &serde_json::Value) -> Vec<Vec<(String, u64)>> {
    let at = |table: &str, column: &str, row: u64| {
        thread[table][column][usize::try_from(row).unwrap()].as_u64()
    };
    let stack = |mut node: Option<u64>| {
        let mut names = Vec::new();
        while let Some(number) = node {
            let frame = at("stackTable", "frame", number).unwrap();
            let function = at("frameTable", "func", frame).unwrap();
            let name = at("funcTable", "name", function).unwrap();
            let name = thread["stringArray"][usize::try_from(name).unwrap()].as_str().unwrap();
            names.push((name.to_owned(), at("frameTable", "category", frame).unwrap()));
            node = at("stackTable", "prefix", number);
        }
        names
    };
    thread["samples"]["stack"].as_array().unwrap().iter().map(|leaf| stack(leaf.as_u64())).collect()
}

#[test]
fn a_profile_is_that_of_the_library() {
    let ours: serde_json::Value = serde_json::from_slice(&exported(ProfileForm::Firefox)).unwrap();
    let theirs = by_library();
    let [mut own, mut wanted] = [BTreeSet::new(), BTreeSet::new()];
    shape(&ours, "", &mut own);
    shape(&theirs, "", &mut wanted);
    assert_eq!(own, wanted);
    assert_eq!(ours["meta"], theirs["meta"]);
    let [own, wanted] = [&ours["threads"][0], &theirs["threads"][0]];
    assert_eq!(stacks_of(own), stacks_of(wanted));
    assert_eq!(own["stackTable"]["length"], wanted["stackTable"]["length"]);
    for column in ["weight", "threadCPUDelta", "timeDeltas", "length", "weightType"] {
        assert_eq!(own["samples"][column], wanted["samples"][column], "{column}");
    }
}

/// `message Profile` of google/pprof, with the fields that are checked.
#[derive(Clone, PartialEq, Message)]
struct Pprof {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<PprofType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<PprofSample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<PprofLocation>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<PprofFunction>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, PartialEq, Message)]
struct PprofType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct PprofSample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct PprofLocation {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<PprofLine>,
}

#[derive(Clone, PartialEq, Message)]
struct PprofLine {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct PprofFunction {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
}

#[test]
fn pprof_finds_its_stacks() {
    let bytes = exported(ProfileForm::Pprof);
    let mut whole = Vec::new();
    GzDecoder::new(&bytes[..]).read_to_end(&mut whole).unwrap();
    let profile = Pprof::decode(&whole[..]).unwrap();
    let text = |at: i64| profile.string_table[usize::try_from(at).unwrap()].as_str();
    let types: Vec<_> =
        profile.sample_type.iter().map(|t| (text(t.r#type), text(t.unit))).collect();
    assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
    assert_eq!((profile.time_nanos, profile.period), (99, 250_000));
    let name = |id: &u64| {
        let location = profile.location.iter().find(|location| location.id == *id).unwrap();
        let of = location.line[0].function_id;
        text(profile.function.iter().find(|function| function.id == of).unwrap().name)
    };
    let stacks: Vec<(Vec<&str>, &[i64])> = profile
        .sample
        .iter()
        .map(|sample| (sample.location_id.iter().map(name).collect(), &sample.value[..]))
        .collect();
    let user = ["my;app+0x10", "main"];
    let first = [&["clear_page_erms", "asm_exc_page_fault"][..], &user].concat();
    assert_eq!(stacks, [(first, &[7, 1_750_000][..]), (user.to_vec(), &[3, 750_000][..])]);
}

/// The functions of a stack, each with the type of its frame.
fn frames(dictionary: &ProfilesDictionary, stack: i32) -> Vec<(String, String)> {
    let at = |number: i32| usize::try_from(number).unwrap();
    let text = |number: i32| dictionary.string_table[at(number)].clone();
    let frame = |number: &i32| {
        let location = &dictionary.location_table[at(*number)];
        let function = &dictionary.function_table[at(location.lines[0].function_index)];
        let attribute = &dictionary.attribute_table[at(location.attribute_indices[0])];
        assert_eq!(text(attribute.key_strindex), "profile.frame.type");
        let value = attribute.value.as_ref().and_then(|value| value.value.clone());
        let Some(Value::StringValue(kind)) = value else { panic!("{attribute:?}") };
        (text(function.name_strindex), kind)
    };
    dictionary.stack_table[at(stack)].location_indices.iter().map(frame).collect()
}

#[test]
fn opentelemetry_finds_its_stacks() {
    let bytes = exported(ProfileForm::Otlp);
    let data = ProfilesData::decode(&bytes[..]).unwrap();
    let request = ExportProfilesServiceRequest::decode(&bytes[..]).unwrap();
    assert_eq!(
        (&request.dictionary, &request.resource_profiles),
        (&data.dictionary, &data.resource_profiles)
    );
    let dictionary = data.dictionary.as_ref().unwrap();
    // The specification requires an empty first entry in each table.
    assert_eq!(dictionary.mapping_table[0], Default::default());
    assert_eq!(dictionary.location_table[0], Default::default());
    assert_eq!(dictionary.function_table[0], Default::default());
    assert_eq!(dictionary.link_table[0], Default::default());
    assert_eq!(dictionary.stack_table[0], Default::default());
    assert_eq!(dictionary.attribute_table[0], Default::default());
    assert_eq!(dictionary.string_table[0], "");
    let [times, nanos] = &data.resource_profiles[0].scope_profiles[0].profiles[..] else {
        panic!("{data:?}")
    };
    let values = |profile: &opentelemetry_proto::tonic::profiles::v1development::Profile| {
        profile.samples.iter().map(|sample| sample.values[0]).collect::<Vec<i64>>()
    };
    assert_eq!((values(times), values(nanos)), (vec![7, 3], vec![1_750_000, 750_000]));
    assert_eq!((times.time_unix_nano, times.duration_nano, times.period), (99, 5, 250_000));
    let pair = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
    let user = [pair("my;app+0x10", "native"), pair("main", "native")];
    let kernel = ["clear_page_erms", "asm_exc_page_fault"].map(|name| pair(name, "kernel"));
    assert_eq!(frames(dictionary, times.samples[0].stack_index), [&kernel[..], &user].concat());
    assert_eq!(frames(dictionary, times.samples[1].stack_index), user);
}

#[test]
fn processes_beyond_the_most_share_one_and_keep_their_names() {
    let all = samples();
    let stack = |number: usize| {
        let process = format!("app {number}").into();
        ProfiledStack { process, ..all.stacks[number % 2].clone() }
    };
    let stacks: Vec<ProfiledStack> = (0..MOST_PROCESSES + 5).map(stack).collect();
    let run = SavedRun::new(RunKind::Profile, "r".into(), 99, vec!["app".into()]);
    let text = profile_export(&StackSamples { stacks, ..all }, &run, ProfileForm::Firefox);
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let threads = json["threads"].as_array().unwrap();
    let weights: Vec<usize> =
        threads.iter().map(|one| one["samples"]["weight"].as_array().unwrap().len()).collect();
    assert_eq!((weights.len(), weights.iter().sum()), (MOST_PROCESSES + 1, MOST_PROCESSES + 5));
    let others = threads.iter().position(|one| one["processName"] == OTHERS).unwrap();
    assert_eq!(weights[others], 5);
    for number in [0, MOST_PROCESSES, MOST_PROCESSES + 4] {
        assert!(json.to_string().contains(&format!("app {number}\"")), "{number}");
    }
}

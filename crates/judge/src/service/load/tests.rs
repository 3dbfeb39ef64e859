use super::*;
use proptest::prelude::*;

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../../fixtures/loads/", $name, ".txt"))
    };
}

/// Every output with a whole summary: metric, command, text.
const WHOLE: [(&str, &str, &str); 29] = [
    ("pgbench", "pgbench -S -T 2 -c 4", recorded!("pgbench")),
    ("pgbench", "pgbench -S -t 500 -c 4", recorded!("pgbench-count")),
    ("pgbench", "pgbench -S -T 3 -P 1", recorded!("pgbench-progress")),
    ("pgbench", "pgbench -N -T 2 -R 500 -L 20", recorded!("pgbench-rate")),
    ("sysbench", "sysbench cpu run", recorded!("sysbench-cpu")),
    ("sysbench", "sysbench memory run", recorded!("sysbench-memory")),
    ("sysbench", "sysbench cpu --percentile=99 run", recorded!("sysbench-p99")),
    ("sysbench", "sysbench threads --rate=200 run", recorded!("sysbench-rate")),
    ("redis-benchmark", REDIS_CSV, recorded!("redis-csv")),
    ("redis-benchmark", "redis-benchmark -t set,get -n 20000", recorded!("redis-full")),
    ("redis-benchmark", "redis-benchmark -t set,get -n 20000 -q", recorded!("redis-quiet")),
    ("memtier", "memtier_benchmark -t 1 -c 4 -n 2000", recorded!("memtier")),
    ("memtier", "memtier_benchmark -t 1 -c 4 -n 2000 -x 2", recorded!("memtier-runs")),
    ("memtier", "memtier_benchmark --test-time 2", recorded!("memtier-seconds")),
    ("wrk", "wrk -t1 -c8 -d2s", recorded!("wrk")),
    ("wrk", "wrk -t1 -c8 -d2s --latency", recorded!("wrk-latency")),
    ("wrk2", "wrk -t1 -c8 -d12s -R500 --latency", recorded!("wrk2")),
    ("ab", "ab -n 5000 -c 8", recorded!("ab")),
    ("hey", "hey -n 5000", recorded!("hey")),
    ("hey", "hey -n 2000", recorded!("hey-errors")),
    ("k6", "k6 run script.js", recorded!("k6")),
    ("k6", "k6 run --summary-mode legacy script.js", recorded!("k6-legacy")),
    ("k6", "k6 run --summary-mode legacy script.js", recorded!("k6-threshold")),
    ("k6", "k6 run script.js", recorded!("k6-rate")),
    ("oha", "oha --no-tui", recorded!("oha")),
    ("oha", "oha --no-tui", recorded!("oha-errors")),
    ("oha", "oha --no-tui -z 1s", recorded!("oha-time")),
    ("oha", "oha --no-tui --output-format json", recorded!("oha-json")),
    ("fio", "fio --output-format=json", recorded!("fio-rate")),
];
const REDIS_CSV: &str = "redis-benchmark -p 7711 -t set,get -n 20000 -d 256 --csv";

fn metric(name: &str) -> LoadMetric {
    name.parse().expect("the metric is known")
}

fn read(name: &str, command: &str, text: &str) -> Result<LoadReport, String> {
    metric(name).read(command, text)
}

fn load(name: &str, text: &str) -> LoadReport {
    read(name, name, text).expect("the output is whole")
}

fn fault(name: &str, text: &str) -> String {
    read(name, name, text).expect_err("the output is not whole")
}

/// Equal to four digits.
#[track_caller]
fn near(found: Option<f64>, wanted: f64) {
    assert!(
        found.is_some_and(|found| (found / wanted - 1.0).abs() < 1e-4),
        "{found:?} and not {wanted}"
    );
}

/// Mean, p50, p95, p99 and maximum, in milliseconds. 0 for an unknown value.
#[track_caller]
fn takes(latency: RequestLatency, milliseconds: [f64; 5]) {
    let RequestLatency { mean, p50, p95, p99, max } = latency;
    for (found, wanted) in [mean, p50, p95, p99, max].into_iter().zip(milliseconds) {
        if wanted > 0.0 { near(found, wanted / 1e3) } else { assert_eq!(found, None) }
    }
}

#[test]
fn pgbench_counts_transactions() {
    let plain = load("pgbench", recorded!("pgbench"));
    assert_eq!((plain.requests, plain.errors, plain.open_loop), (52834.0, Some(0.0), Some(false)));
    near(plain.rate, 27020.668761);
    near(plain.seconds, 1.95532);
    near(plain.latency.mean, 0.000_148);
    assert_eq!(load("pgbench", recorded!("pgbench-count")).requests, 2000.0);
    assert_eq!(load("pgbench", recorded!("pgbench-progress")).requests, 76705.0);
    let fixed = load("pgbench", recorded!("pgbench-rate"));
    assert_eq!((fixed.requests, fixed.errors, fixed.open_loop), (980.0, Some(0.0), Some(true)));
}

#[test]
fn pgbench_counts_what_a_client_missed_or_skipped() {
    let missed = recorded!("pgbench-count").replace("2000/2000", "1500/2000");
    let missed = missed.replace("number of failed transactions: 0 (0.000%)\n", "");
    assert_eq!(load("pgbench", &missed).errors, Some(500.0));
    let skipped = recorded!("pgbench-rate").replace("skipped: 0", "skipped: 7");
    assert_eq!(load("pgbench", &skipped).errors, Some(7.0));
}

#[test]
fn sysbench_knows_its_percentile_and_its_rate() {
    let plain = load("sysbench", recorded!("sysbench-cpu"));
    assert_eq!((plain.requests, plain.seconds, plain.errors), (5201.0, Some(2.0001), None));
    takes(plain.latency, [0.38, 0.0, 0.26, 0.0, 8.21]);
    takes(load("sysbench", recorded!("sysbench-p99")).latency, [0.39, 0.0, 0.0, 4.25, 16.63]);
    let fixed = load("sysbench", recorded!("sysbench-rate"));
    assert_eq!((fixed.requests, fixed.open_loop), (350.0, Some(true)));
    // Rounded to 0.00 ms: not known.
    assert_eq!(load("sysbench", recorded!("sysbench-memory")).latency.mean, None);
}

#[test]
fn redis_adds_up_its_tests() {
    let csv = read("redis-benchmark", REDIS_CSV, recorded!("redis-csv")).expect("whole");
    assert_eq!((csv.requests, csv.errors, csv.open_loop), (40000.0, None, Some(false)));
    near(csv.seconds, 20000.0 / 13623.98 + 20000.0 / 14306.15);
    near(csv.rate, 40000.0 / (20000.0 / 13623.98 + 20000.0 / 14306.15));
    takes(csv.latency, [(3.341 + 3.072) / 2.0, 0.519, 19.439, 27.919, 38.591]);
    let table = load("redis-benchmark", recorded!("redis-full"));
    assert_eq!(table.requests, 40000.0);
    near(table.latency.p99, 0.006_927);
    let quiet = "redis-benchmark -n 20000 -q";
    let quiet = read("redis-benchmark", quiet, recorded!("redis-quiet")).expect("whole");
    assert_eq!(quiet.requests, 40000.0);
    near(quiet.latency.p50, 0.000_511);
}

#[test]
fn redis_takes_its_count_from_the_command() {
    let count = |command: &str| {
        read("redis-benchmark", command, recorded!("redis-csv")).map(|load| load.requests)
    };
    assert_eq!(count("redis-benchmark --csv"), Ok(200_000.0));
    assert_eq!(count("nice -n 5 /usr/bin/redis-benchmark -n 100 --csv"), Ok(200.0));
    assert_eq!(count("sh -c 'sleep 1; redis-benchmark -n100 --csv | head -n 3'"), Ok(200.0));
    assert!(count("redis-benchmark -n $COUNT --csv").is_err_and(|error| error.contains("$COUNT")));
    assert!(count("./load.sh").is_err_and(|error| error.contains("leave out --csv")));
    let two = "sh -c 'redis-benchmark -n 5 --csv; redis-benchmark -n 7 --csv'";
    assert!(count(two).is_err_and(|error| error.contains("leave out --csv")));
    for quoted in [
        "redis-benchmark -a 'p&w' -n 100 --csv",
        r#"redis-benchmark -a "p;w|" -n 100 --csv"#,
        r"redis-benchmark -a p\&w -n 100 --csv",
        "redis-benchmark -p $(cat port | head -n 1) -n 100 --csv",
        "redis-benchmark --csv 2>&1 -n '100'",
        r#"taskset -c 1 sh -c "redis-benchmark -a 'p&w' -n 100 --csv""#,
        "(cd x && redis-benchmark -n 100 --csv)",
    ] {
        assert_eq!(count(quoted), Ok(200.0), "{quoted}");
    }
    let three = count("redis-benchmark -t set,get,incr -n 5 --csv");
    assert!(three.is_err_and(|error| error.contains("3 tests; its output has 2")));
}

#[test]
fn redis_of_old_prints_two_columns() {
    let old = read(
        "redis-benchmark",
        "redis-benchmark -n 10 --csv",
        "\"SET\",\"100.00\"\n\"GET\",\"50.00\"\n",
    );
    let old = old.expect("whole");
    assert_eq!((old.requests, old.latency), (20.0, RequestLatency::default()));
    near(old.seconds, 0.3);
}

#[test]
fn memtier_multiplies_what_it_was_to_do() {
    let plain = load("memtier", recorded!("memtier"));
    assert_eq!((plain.requests, plain.rate), (8000.0, Some(57674.70)));
    takes(plain.latency, [0.070_04, 0.055, 0.0, 0.239, 0.0]);
    let runs = load("memtier", recorded!("memtier-runs"));
    assert_eq!((runs.requests, runs.rate), (16000.0, Some(54089.09)));
    let timed = load("memtier", recorded!("memtier-seconds"));
    near(Some(timed.requests), 63947.35 * 2.0);
    near(timed.latency.p95, 0.000_095);
}

#[test]
fn wrk_and_wrk2() {
    let plain = load("wrk", recorded!("wrk"));
    assert_eq!((plain.requests, plain.seconds, plain.rate), (85719.0, Some(2.0), Some(42769.11)));
    assert_eq!((plain.errors, plain.open_loop), (Some(0.0), Some(false)));
    near(plain.latency.mean, 0.000_494_32);
    near(plain.latency.max, 0.030_52);
    let known = load("wrk", recorded!("wrk-latency")).latency;
    near(known.p50, 0.000_156);
    near(known.p99, 0.006_81);
    assert_eq!(load("wrk", recorded!("wrk-errors")).errors, Some(5541.0));
    let socket = recorded!("wrk").replace(
        "Requests/sec",
        "  Socket errors: connect 1, read 2, write 0, timeout 4\nRequests/sec",
    );
    assert_eq!(load("wrk", &socket).errors, Some(7.0));
    let fixed = load("wrk2", recorded!("wrk2"));
    assert_eq!((fixed.requests, fixed.errors, fixed.open_loop), (5995.0, Some(1847.0), Some(true)));
    near(fixed.latency.p95, 0.001_527);
    near(fixed.latency.p99, 0.002_21);
    assert_eq!(load("wrk", recorded!("wrk2")), fixed);
    assert_eq!(load("wrk2", recorded!("wrk2-short")).open_loop, Some(true));
}

#[test]
fn ab_counts_refusals() {
    let plain = load("ab", recorded!("ab"));
    assert_eq!((plain.requests, plain.seconds, plain.rate), (5000.0, Some(0.79), Some(6327.56)));
    assert_eq!((plain.errors, plain.open_loop), (Some(0.0), Some(false)));
    // Its median is less than a millisecond: not known.
    takes(plain.latency, [1.264, 0.0, 5.0, 13.0, 18.0]);
    assert_eq!(load("ab", recorded!("ab-errors")).errors, Some(615.0));
}

#[test]
fn hey_counts_statuses() {
    let plain = load("hey", recorded!("hey"));
    assert_eq!((plain.requests, plain.seconds, plain.errors), (5000.0, Some(0.3082), Some(0.0)));
    takes(plain.latency, [0.5, 0.2, 2.7, 4.8, 17.1]);
    let refused = load("hey", recorded!("hey-errors"));
    assert_eq!((refused.requests, refused.errors), (2000.0, Some(648.0)));
    // -q is a limit, no schedule.
    assert_eq!(load("hey", recorded!("hey-rate")).open_loop, Some(false));
    let cut = recorded!("hey-errors").replace("  [500]\t648 responses\n", "");
    assert!(fault("hey", &cut).contains("its output is cut"));
    let many = recorded!("hey").replace("[200]\t5000 responses", "[200]\t1000000 responses");
    let rate = many.lines().find(|line| line.contains("Requests/sec:")).expect("its rate");
    let many = many.replace(rate, "  Requests/sec:\t9999999.0");
    let why = fault("hey", &many);
    assert!(
        why.starts_with("hey reports at most 1M answers") && why.ends_with("use a shorter load")
    );
}

#[test]
fn k6_in_all_its_modes() {
    let plain = load("k6", recorded!("k6"));
    assert_eq!((plain.requests, plain.errors, plain.open_loop), (34580.0, Some(0.0), Some(false)));
    near(plain.rate, 17287.618864);
    takes(plain.latency, [0.214_08, 0.146_63, 0.473_88, 0.0, 20.81]);
    let legacy = load("k6", recorded!("k6-legacy"));
    assert_eq!((legacy.requests, legacy.errors), (34561.0, Some(0.0)));
    assert_eq!(load("k6", recorded!("k6-threshold")), legacy, "marks change nothing");
    let fixed = load("k6", recorded!("k6-rate"));
    assert_eq!((fixed.requests, fixed.errors, fixed.open_loop), (399.0, Some(140.0), Some(true)));
    near(fixed.latency.p99, 0.004_66);
    let refused = load("k6", recorded!("k6-refused"));
    assert_eq!((refused.requests, refused.errors, refused.latency.mean), (50.0, Some(50.0), None));
    let old = recorded!("k6-rate").replace("138 out of 399", "\u{2713} 138 \u{2717} 261");
    assert_eq!(load("k6", &old), fixed);
    let without_http: String = recorded!("k6-rate")
        .lines()
        .filter(|line| !line.contains("http_"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(load("k6", &without_http).errors, None);
    assert_eq!(load("k6", &without_http).requests, 399.0);
}

#[test]
fn k6_is_an_open_loop_where_iterations_arrive_at_a_rate() {
    const STEADY: &str = "200.00 iterations/s for 2s";
    for (executor, is_open) in [
        ("Up to 50.00 iterations/s for 10s over 2 stages", true),
        ("Up to 20 looping VUs for 10s over 2 stages", false),
        ("100 iterations shared among 4 VUs", false),
    ] {
        let text = recorded!("k6-rate").replace(STEADY, executor);
        assert_eq!(load("k6", &text).open_loop, Some(is_open), "{executor}");
    }
}

#[test]
fn fio_adds_up_its_jobs() {
    let plain = load("fio", recorded!("fio-json"));
    assert_eq!((plain.requests, plain.seconds, plain.errors), (29627.0, Some(2.004), Some(0.0)));
    takes(plain.latency, [0.066_712, 0.052_992, 0.074_24, 0.107_008, 13.081_29]);
    let mixed = load("fio", recorded!("fio-rate"));
    assert_eq!(mixed.requests, 1959.0);
    assert!(fault("fio", recorded!("fio-normal")).contains("--output-format=json"));
    let twice = format!("{0}{0}", recorded!("fio-json"));
    assert!(fault("fio", &twice).contains("leave out --status-interval"));
    let broken = recorded!("fio-json").replace("\"error\" : 0", "\"error\" : 5");
    assert!(fault("fio", &broken).contains("\"a\" ended by error 5"));
}

#[test]
fn other_loads_by_an_expression() {
    let text =
        "warm\nrequests 1,000 errors 2 p50 120 p99 3400\nrequests 500 errors 1 p50 100 p99 5000\n";
    assert_eq!(load(r"regex:^requests ([\d,]+)", text).requests, 1500.0);
    let named = r"regex:requests (?P<requests>\S+) errors (?<errors>\d+) p50 (?P<p50_us>\d+) p99 (?P<p99_us>\d+)$";
    let all = load(named, text);
    assert_eq!((all.requests, all.errors), (1500.0, Some(3.0)));
    takes(all.latency, [0.0, 0.12, 0.0, 5.0, 0.0]);
    let timed = load(
        r"regex:(?P<rate>\d+)/s in (?P<seconds>\d+) s, (?P<p99>\S+) p99",
        "50/s in 4 s, 1.5ms p99",
    );
    assert_eq!((timed.requests, timed.rate, timed.latency.p99), (200.0, Some(50.0), Some(0.0015)));
    assert!(
        fault(r"regex:done (\d+)", text)
            .contains("matches nothing of the load; its output begins with \"warm\"")
    );
    assert!(
        fault(r"regex:requests (?P<requests>\d),(?P<p50>\d+)", text)
            .contains("p50 has no unit in \"000\"")
    );
}

#[test]
fn other_loads_by_paths() {
    let text = r#"starting
{"total": {"done": 40, "bad": [1, 2]}, "p99": "2.5ms", "p50_in_ms": 1.25}"#;
    assert_eq!(load("json:total.done", text).requests, 40.0);
    let all = load("json:requests=total.done,errors=total.bad.1,p99=p99,p50_ms=p50_in_ms", text);
    assert_eq!((all.requests, all.errors), (40.0, Some(2.0)));
    takes(all.latency, [0.0, 1.25, 0.0, 2.5, 0.0]);
    assert!(fault("json:total.none", text).contains("without a number at \"total.none\""));
    assert!(fault("json:total", text).contains("without a number"));
    assert!(fault("json:total.done", "{\"total\": {\"done\": 4").contains("JSON with no end"));
}

#[test]
fn names_are_read_and_written() {
    for name in ["pgbench", "wrk2", "memtier", r"regex:(\d+) done", "json:requests=a.b,p99_us=c"] {
        assert_eq!(metric(name).to_string(), name);
    }
    assert_eq!(metric("memtier_benchmark").to_string(), "memtier");
    let fault = |name: &str| name.parse::<LoadMetric>().expect_err("refused");
    let unknown = fault("wrk3");
    assert!(
        unknown.contains(
            "pgbench, sysbench, redis-benchmark, memtier, wrk, wrk2, ab, hey, k6, oha, fio"
        )
    );
    assert!(unknown.contains("regex:PATTERN or json:PATH"));
    for bad in [
        "regex:(",
        "regex:none",
        "regex:(a)(b)",
        "regex:(?P<speed>a)",
        "regex:(?P<errors>a)",
        "json:",
        "json:a..b",
    ] {
        assert_eq!(fault(bad).lines().count(), 1, "{bad}");
    }
    assert!(fault("json:errors=a").contains("no number of requests"));
    assert!(fault("json:p42_ms=a").contains("unknown figure \"p42_ms\""));
    for unread in ["msec", "sec", "secs", "m", "min", "h", "\u{b5}s"] {
        let why = fault(&format!("json:requests=a,p99_{unread}=b"));
        assert!(why.contains("unknown figure"), "{why}");
    }
    for unit in ["ns", "us", "ms", "s"] {
        let name = format!("json:requests=a,p99_{unit}=b");
        let read = load(&name, r#"{"a": 1, "b": 2}"#);
        assert!(read.latency.p99.is_some(), "{name}");
    }
}

#[test]
fn a_command_tells_its_generator() {
    let guess = |command: &str| LoadMetric::guess(command).map(|metric| metric.to_string());
    assert_eq!(guess("redis-benchmark -t set").as_deref(), Some("redis-benchmark"));
    assert_eq!(guess("taskset -c 1 /usr/bin/pgbench -S").as_deref(), Some("pgbench"));
    assert_eq!(guess("sh -c 'sleep 1; memtier_benchmark -n 5'").as_deref(), Some("memtier"));
    assert_eq!(guess("wrk -t1 -d1s http://localhost/").as_deref(), Some("wrk"));
    assert_eq!(guess("./wrk -R100 -d1s http://localhost/").as_deref(), Some("wrk2"));
    assert_eq!(guess("wrk --rate 100 http://localhost/").as_deref(), Some("wrk2"));
    assert_eq!(guess("./memload.py --port 1"), None);
}

#[test]
fn oha_as_text_and_as_json() {
    let text = load("oha", recorded!("oha"));
    assert_eq!((text.requests, text.errors, text.open_loop), (2000.0, Some(0.0), Some(false)));
    takes(text.latency, [1.6645, 0.1827, 8.4232, 31.3963, 99.1303]);
    assert_eq!(load("oha", recorded!("oha-errors")).errors, Some(586.0));
    let json = load("oha", recorded!("oha-json"));
    assert_eq!((json.requests, json.errors), (2000.0, Some(586.0)));
    takes(json.latency, [0.452_735, 0.176_593, 2.291_276, 5.573_458, 11.835_914]);
    // Eight were under way when its time was over.
    let timed = load("oha", recorded!("oha-time"));
    assert_eq!((timed.requests, timed.errors), (26817.0, Some(0.0)));
    let due = "oha -q 500 --latency-correction -z 1s";
    let due = read("oha", due, recorded!("oha-rate")).expect("whole");
    assert_eq!((due.requests, due.open_loop), (500.0, Some(true)));
    let last = read("oha", "oha -q 500 URL --latency-correction", recorded!("oha-rate"));
    assert_eq!(last.expect("whole").open_loop, Some(true));
    assert!(fault("oha", recorded!("oha-refused")).starts_with("oha did no request, 200 failed"));
}

#[test]
fn what_is_missing_is_one_line() {
    for (name, _, _) in WHOLE {
        assert!(fault(name, " \n").ends_with("printed nothing"), "{name}");
        let other = fault(name, "\n\nsegmentation fault\nat 0x0\n");
        assert!(other.ends_with("its output begins with \"segmentation fault\""), "{other}");
        assert_eq!(other.lines().count(), 1);
    }
    assert!(fault("hey", recorded!("hey-refused")).starts_with("hey did no request, 200 failed"));
    let none = recorded!("wrk").replace("85719 requests", "0 requests");
    assert!(
        fault("wrk", &none).starts_with("wrk did no request; its output begins with \"Running 2s")
    );
    assert!(fault("ab", recorded!("ab-refused")).contains("\"Complete requests:\""));
    assert!(fault("pgbench", recorded!("pgbench-failed")).contains("actually processed"));
    let long = fault("wrk", &"x".repeat(1000));
    assert!(long.len() < 200, "{long}");
}

#[test]
fn a_cut_output_never_counts_less() {
    for (name, command, text) in WHOLE {
        let whole = read(name, command, text).expect("the output is whole").requests;
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            if let Ok(load) = read(name, command, &text[..end]) {
                assert_eq!(load.requests, whole, "{name} cut at {end} of {}", text.len());
            }
        }
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in r#"(?s)[ -~\n\r\t°µ]{0,200}"#, command in "[ -~]{0,40}", which in 0..WHOLE.len()) {
        let _ = read(WHOLE[which].0, &command, &text);
        let _ = text.parse::<LoadMetric>();
        let _ = format!("regex:{text}").parse::<LoadMetric>();
        let _ = format!("json:{text}").parse::<LoadMetric>();
        let _ = read("json:a.b", &command, &text);
        let _ = read("regex:([0-9]+)", &command, &text);
    }

    #[test]
    fn no_changed_line_panics(which in 0..WHOLE.len(), line in 0_usize..60, text in "[ -~]{0,30}") {
        let (name, command, whole) = WHOLE[which];
        let changed: Vec<&str> =
            whole.lines().enumerate().map(|(at, old)| if at == line { text.as_str() } else { old }).collect();
        let _ = read(name, command, &changed.join("\n"));
    }

    #[test]
    fn times_keep_their_unit(amount in 1_u32..100_000) {
        let known = f64::from(amount);
        for (suffix, unit) in [("us", 1e-6), ("ms", 1e-3), (" ms", 1e-3), ("s", 1.0), (" secs", 1.0)] {
            near(output::seconds(&format!("{amount}{suffix}")), known * unit);
        }
        near(output::seconds(&format!("1m{amount}ms")), 60.0 + known * 1e-3);
        prop_assert_eq!(output::seconds(&format!("{amount}")), None);
    }
}

#[test]
fn ab_is_strict_about_lengths_unless_it_is_given_the_option() {
    for (metric, load, is_strict) in [
        (LoadMetric::Ab, "ab -q -n 20 http://127.0.0.1:1/", true),
        (LoadMetric::Ab, "ab -q -l -n 20 http://127.0.0.1:1/", false),
        (LoadMetric::Wrk, "wrk -d2s http://127.0.0.1:1/", false),
    ] {
        assert_eq!(metric.strictness(load).is_some(), is_strict, "{load}");
    }
}

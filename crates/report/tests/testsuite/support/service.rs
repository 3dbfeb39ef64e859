//! A constructed service under its load.

use super::{effect, experiment, proven, verdict};
use pagewise_model::guard::{ArmGuard, GuardFinding};
use pagewise_model::run::SavedRun;
use pagewise_model::service::{
    LoadReport, RequestLatency, ServerMeasurement, ServerMemory, ServerPair, ServiceMode,
    ServiceWindow, TunedService,
};
use pagewise_model::spec::{ServerSpec, ServiceSpec, SessionSpec};
use pagewise_model::trial::{ComparedQuantity, VerdictWord};
use pagewise_model::{Bytes, Nanos};

/// A server with two equal windows.
fn served_side(cpu_ms: u64, p99_us: f64, huge_mib: u64) -> ServerMeasurement {
    let window = ServiceWindow {
        cpu_ns: Nanos::millis(cpu_ms),
        wall_ns: Nanos::secs(1),
        generator_cpu_ns: Nanos::millis(400),
        load: LoadReport {
            requests: 100_000.0,
            errors: Some(0.0),
            rate: Some(100_000.0),
            latency: RequestLatency { p99: Some(p99_us / 1e6), ..RequestLatency::default() },
            ..LoadReport::default()
        },
        at_once: false,
    };
    let anon_huge_bytes = Bytes::mib(huge_mib);
    let holding =
        ServerMemory { pss_bytes: Bytes::mib(300), anon_huge_bytes, ..ServerMemory::default() };
    ServerMeasurement {
        ready_ns: Nanos::millis(20),
        warm_ups: 2,
        windows: vec![window.clone(), window],
        at_first: holding,
        at_last: holding,
    }
}

/// The request of a session of a service.
pub(crate) fn asked(serve: &str, server: ServerSpec, load: &str) -> SessionSpec {
    let service = ServiceSpec {
        serve: serve.into(),
        server,
        load: load.into(),
        load_within_ns: Nanos::secs(60),
        metric: "wrk".into(),
        warm_up_ns: Nanos::secs(60),
    };
    SessionSpec { service: Some(service), ..SessionSpec::new(vec!["served".into()], "/".into(), 1) }
}

/// A service with one arm kept and one that broke a guard.
pub(crate) fn served() -> SavedRun {
    let mut run = proven();
    let pair = |arm: &str, other| ServerPair {
        arm: arm.into(),
        mode: ServiceMode::Duet,
        plain: served_side(200, 500.0, 0),
        other,
    };
    let p99 = ArmGuard { quantity: Some(ComparedQuantity::P99), limit_share: 0.2 };
    let guarded = |arm: &str, ratio, is_broken| GuardFinding {
        arm: arm.into(),
        guard: p99,
        ratio: Some((ratio, ratio - 0.05, ratio + 0.05)),
        errors: 0.0,
        is_passed: is_broken,
        is_broken,
    };
    let server = ServerSpec::Started {
        ready: "tcp:{port}".into(),
        ready_within_ns: Nanos::secs(60),
        stop: None,
        stop_within_ns: Nanos::secs(60),
        mode: None,
    };
    run.spec = Some(asked("served {port}", server, "shoot {port} 100000"));
    run.service = Some(TunedService {
        mode: ServiceMode::Duet,
        mode_why: "two servers can run at once".into(),
        first: Some(served_side(200, 500.0, 0)),
        pairs: vec![
            pair("heap-huge", served_side(176, 490.0, 280)),
            pair("malloc-keep", served_side(190, 700.0, 0)),
            pair("heap-huge", served_side(176, 490.0, 280)),
        ],
    });
    let broken = "40% more p99 latency: guard p99<+20%";
    let mut all = experiment(vec![
        verdict(
            "heap-huge",
            VerdictWord::Keep,
            "a gain over 1% is proven",
            Some(effect(0.88, 0.85, 0.91)),
        ),
        verdict("malloc-keep", VerdictWord::Reject, broken, Some(effect(0.95, 0.8, 1.1))),
    ]);
    all.guarded = vec![guarded("heap-huge", 0.98, false), guarded("malloc-keep", 1.4, true)];
    (all.design.quantity, all.blocks) = (ComparedQuantity::CpuPerRequest, Vec::new());
    run.experiment = Some(all);
    run
}

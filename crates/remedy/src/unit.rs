//! Lines for systemd: a unit that keeps code on huge pages from boot on, a drop-in that restores the page
//! cache of a service, and a timer that measures gains again.
//!
//! The unit runs `pagewise text keep`. It fills the missing cache, maps the files so that their cache stays,
//! and checks them each minute. If a package has replaced a file, or its cache is gone, it is filled again.
//! So one service is enough, and nothing has to watch the package manager. It may write only to its state
//! directory and needs no privileges: the files must only be readable.

use crate::systemd;
use std::path::{Path, PathBuf};

/// The lines of the unit that keeps `files`; `Err` says why none are possible.
///
/// # Errors
/// A sentence.
pub fn keeping(pagewise: &Path, files: &[PathBuf]) -> Result<Vec<String>, String> {
    let mut words = vec![
        systemd::program(pagewise.as_os_str()).map_err(|why| format!("pagewise's path {why}"))?,
        "text".to_owned(),
        "keep".to_owned(),
        "--".to_owned(),
    ];
    for file in files {
        let word = systemd::argument(file.as_os_str());
        words.push(word.map_err(|why| format!("the path {} {why}", file.display()))?);
    }
    let start = format!("ExecStart={}", words.join(" "));
    let lines = [
        "# /etc/systemd/system/pagewise-keep.service; then:",
        "# systemctl daemon-reload && systemctl enable --now pagewise-keep.service",
        "[Unit]",
        "Description=Code kept on huge pages",
        "After=local-fs.target",
        "",
        "[Service]",
        &start,
        "Restart=on-failure",
        "Nice=10",
        "StateDirectory=pagewise",
        "StateDirectoryMode=0700",
        "Environment=XDG_STATE_HOME=/var/lib",
        "NoNewPrivileges=yes",
        "PrivateNetwork=yes",
        "ProtectSystem=strict",
        "ProtectHome=read-only",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ];
    Ok(lines.map(str::to_owned).into())
}

/// The lines of a drop-in that restores the saved page cache `list` before a service starts. It saves the
/// cache again when the service has ended and writes no more files. Both run as the service's own user; their
/// failure does not stop the service.
///
/// # Errors
/// A sentence that says why none are possible.
pub fn restoring(pagewise: &Path, list: &Path) -> Result<Vec<String>, String> {
    let program =
        systemd::program(pagewise.as_os_str()).map_err(|why| format!("pagewise's path {why}"))?;
    let list = systemd::argument(list.as_os_str())
        .map_err(|why| format!("the path {} {why}", list.display()))?;
    Ok(vec![
        "# /etc/systemd/system/NAME.service.d/page-cache.conf; then: systemctl daemon-reload"
            .to_owned(),
        "[Service]".to_owned(),
        format!("ExecStartPre=-{program} cache restore {list}"),
        format!("ExecStopPost=-{program} cache save --again {list}"),
    ])
}

/// The lines of a service and its timer that measure the applied gains again each week.
///
/// # Errors
/// A sentence that says why none are possible.
pub fn rechecking(pagewise: &Path) -> Result<Vec<String>, String> {
    let program =
        systemd::program(pagewise.as_os_str()).map_err(|why| format!("pagewise's path {why}"))?;
    let start = format!("ExecStart={program} recheck --quiet");
    let lines = [
        "# ~/.config/systemd/user/pagewise-recheck.service",
        "[Unit]",
        "Description=Gains of pagewise, measured again",
        "",
        "[Service]",
        "Type=oneshot",
        &start,
        "",
        "# ~/.config/systemd/user/pagewise-recheck.timer; then:",
        "# systemctl --user daemon-reload && systemctl --user enable --now pagewise-recheck.timer",
        "[Unit]",
        "Description=Gains of pagewise, measured again each week",
        "",
        "[Timer]",
        "OnCalendar=weekly",
        "Persistent=yes",
        "RandomizedDelaySec=6h",
        "",
        "[Install]",
        "WantedBy=timers.target",
    ];
    Ok(lines.map(str::to_owned).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_starts_the_keeper_with_its_files() {
        let files = ["/usr/bin/node", "/opt/my 100%/x"].map(PathBuf::from);
        let unit = keeping(Path::new("/usr/bin/pagewise"), &files).unwrap();
        let start = "ExecStart=/usr/bin/pagewise text keep -- /usr/bin/node \"/opt/my 100%%/x\"";
        assert!(unit.iter().any(|line| line == start), "{unit:?}");
        for section in ["[Unit]", "[Service]", "[Install]"] {
            assert_eq!(unit.iter().filter(|line| *line == section).count(), 1);
        }
        let is_line =
            |line: &String| line.is_empty() || line.starts_with(['#', '[']) || line.contains('=');
        assert!(unit.iter().all(is_line), "{unit:?}");
    }

    #[test]
    fn a_service_restores_before_its_start_and_saves_after_its_end() {
        let lines = restoring(Path::new("/usr/bin/pagewise"), Path::new("/var/my db")).unwrap();
        let expected = [
            "[Service]",
            "ExecStartPre=-/usr/bin/pagewise cache restore \"/var/my db\"",
            "ExecStopPost=-/usr/bin/pagewise cache save --again \"/var/my db\"",
        ];
        assert_eq!(lines[1..], expected);
        assert!(restoring(Path::new("/usr/bin/pagewise"), Path::new("/a\nb")).is_err());
    }

    #[test]
    fn gains_are_measured_again_by_a_timer() {
        let lines = rechecking(Path::new("/usr/bin/pagewise")).unwrap();
        for expected in ["ExecStart=/usr/bin/pagewise recheck --quiet", "OnCalendar=weekly"] {
            assert!(lines.iter().any(|line| line == expected), "{lines:?}");
        }
        assert!(rechecking(Path::new("/opt/$x/pagewise")).is_err());
    }

    #[test]
    fn what_systemd_cannot_hold_is_said() {
        let odd = keeping(Path::new("/usr/bin/pagewise"), &["/new\nline".into()]);
        assert!(odd.unwrap_err().contains("control character"));
        assert!(keeping(Path::new("/opt/$x/pagewise"), &[]).is_err());
    }
}

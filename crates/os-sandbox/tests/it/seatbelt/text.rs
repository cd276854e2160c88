//! What a profile looks like.

use super::project;
use os_sandbox::{SeatbeltProfile, SeatbeltRun, System};

#[test]
fn a_profile() {
    let run = SeatbeltRun {
        tag: "run-1".to_owned(),
        private: vec!["/private/var/folders/x/home".into()],
        shown: vec!["/private/var/folders/x/work".into()],
        ..SeatbeltRun::default()
    };
    let policy = project().system(System::None).build().unwrap();
    let profile = SeatbeltProfile::new(&policy, &run).unwrap();
    assert!(
        profile
            .text()
            .starts_with("(version 1)\n(deny default (with message \"run-1\"))\n")
    );
    let (_, of_the_policy) = profile.text().split_once("; files: read").unwrap();
    insta::assert_snapshot!(of_the_policy.trim(), @r##"
    (allow file-read* file-test-existence
      (subpath (param "MOUNT_2"))
      (subpath (param "MOUNT_2_LOGICAL")))
    (deny file-read* file-test-existence
      (require-all (subpath (param "MOUNT_2"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)")))
      (require-all (subpath (param "MOUNT_2_LOGICAL"))
        (require-any
          (regex #"^/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)"))))
    (allow file-read* file-test-existence
      (subpath (param "MOUNT_0"))
      (subpath (param "MOUNT_0_LOGICAL")))
    (deny file-read* file-test-existence
      (require-all (subpath (param "MOUNT_0"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)")))
      (require-all (subpath (param "MOUNT_0_LOGICAL"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)"))))
    (allow file-read* file-test-existence
      (subpath (param "MOUNT_1"))
      (subpath (param "MOUNT_1_LOGICAL")))
    (deny file-read* file-test-existence
      (require-all (subpath (param "MOUNT_1"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)")))
      (require-all (subpath (param "MOUNT_1_LOGICAL"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)"))))
    (allow file-read* file-test-existence
      (subpath (param "PRIVATE_0"))
      (subpath (param "PRIVATE_0_LOGICAL")))
    (allow file-read* file-test-existence
      (literal "/")
      (subpath (param "SHOWN_0"))
      (subpath (param "SHOWN_0_LOGICAL"))
      (literal "/dev/null")
      (literal "/dev/zero")
      (literal "/dev/full")
      (literal "/dev/random")
      (literal "/dev/urandom")
      (literal "/dev/tty")
      (literal "/dev/dtracehelper")
      (literal "/dev/ptmx")
      (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty"))
      (literal "/dev/autofs_nowait")
      (literal "/dev/stdin")
      (literal "/dev/stdout")
      (literal "/dev/stderr")
      (subpath "/dev/fd"))

    ; files: write
    (allow file-write* file-link
      (subpath (param "MOUNT_0"))
      (subpath (param "MOUNT_0_LOGICAL")))
    (deny file-write* file-link
      (require-all (subpath (param "MOUNT_0"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[bB][rR][aA][nN][cC][hH][eE]([sS]|[^ -~]+)(/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[cC][oO][mM][mM][oO][nN][dD][iI][rR](/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[cC][oO][nN]([fF]|[^ -~]+)([iI]|[^ -~]+)[gG](/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[cC][oO][nN]([fF]|[^ -~]+)([iI]|[^ -~]+)[gG][.][wW][oO][rR]([kK]|[^ -~]+)[tT][rR][eE][eE](/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[hH][oO][oO]([kK]|[^ -~]+)([sS]|[^ -~]+)(/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[iI][nN][fF][oO](/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[oO][bB][jJ][eE][cC][tT]([sS]|[^ -~]+)/[iI][nN][fF][oO]/[aA][lL][tT][eE][rR][nN][aA][tT][eE]([sS]|[^ -~]+)(/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[oO][bB][jJ][eE][cC][tT]([sS]|[^ -~]+)/[iI][nN][fF][oO]/[hH][tT][tT][pP]-[aA][lL][tT][eE][rR][nN][aA][tT][eE]([sS]|[^ -~]+)(/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[rR][eE][bB][aA]([sS]|[^ -~]+)[eE]-[aA][pP][pP][lL][yY](/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[rR][eE][bB][aA]([sS]|[^ -~]+)[eE]-[mM][eE][rR][gG][eE](/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[rR][eE][mM][oO][tT][eE]([sS]|[^ -~]+)(/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/([sS]|[^ -~]+)[eE][qQ][uU][eE][nN][cC][eE][rR](/|$)")))
      (require-all (subpath (param "MOUNT_0_LOGICAL"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[bB][rR][aA][nN][cC][hH][eE]([sS]|[^ -~]+)(/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[cC][oO][mM][mM][oO][nN][dD][iI][rR](/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[cC][oO][nN]([fF]|[^ -~]+)([iI]|[^ -~]+)[gG](/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[cC][oO][nN]([fF]|[^ -~]+)([iI]|[^ -~]+)[gG][.][wW][oO][rR]([kK]|[^ -~]+)[tT][rR][eE][eE](/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[hH][oO][oO]([kK]|[^ -~]+)([sS]|[^ -~]+)(/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[iI][nN][fF][oO](/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[oO][bB][jJ][eE][cC][tT]([sS]|[^ -~]+)/[iI][nN][fF][oO]/[aA][lL][tT][eE][rR][nN][aA][tT][eE]([sS]|[^ -~]+)(/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[oO][bB][jJ][eE][cC][tT]([sS]|[^ -~]+)/[iI][nN][fF][oO]/[hH][tT][tT][pP]-[aA][lL][tT][eE][rR][nN][aA][tT][eE]([sS]|[^ -~]+)(/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[rR][eE][bB][aA]([sS]|[^ -~]+)[eE]-[aA][pP][pP][lL][yY](/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[rR][eE][bB][aA]([sS]|[^ -~]+)[eE]-[mM][eE][rR][gG][eE](/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[rR][eE][mM][oO][tT][eE]([sS]|[^ -~]+)(/|$)")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/([sS]|[^ -~]+)[eE][qQ][uU][eE][nN][cC][eE][rR](/|$)"))))
    (deny file-write* file-link
      (subpath (param "MOUNT_1"))
      (subpath (param "MOUNT_1_LOGICAL")))
    (allow file-write* file-link
      (subpath (param "PRIVATE_0"))
      (subpath (param "PRIVATE_0_LOGICAL")))
    (allow file-write* file-link
      (literal "/dev/null")
      (literal "/dev/zero")
      (literal "/dev/full")
      (literal "/dev/random")
      (literal "/dev/urandom")
      (literal "/dev/tty")
      (literal "/dev/dtracehelper")
      (literal "/dev/ptmx")
      (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))

    ; files: execute
    (allow process-exec* file-map-executable
      (subpath (param "MOUNT_0"))
      (subpath (param "MOUNT_0_LOGICAL")))
    (deny process-exec* file-map-executable
      (require-all (subpath (param "MOUNT_0"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)")))
      (require-all (subpath (param "MOUNT_0_LOGICAL"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)"))))
    (deny process-exec* file-map-executable
      (subpath (param "MOUNT_1"))
      (subpath (param "MOUNT_1_LOGICAL")))
    (allow process-exec* file-map-executable
      (subpath (param "PRIVATE_0"))
      (subpath (param "PRIVATE_0_LOGICAL")))

    ; devices
    (allow file-ioctl
      (literal "/dev/dtracehelper")
      (literal "/dev/null")
      (literal "/dev/random")
      (literal "/dev/urandom")
      (literal "/dev/zero")
      (literal "/dev/ptmx")
      (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))

    ; directories on the way
    (allow file-read-metadata file-test-existence
      (literal "/dev")
      (literal (param "ABOVE_0"))
      (literal (param "ABOVE_1"))
      (literal (param "ABOVE_2"))
      (literal (param "ABOVE_3"))
      (literal (param "ABOVE_4"))
      (literal (param "ABOVE_5"))
      (literal (param "ABOVE_6"))
      (literal (param "ABOVE_7"))
      (literal (param "ABOVE_8"))
      (literal (param "ABOVE_9"))
      (literal (param "ABOVE_10"))
      (literal (param "ABOVE_11"))
      (literal (param "ABOVE_12"))
      (literal (param "ABOVE_13"))
      (literal (param "ABOVE_14"))
      (literal (param "ABOVE_15"))
      (literal (param "ABOVE_16"))
      (literal (param "ABOVE_17"))
      (literal (param "ABOVE_18")))

    ; network

    ; local sockets

    ; last: what stays where it is
    (deny file-write-unlink
      (literal (param "MOUNT_2"))
      (literal (param "MOUNT_2_LOGICAL"))
      (literal (param "MOUNT_0"))
      (literal (param "MOUNT_0_LOGICAL"))
      (literal (param "MOUNT_1"))
      (literal (param "MOUNT_1_LOGICAL"))
      (literal (param "PRIVATE_0"))
      (literal (param "PRIVATE_0_LOGICAL"))
      (literal (param "SHOWN_0"))
      (literal (param "SHOWN_0_LOGICAL"))
      (literal (param "ABOVE_0"))
      (literal (param "ABOVE_3"))
      (literal (param "ABOVE_5"))
      (literal (param "ABOVE_8")))
    (deny file-write-create file-write-unlink
      (require-all (subpath (param "MOUNT_0"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[oO][bB][jJ][eE][cC][tT]([sS]|[^ -~]+)$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[oO][bB][jJ][eE][cC][tT]([sS]|[^ -~]+)/[iI][nN][fF][oO]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[oO][bB][jJ][eE][cC][tT]([sS]|[^ -~]+)$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[oO][bB][jJ][eE][cC][tT]([sS]|[^ -~]+)/[iI][nN][fF][oO]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")))
      (require-all (subpath (param "MOUNT_0_LOGICAL"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[oO][bB][jJ][eE][cC][tT]([sS]|[^ -~]+)$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[oO][bB][jJ][eE][cC][tT]([sS]|[^ -~]+)/[iI][nN][fF][oO]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[oO][bB][jJ][eE][cC][tT]([sS]|[^ -~]+)$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]/[oO][bB][jJ][eE][cC][tT]([sS]|[^ -~]+)/[iI][nN][fF][oO]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$")
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][gG][iI][tT]$"))))
    (deny file-clone file-link
      (require-all (subpath (param "MOUNT_2"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)")))
      (require-all (subpath (param "MOUNT_2_LOGICAL"))
        (require-any
          (regex #"^/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)")))
      (require-all (subpath (param "MOUNT_0"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)")))
      (require-all (subpath (param "MOUNT_0_LOGICAL"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)")))
      (require-all (subpath (param "MOUNT_1"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)")))
      (require-all (subpath (param "MOUNT_1_LOGICAL"))
        (require-any
          (regex #"^/[^/]+/[^/]+/[^/]+(/[^/]+)*/[.][eE][nN][vV][^/]*(/|$)"))))
    (deny file-write-setugid)
    "##);
    let parameters: Vec<String> = profile
        .parameters()
        .iter()
        .map(|(name, value)| format!("{name}={}", value.display()))
        .collect();
    insta::assert_snapshot!(parameters.join("\n"), @r##"
    MOUNT_2=/private/tmp/data
    MOUNT_2_LOGICAL=/tmp/data
    MOUNT_0=/Users/me/p
    MOUNT_0_LOGICAL=/Users/me/p
    MOUNT_1=/Users/me/p/vendor
    MOUNT_1_LOGICAL=/Users/me/p/vendor
    PRIVATE_0=/private/var/folders/x/home
    PRIVATE_0_LOGICAL=/var/folders/x/home
    SHOWN_0=/private/var/folders/x/work
    SHOWN_0_LOGICAL=/var/folders/x/work
    ABOVE_0=/private/tmp/data
    ABOVE_1=/private/tmp
    ABOVE_2=/private
    ABOVE_3=/tmp/data
    ABOVE_4=/tmp
    ABOVE_5=/Users/me/p
    ABOVE_6=/Users/me
    ABOVE_7=/Users
    ABOVE_8=/Users/me/p/vendor
    ABOVE_9=/private/var/folders/x/home
    ABOVE_10=/private/var/folders/x
    ABOVE_11=/private/var/folders
    ABOVE_12=/private/var
    ABOVE_13=/var/folders/x/home
    ABOVE_14=/var/folders/x
    ABOVE_15=/var/folders
    ABOVE_16=/var
    ABOVE_17=/private/var/folders/x/work
    ABOVE_18=/var/folders/x/work
    "##);
    let argv = profile.argv("make", ["all"]);
    assert_eq!(argv[..2], ["/usr/bin/sandbox-exec", "-p"]);
    assert_eq!(argv[2], profile.text());
    assert_eq!(argv[3], "-DMOUNT_2=/private/tmp/data");
    assert_eq!(argv[argv.len() - 3..], ["--", "make", "all"]);
}

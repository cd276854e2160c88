//! The rules of every confined command, whatever the policy: processes of its own, requests of the
//! C library and language runtimes to the kernel and the system's services, pseudo-terminals.
//!
//! Left out on purpose: preferences of the user (`user-preference-read`, cfprefsd), the keychain
//! (SecurityServer, securityd), other programs' windows and events (launchservicesd, AppleEvents),
//! task ports, and the list of all processes (`kern.proc.all`).

use super::text::{ProfileText, named};

/// Facts about the machine and the system.
#[rustfmt::skip]
const SYSCTLS: [&str; 54] = [
    "hw.activecpu", "hw.busfrequency_compat", "hw.byteorder", "hw.cacheconfig",
    "hw.cachelinesize_compat", "hw.cpufamily", "hw.cpufrequency", "hw.cpufrequency_compat",
    "hw.cputype", "hw.l1dcachesize_compat", "hw.l1icachesize_compat", "hw.l2cachesize_compat",
    "hw.l3cachesize_compat", "hw.logicalcpu", "hw.logicalcpu_max", "hw.machine", "hw.memsize",
    "hw.model", "hw.ncpu", "hw.nperflevels", "hw.packages", "hw.pagesize", "hw.pagesize_compat",
    "hw.physicalcpu", "hw.physicalcpu_max", "hw.tbfrequency_compat", "hw.vectorunit",
    "kern.argmax", "kern.bootargs", "kern.hostname", "kern.maxfiles", "kern.maxfilesperproc",
    "kern.maxproc", "kern.ngroups", "kern.osproductversion", "kern.osrelease", "kern.ostype",
    "kern.osvariant_status", "kern.osversion", "kern.secure_kernel", "kern.tcsm_available",
    "kern.tcsm_enable", "kern.usrstack64", "kern.version", "kern.willshutdown",
    "machdep.cpu.brand_string", "machdep.ptrauth_enabled", "security.mac.lockdown_mode_state",
    "sysctl.proc_cputype", "vm.loadavg", "hw.cachelinesize", "hw.cpu64bit_capable",
    "hw.cpusubtype", "hw.memsize_usable",
];

const SYSCTL_PREFIXES: [&str; 7] = [
    "hw.optional.arm",
    "hw.optional.armv8_",
    "hw.perflevel",
    "kern.proc.pgrp.",
    "kern.proc.pid.",
    "machdep.cpu.",
    "net.routetable.",
];

/// Services that answer questions and do not act on behalf of their callers.
#[rustfmt::skip]
const SERVICES: [&str; 13] = [
    "com.apple.FontObjectsServer", "com.apple.PowerManagement.control", "com.apple.analyticsd",
    "com.apple.bsd.dirhelper", "com.apple.diagnosticd", "com.apple.fonts", "com.apple.logd",
    "com.apple.lsd.mapdb", "com.apple.secinitd", "com.apple.system.logger",
    "com.apple.system.notification_center", "com.apple.system.opendirectoryd.libinfo",
    "com.apple.system.opendirectoryd.membership",
];

pub(super) fn write(text: &mut ProfileText) {
    text.section("processes");
    text.allow_all("process-fork");
    text.allow("process-info* signal", &["(target same-sandbox)"]);

    text.section("facts");
    let mut facts = named("sysctl-name", &SYSCTLS);
    facts.extend(named("sysctl-name-prefix", &SYSCTL_PREFIXES));
    text.allow("sysctl-read", &facts);
    // Java and V8 set these for themselves.
    text.allow(
        "sysctl-write",
        &named("sysctl-name", &["kern.grade_cputype", "kern.tcsm_enable"]),
    );

    text.section("services");
    text.allow("mach-lookup", &named("global-name", &SERVICES));
    text.allow_all("ipc-posix-sem");
    text.allow(
        "ipc-posix-shm-read*",
        &named("ipc-posix-name", &["apple.shm.notification_center"]),
    );
    // OpenMP.
    text.allow(
        "ipc-posix-shm*",
        &["(ipc-posix-name-regex #\"^/__KMP_REGISTERED_LIB_[0-9]+$\")"],
    );
    text.allow(
        "iokit-open",
        &named("iokit-registry-entry-class", &["RootDomainUserClient"]),
    );
    text.allow_all("iokit-get-properties");
    text.allow(
        "system-socket",
        &["(require-all (socket-domain AF_SYSTEM) (socket-protocol 2))"],
    );
    text.allow(
        "system-mac-syscall",
        &[
            "(mac-policy-name \"vnguard\")",
            "(require-all (mac-policy-name \"Sandbox\") (mac-syscall-number 67))",
        ],
    );
    text.allow("system-fsctl", &["(fsctl-command FSIOC_CAS_BSDFLAGS)"]);

    text.section("pseudo-terminals of its own");
    text.allow_all("pseudo-tty");
}

/// Returns the filter for a pseudo-terminal that the command opened itself.
pub(super) fn own_terminals() -> Vec<String> {
    vec![
        "(literal \"/dev/ptmx\")".to_owned(),
        "(require-all (regex #\"^/dev/ttys[0-9]+$\") (extension \"com.apple.sandbox.pty\"))"
            .to_owned(),
    ]
}

//! System calls that a host process may not make: they get EPERM, as if the user had no right.
//!
//! A list of what is forbidden and not of what is allowed: the interpreter and its libraries differ from machine to
//! machine, and Landlock, which allows by list, decides about files. Only `confine` uses it.

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// On x86-64 a call can also be made by its number in the x32 table, which is the same with this bit.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// The network and messages to other processes.
const NETWORK: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // A ring makes calls that no filter sees.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_shmget,
    libc::SYS_mq_open,
];

/// Other processes: their memory, their signals, their standing; and leaving the process group that ends with the host.
const PROCESSES: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_kcmp,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_setpgid,
    libc::SYS_setsid,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
];

/// What Landlock does not decide about files: owners, modes, times and attributes.
const FILES: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
];

#[cfg(target_arch = "x86_64")]
const OLD_FORMS: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    // 452, fchmodat2.
    452,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_FORMS: &[i64] = &[452];

/// The machine, for hosts of a node that runs as root.
const MACHINE: &[i64] = &[
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_capset,
    libc::SYS_perf_event_open,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_settimeofday,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
];

/// Requests that would have the kernel send signals or type on a terminal.
const CONTROLS: &[u64] = &[
    0x8901, // FIOSETOWN
    0x8902, // SIOCSPGRP
    0x5412, // TIOCSTI
    0x541c, // TIOCLINUX
];

/// Settings of a descriptor that name the receiver of a signal, or the signal: F_SETOWN, F_SETSIG, F_SETOWN_EX.
const OWNERS: &[u64] = &[8, 10, 15];

/// Niceness that a snapshot process takes: `SNAPSHOT_NICENESS` of the package's `_host`.
const SNAPSHOT_NICENESS: u64 = 10;

/// The programs for a process with this id, in the order in which they are installed.
pub(crate) fn filters(own: u32) -> Result<Vec<BpfProgram>, BackendError> {
    let mut rules = Rules::new();
    for call in [NETWORK, PROCESSES, FILES, OLD_FORMS, MACHINE].concat() {
        rules.insert(call, Vec::new());
    }
    let own = u64::from(own);
    // Signals to itself stay possible: `abort` and `raise` need them.
    for call in [libc::SYS_kill, libc::SYS_tgkill] {
        rules.insert(call, vec![rule(&[(0, SeccompCmpOp::Ne, own)])?]);
    }
    // Its own limits stay possible, as 0 or by its id.
    let others = rule(&[(0, SeccompCmpOp::Ne, 0), (0, SeccompCmpOp::Ne, own)])?;
    rules.insert(libc::SYS_prlimit64, vec![others]);
    // A snapshot process lets calls have the processors first. It may not choose another process or value.
    let other_priorities = [
        rule(&[(0, SeccompCmpOp::Ne, u64::from(libc::PRIO_PROCESS))])?,
        rule(&[(1, SeccompCmpOp::Ne, 0)])?,
        rule(&[(2, SeccompCmpOp::Ne, SNAPSHOT_NICENESS)])?,
    ];
    rules.insert(libc::SYS_setpriority, other_priorities.to_vec());
    // The end of the node stays the end of the host.
    let unbound = rule(&[
        (0, SeccompCmpOp::Eq, libc::PR_SET_PDEATHSIG as u64),
        (1, SeccompCmpOp::Ne, libc::SIGKILL as u64),
    ])?;
    rules.insert(libc::SYS_prctl, vec![unbound]);
    rules.insert(libc::SYS_ioctl, one_of(1, CONTROLS)?);
    rules.insert(libc::SYS_fcntl, one_of(1, OWNERS)?);
    rules.insert(libc::SYS_clone, namespaces()?);
    // The flags of `clone3` lie in memory, where no filter sees them. Without it, libraries take `clone`.
    let absent = Rules::from([(libc::SYS_clone3, Vec::new())]);
    Ok(vec![
        program(absent, libc::ENOSYS)?,
        program(rules, libc::EPERM)?,
    ])
}

fn program(rules: Rules, errno: i32) -> Result<BpfProgram, BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    let denied = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(with_x32(rules), SeccompAction::Allow, denied, arch)?.try_into()
}

#[cfg(target_arch = "x86_64")]
fn with_x32(rules: Rules) -> Rules {
    let again: Vec<_> = rules
        .iter()
        .map(|(call, rules)| (call | X32, rules.clone()))
        .collect();
    rules.into_iter().chain(again).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn with_x32(rules: Rules) -> Rules {
    rules
}

fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions.iter().map(|(argument, is, value)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, is.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

fn one_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let rules = values
        .iter()
        .map(|value| rule(&[(argument, SeccompCmpOp::Eq, *value)]));
    rules.collect()
}

/// A process in namespaces of its own would have more rights there.
fn namespaces() -> Result<Vec<SeccompRule>, BackendError> {
    let flags = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    let rules = flags.iter().map(|flag| {
        let flag = *flag as u64;
        rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)])
    });
    rules.collect()
}

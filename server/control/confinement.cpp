// The filter of system calls, and what stays allowed.
#include "server/control/confinement.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <vector>

namespace warpline::server {

namespace {

#if defined(__x86_64__)
constexpr uint32_t k_architecture = AUDIT_ARCH_X86_64;
constexpr uint32_t k_other_abi_bit = 0x40000000;  // x32: the same calls by other numbers
#elif defined(__aarch64__)
constexpr uint32_t k_architecture = AUDIT_ARCH_AARCH64;
constexpr uint32_t k_other_abi_bit = 0;
#endif

constexpr uint32_t k_new_namespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

constexpr int k_denied[] = {
    // Programs and other processes.
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_tkill,  // names a thread of any process; libraries use tgkill
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    // Sockets that wait for somebody.
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    // System calls that do not pass this filter.
    SYS_io_uring_setup,
    // The machine.
    SYS_mount,
    SYS_umount2,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_open_by_handle_at,
    SYS_quotactl,
    SYS_acct,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_sethostname,
    SYS_setdomainname,
};

constexpr uint32_t k_refuse = SECCOMP_RET_ERRNO | EPERM;

sock_filter load(size_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
sock_filter answer(uint32_t verdict) { return BPF_STMT(BPF_RET | BPF_K, verdict); }
/// Skips the next instruction unless the loaded word has this value.
sock_filter unless_equal(uint32_t value) { return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1); }

/// The low word of an argument; both architectures are little-endian.
constexpr size_t argument(size_t index) { return offsetof(seccomp_data, args) + index * sizeof(uint64_t); }

std::vector<sock_filter> make_filter() {
    std::vector<sock_filter> filter;
    filter.push_back(load(offsetof(seccomp_data, arch)));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k_architecture, 1, 0));
    filter.push_back(answer(k_refuse));
    filter.push_back(load(offsetof(seccomp_data, nr)));
    if (k_other_abi_bit != 0) {
        filter.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, k_other_abi_bit, 0, 1));
        filter.push_back(answer(k_refuse));
    }
    for (int number : k_denied) {
        filter.push_back(unless_equal(static_cast<uint32_t>(number)));
        filter.push_back(answer(k_refuse));
    }
    // Signals for this process only.
    const auto self = static_cast<uint32_t>(getpid());
    for (int number : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo}) {
        filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4));
        filter.push_back(load(argument(0)));
        filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, self, 1, 0));
        filter.push_back(answer(k_refuse));
        filter.push_back(answer(SECCOMP_RET_ALLOW));
    }
    // Limits of this process only: one that can open no files any more is as good as killed.
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(SYS_prlimit64), 0, 5));
    filter.push_back(load(argument(0)));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, self, 1, 0));
    filter.push_back(answer(k_refuse));
    filter.push_back(answer(SECCOMP_RET_ALLOW));
    // Threads and children, but not in namespaces of their own, where they had capabilities. What clone3 is asked for lies in
    // memory, where a filter cannot look: libraries that do not find it use clone.
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(SYS_clone), 0, 4));
    filter.push_back(load(argument(0)));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, k_new_namespaces, 0, 1));
    filter.push_back(answer(k_refuse));
    filter.push_back(answer(SECCOMP_RET_ALLOW));
    filter.push_back(unless_equal(static_cast<uint32_t>(SYS_clone3)));
    filter.push_back(answer(SECCOMP_RET_ERRNO | ENOSYS));
    // Drivers speak to their daemons through Unix-domain sockets; nobody in a worker has business with a network.
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(SYS_socket), 0, 3));
    filter.push_back(load(argument(0)));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0));
    filter.push_back(answer(k_refuse));
    filter.push_back(answer(SECCOMP_RET_ALLOW));
    return filter;
}

}  // namespace

Result<void> confine_process() {
    std::vector<sock_filter> filter = make_filter();
    const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
    const long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (result != 0)
        return Error{Code::io, "the system-call filter is refused", static_cast<uint32_t>(result > 0 ? EBUSY : errno)};
    return {};
}

}  // namespace warpline::server

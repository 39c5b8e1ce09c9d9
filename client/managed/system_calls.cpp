// Which functions of the C library hand memory of the program to the kernel, and which signals they block.
#include "client/managed/system_calls.h"

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include <ctime>
#include <vector>

#include "client/managed/call_rows.h"
#include "client/managed/earlier_masks.h"
#include "client/managed/library_loads.h"
#include "client/managed/lock_calls.h"
#include "client/managed/signal_calls.h"

namespace warpline::client::system_calls {

namespace {

constexpr Use k_in = Use::writes, k_out = Use::reads;  // from the program's point of view

/// As they are in the C library, whatever header says so: programs that were built with an older one have other names.
using Files = Table<
    Transfer<"read", k_in, ssize_t(int, void*, size_t)>,                //
    Transfer<"__read_chk", k_in, ssize_t(int, void*, size_t, size_t)>,  //
    Transfer<"pread", k_in, ssize_t(int, void*, size_t, off_t)>, Transfer<"pread64", k_in, ssize_t(int, void*, size_t, off_t)>,
    Transfer<"__pread_chk", k_in, ssize_t(int, void*, size_t, off_t, size_t)>,
    Transfer<"__pread64_chk", k_in, ssize_t(int, void*, size_t, off_t, size_t)>,
    Parts<"readv", k_in, ssize_t(int, const iovec*, int)>, Parts<"preadv", k_in, ssize_t(int, const iovec*, int, off_t)>,
    Parts<"preadv64", k_in, ssize_t(int, const iovec*, int, off_t)>,
    Parts<"preadv2", k_in, ssize_t(int, const iovec*, int, off_t, int)>,
    Parts<"preadv64v2", k_in, ssize_t(int, const iovec*, int, off_t, int)>,
    Stream<"fread", k_in, size_t(void*, size_t, size_t, FILE*)>,
    Stream<"fread_unlocked", k_in, size_t(void*, size_t, size_t, FILE*)>,
    Stream<"__fread_chk", k_in, size_t(void*, size_t, size_t, size_t, FILE*)>,
    Stream<"__fread_unlocked_chk", k_in, size_t(void*, size_t, size_t, size_t, FILE*)>,
    Transfer<"write", k_out, ssize_t(int, const void*, size_t)>,
    Transfer<"pwrite", k_out, ssize_t(int, const void*, size_t, off_t)>,
    Transfer<"pwrite64", k_out, ssize_t(int, const void*, size_t, off_t)>,
    Parts<"writev", k_out, ssize_t(int, const iovec*, int)>, Parts<"pwritev", k_out, ssize_t(int, const iovec*, int, off_t)>,
    Parts<"pwritev64", k_out, ssize_t(int, const iovec*, int, off_t)>,
    Parts<"pwritev2", k_out, ssize_t(int, const iovec*, int, off_t, int)>,
    Parts<"pwritev64v2", k_out, ssize_t(int, const iovec*, int, off_t, int)>,
    Stream<"fwrite", k_out, size_t(const void*, size_t, size_t, FILE*)>,
    Stream<"fwrite_unlocked", k_out, size_t(const void*, size_t, size_t, FILE*)>,
    Simple<"sendfile", ssize_t(int, int, off_t*, size_t), Copied<2, off_t>>,
    Simple<"sendfile64", ssize_t(int, int, off_t*, size_t), Copied<2, off_t>>,
    Simple<"copy_file_range", ssize_t(int, off_t*, int, off_t*, size_t, unsigned), Copied<1, off_t>, Copied<3, off_t>>,
    Simple<"splice", ssize_t(int, off_t*, int, off_t*, size_t, unsigned), Copied<1, off_t>, Copied<3, off_t>>,
    Simple<"getrandom", ssize_t(void*, size_t, unsigned), WritesAll<0, Arg<1>>>,
    Simple<"getentropy", int(void*, size_t), Writes<0, Arg<1>>>,
    Simple<"process_vm_readv", ssize_t(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long),
           AllOfList<k_in, 1, 2>>,
    Simple<"process_vm_writev", ssize_t(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long),
           AllOfList<k_out, 1, 2>>>;

using Sockets = Table<
    Simple<"recv", ssize_t(int, void*, size_t, int), Landed<1>, Writes<1, Arg<2>>>,
    Simple<"__recv_chk", ssize_t(int, void*, size_t, size_t, int), Landed<1>, Writes<1, Arg<2>>>,
    Simple<"recvfrom", ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*), Landed<1>, Writes<1, Arg<2>>, Address<4, 5>>,
    Simple<"__recvfrom_chk", ssize_t(int, void*, size_t, size_t, int, sockaddr*, socklen_t*), Landed<1>, Writes<1, Arg<2>>,
           Address<5, 6>>,
    Simple<"recvmsg", ssize_t(int, msghdr*, int), LandedMessage<1>, Message<k_in, 1>>,
    Simple<"recvmmsg", int(int, mmsghdr*, unsigned, int, timespec*), LandedList<k_in, 1, 2>, List<k_in, 1, 2>,
           Copied<4, timespec>>,
    Simple<"send", ssize_t(int, const void*, size_t, int), Reads<1, Arg<2>>>,
    Simple<"sendto", ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t), Reads<1, Arg<2>>, Reads<4, Arg<5>>>,
    Simple<"sendmsg", ssize_t(int, const msghdr*, int), Message<k_out, 1>>,
    Simple<"sendmmsg", int(int, mmsghdr*, unsigned, int), LandedList<k_out, 1, 2>, List<k_out, 1, 2>>,
    Simple<"getsockopt", int(int, int, int, void*, socklen_t*), Writes<3, At<4>>, Copied<4, socklen_t>>,
    Simple<"setsockopt", int(int, int, int, const void*, socklen_t), Reads<3, Arg<4>>>,
    Simple<"getsockname", int(int, sockaddr*, socklen_t*), Address<1, 2>>,
    Simple<"getpeername", int(int, sockaddr*, socklen_t*), Address<1, 2>>,
    Simple<"accept", int(int, sockaddr*, socklen_t*), Address<1, 2>>,
    Simple<"accept4", int(int, sockaddr*, socklen_t*, int), Address<1, 2>>,
    Simple<"bind", int(int, const sockaddr*, socklen_t), Reads<1, Arg<2>>>,
    Simple<"connect", int(int, const sockaddr*, socklen_t), Reads<1, Arg<2>>>,
    Simple<"socketpair", int(int, int, int, int*), Copied<3, int, 2>>>;

/// What has no third parameter where none is wanted is given one: it lies in a register that nobody looks at.
using Names = Table<Simple<"open", int(const char*, int, mode_t), Text<0>>,              //
                    Simple<"open64", int(const char*, int, mode_t), Text<0>>,            //
                    Simple<"openat", int(int, const char*, int, mode_t), Text<1>>,       //
                    Simple<"openat64", int(int, const char*, int, mode_t), Text<1>>,     //
                    Simple<"fopen", FILE*(const char*, const char*), Text<0>>,           //
                    Simple<"fopen64", FILE*(const char*, const char*), Text<0>>,         //
                    Simple<"access", int(const char*, int), Text<0>>,                    //
                    Simple<"faccessat", int(int, const char*, int, int), Text<1>>,       //
                    Simple<"unlink", int(const char*), Text<0>>,                         //
                    Simple<"unlinkat", int(int, const char*, int), Text<1>>,             //
                    Simple<"mkdir", int(const char*, mode_t), Text<0>>,                  //
                    Simple<"rmdir", int(const char*), Text<0>>,                          //
                    Simple<"remove", int(const char*), Text<0>>,                         //
                    Simple<"chdir", int(const char*), Text<0>>,                          //
                    Simple<"opendir", DIR*(const char*), Text<0>>,                       //
                    Simple<"truncate", int(const char*, off_t), Text<0>>,                //
                    Simple<"truncate64", int(const char*, off_t), Text<0>>,              //
                    Simple<"chmod", int(const char*, mode_t), Text<0>>,                  //
                    Simple<"link", int(const char*, const char*), Text<0>, Text<1>>,     //
                    Simple<"symlink", int(const char*, const char*), Text<0>, Text<1>>,  //
                    Simple<"shm_open", int(const char*, int, mode_t), Text<0>>,          //
                    Simple<"rename", int(const char*, const char*), Text<0>, Text<1>>,   //
                    Simple<"readlink", ssize_t(const char*, char*, size_t), Text<0>, Writes<1, Arg<2>>>,
                    Simple<"readlinkat", ssize_t(int, const char*, char*, size_t), Text<1>, Writes<2, Arg<3>>>,
                    Simple<"getcwd", char*(char*, size_t), Writes<0, Arg<1>>>,
                    Simple<"stat", int(const char*, struct stat*), Text<0>, Copied<1, struct stat>>,
                    Simple<"stat64", int(const char*, struct stat*), Text<0>, Copied<1, struct stat>>,
                    Simple<"lstat", int(const char*, struct stat*), Text<0>, Copied<1, struct stat>>,
                    Simple<"lstat64", int(const char*, struct stat*), Text<0>, Copied<1, struct stat>>,
                    Simple<"fstat", int(int, struct stat*), Copied<1, struct stat>>,
                    Simple<"fstat64", int(int, struct stat*), Copied<1, struct stat>>,
                    Simple<"fstatat", int(int, const char*, struct stat*, int), Text<1>, Copied<2, struct stat>>,
                    Simple<"fstatat64", int(int, const char*, struct stat*, int), Text<1>, Copied<2, struct stat>>,
                    Simple<"__xstat", int(int, const char*, struct stat*), Text<1>, Copied<2, struct stat>>,
                    Simple<"__xstat64", int(int, const char*, struct stat*), Text<1>, Copied<2, struct stat>>,
                    Simple<"__lxstat", int(int, const char*, struct stat*), Text<1>, Copied<2, struct stat>>,
                    Simple<"__lxstat64", int(int, const char*, struct stat*), Text<1>, Copied<2, struct stat>>,
                    Simple<"__fxstat", int(int, int, struct stat*), Copied<2, struct stat>>,
                    Simple<"__fxstat64", int(int, int, struct stat*), Copied<2, struct stat>>,
                    Simple<"statx", int(int, const char*, int, unsigned, struct statx*), Text<1>, Copied<4, struct statx>>>;

using Waits = Table<
    Simple<"poll", int(pollfd*, nfds_t, int), Writes<0, Items<1, pollfd>>>,
    Simple<"__poll_chk", int(pollfd*, nfds_t, int, size_t), Writes<0, Items<1, pollfd>>>,
    WithMask<Simple<"ppoll", int(pollfd*, nfds_t, const timespec*, const sigset_t*), Writes<0, Items<1, pollfd>>,
                    Reads<2, Bytes<sizeof(timespec)>>>,
             3>,
    WithMask<Simple<"__ppoll_chk", int(pollfd*, nfds_t, const timespec*, const sigset_t*, size_t), Writes<0, Items<1, pollfd>>,
                    Reads<2, Bytes<sizeof(timespec)>>>,
             3>,
    Simple<"select", int(int, fd_set*, fd_set*, fd_set*, timeval*), Set<1>, Set<2>, Set<3>, Copied<4, timeval>>,
    WithMask<Simple<"pselect", int(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*), Set<1>, Set<2>, Set<3>,
                    Reads<4, Bytes<sizeof(timespec)>>>,
             5>,
    Simple<"epoll_ctl", int(int, int, int, epoll_event*), Reads<3, Bytes<sizeof(epoll_event)>>>,
    Simple<"epoll_wait", int(int, epoll_event*, int, int), Writes<1, Items<2, epoll_event>>>,
    WithMask<Simple<"epoll_pwait", int(int, epoll_event*, int, int, const sigset_t*), Writes<1, Items<2, epoll_event>>>, 4>,
    WithMask<Simple<"epoll_pwait2", int(int, epoll_event*, int, const timespec*, const sigset_t*),
                    Writes<1, Items<2, epoll_event>>, Reads<3, Bytes<sizeof(timespec)>>>,
             4>,
    WithMask<Simple<"sigsuspend", int(const sigset_t*)>, 0>,
    WithMask<Simple<"pthread_attr_setsigmask_np", int(pthread_attr_t*, const sigset_t*)>, 1>>;

/// What tells of the machine and of processes, and small things that go to and fro.
using Answers =
    Table<Simple<"pipe", int(int*), Copied<0, int, 2>>, Simple<"pipe2", int(int*, int), Copied<0, int, 2>>,
          Simple<"wait", pid_t(int*), Copied<0, int>>, Simple<"waitpid", pid_t(pid_t, int*, int), Copied<1, int>>,
          Simple<"wait3", pid_t(int*, int, rusage*), Copied<0, int>, Copied<2, rusage>>,
          Simple<"wait4", pid_t(pid_t, int*, int, rusage*), Copied<1, int>, Copied<3, rusage>>,
          Simple<"waitid", int(idtype_t, id_t, siginfo_t*, int), Copied<2, siginfo_t>>,
          Simple<"sigpending", int(sigset_t*), Copied<0, sigset_t>>,
          Simple<"sigwait", int(const sigset_t*, int*), Given<0, sigset_t>>,
          Simple<"sigwaitinfo", int(const sigset_t*, siginfo_t*), Given<0, sigset_t>, Copied<1, siginfo_t>>,
          Simple<"sigtimedwait", int(const sigset_t*, siginfo_t*, const timespec*), Given<0, sigset_t>, Copied<1, siginfo_t>,
                 Given<2, timespec>>,
          Simple<"uname", int(utsname*), Copied<0, utsname>>,
          Simple<"sysinfo", int(struct sysinfo*), Copied<0, struct sysinfo>>, Simple<"times", clock_t(tms*), Copied<0, tms>>,
          Simple<"getrusage", int(int, rusage*), Copied<1, rusage>>, Simple<"getrlimit", int(int, rlimit*), Copied<1, rlimit>>,
          Simple<"getrlimit64", int(int, rlimit*), Copied<1, rlimit>>,
          Simple<"setrlimit", int(int, const rlimit*), Given<1, rlimit>>,
          Simple<"setrlimit64", int(int, const rlimit*), Given<1, rlimit>>,
          Simple<"prlimit", int(pid_t, int, const rlimit*, rlimit*), Given<2, rlimit>, Copied<3, rlimit>>,
          Simple<"prlimit64", int(pid_t, int, const rlimit*, rlimit*), Given<2, rlimit>, Copied<3, rlimit>>,
          Simple<"statfs", int(const char*, struct statfs*), Text<0>, Copied<1, struct statfs>>,
          Simple<"statfs64", int(const char*, struct statfs*), Text<0>, Copied<1, struct statfs>>,
          Simple<"fstatfs", int(int, struct statfs*), Copied<1, struct statfs>>,
          Simple<"fstatfs64", int(int, struct statfs*), Copied<1, struct statfs>>,
          Simple<"sched_getaffinity", int(pid_t, size_t, cpu_set_t*), Writes<2, Arg<1>>>,
          Simple<"sched_setaffinity", int(pid_t, size_t, const cpu_set_t*), Reads<2, Arg<1>>>,
          Simple<"getgroups", int(int, gid_t*), Writes<1, Items<0, gid_t>>>,
          Simple<"clock_gettime", int(clockid_t, timespec*), Copied<1, timespec>>,
          Simple<"clock_getres", int(clockid_t, timespec*), Copied<1, timespec>>,
          Simple<"nanosleep", int(const timespec*, timespec*), Given<0, timespec>, Copied<1, timespec>>,
          Simple<"clock_nanosleep", int(clockid_t, int, const timespec*, timespec*), Given<2, timespec>, Copied<3, timespec>>,
          Simple<"getitimer", int(int, itimerval*), Copied<1, itimerval>>,
          Simple<"setitimer", int(int, const itimerval*, itimerval*), Given<1, itimerval>, Copied<2, itimerval>>,
          Simple<"timerfd_gettime", int(int, itimerspec*), Copied<1, itimerspec>>,
          Simple<"timerfd_settime", int(int, int, const itimerspec*, itimerspec*), Given<2, itimerspec>, Copied<3, itimerspec>>,
          Simple<"eventfd_read", int(int, uint64_t*), Copied<1, uint64_t>>,
          Simple<"fcntl", int(int, int, void*), FileLock<1, 2>>, Simple<"fcntl64", int(int, int, void*), FileLock<1, 2>>,
          Simple<"ioctl", int(int, unsigned long, void*), Writes<2, RequestBytes<1>>>,
          StreamBuffer<"setvbuf", int(FILE*, char*, int, size_t)>, StreamBuffer<"setbuffer", void(FILE*, char*, size_t)>,
          StreamBuffer<"setbuf", void(FILE*, char*)>>;

/// What becomes another program, or starts one: it reads its parameters itself, some of them while no signal comes through.
using Programs = Table<
    Simple<"execve", int(const char*, char* const*, char* const*), OwnText<0>, OwnTexts<1>, OwnTexts<2>>,
    Simple<"execv", int(const char*, char* const*), OwnText<0>, OwnTexts<1>>,
    Simple<"execvp", int(const char*, char* const*), OwnText<0>, OwnTexts<1>>,
    Simple<"execvpe", int(const char*, char* const*, char* const*), OwnText<0>, OwnTexts<1>, OwnTexts<2>>,
    Simple<"fexecve", int(int, char* const*, char* const*), OwnTexts<1>, OwnTexts<2>>,
    Simple<"posix_spawn",
           int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const*, char* const*),
           Copied<0, pid_t>, OwnText<1>, Given<2, posix_spawn_file_actions_t>, Given<3, posix_spawnattr_t>, OwnTexts<4>,
           OwnTexts<5>>,
    Simple<"posix_spawnp",
           int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const*, char* const*),
           Copied<0, pid_t>, OwnText<1>, Given<2, posix_spawn_file_actions_t>, Given<3, posix_spawnattr_t>, OwnTexts<4>,
           OwnTexts<5>>,
    Simple<"system", int(const char*), OwnText<0>>, Simple<"popen", FILE*(const char*, const char*), OwnText<0>>>;

/// The first one is the C library's, whatever else is in the process.
const std::vector<Import>& imports() {
    static const std::vector<Import> all = [] {
        std::vector<Import> made;
        Files::add_to(made);
        Sockets::add_to(made);
        Names::add_to(made);
        Waits::add_to(made);
        Answers::add_to(made);
        Programs::add_to(made);
        signal_calls::add_to(made);
        lock_calls::add_to(made);
        library_loads::add_to(made, attend);
        return made;
    }();
    return all;
}

}  // namespace

void attend() {
    const library_loads::Others others;
    if (redirect(imports(), [&others] { return !others.have_loaded(); })) earlier_masks::look();
    earlier_masks::settle();
}

}  // namespace warpline::client::system_calls

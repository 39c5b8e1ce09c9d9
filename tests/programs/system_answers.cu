// Small things that the kernel of the machine reads or writes for the C library's functions, in memory that the device has
// (A7). Each call comes right behind a kernel, in a page that the program has not touched since.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "check.h"

__global__ void touch(char* data, int size) {
    for (int i = threadIdx.x; i < size; i += blockDim.x) data[i] = 0;
}

constexpr int k_page = 4096, k_pages = 512;

// Memory of both sides, of which each use gets a page far from the one before, so that nothing brings it along.
class Pages {
public:
    explicit Pages(const std::string& what) {
        if (what == "managed")
            CHECK(cudaMallocManaged(&m_memory, k_page * k_pages));
        else
            CHECK(cudaHostAlloc(&m_memory, k_page * k_pages, cudaHostAllocMapped));
        m_is_managed = what == "managed";
    }
    ~Pages() { CHECK(m_is_managed ? cudaFree(m_memory) : cudaFreeHost(m_memory)); }
    template <typename T>
    T* take() {
        m_at = (m_at + 73) % k_pages;
        give(k_page * k_pages);
        return reinterpret_cast<T*>(m_memory + m_at * k_page + 64);
    }
    /// What is written there first, and is the device's again when it is used.
    template <typename T>
    T* take(const T& value) {
        T* place = take<T>();
        *place = value;
        give(1);
        return place;
    }
    const char* text(const char* value) {
        char* place = take<char>();
        strcpy(place, value);
        give(1);
        return place;
    }
    /// The device has all of it, and clears so much.
    void give(int clear_bytes) {
        touch<<<1, 256>>>(m_memory, clear_bytes);
        CHECK(cudaDeviceSynchronize());
    }

private:
    char* m_memory = nullptr;
    int m_at = 0;
    bool m_is_managed = false;
};

static void of_descriptors(Pages& pages) {
    int* ends = pages.take<int>();
    EXPECT_EQ(pipe(ends), 0);
    const int from = ends[0], to = ends[1];
    EXPECT_EQ(write(to, "abc", 3), 3);
    int* waiting = pages.take<int>();
    EXPECT_EQ(ioctl(from, FIONREAD, waiting), 0);
    EXPECT_EQ(*waiting, 3);
    close(from), close(to);
    ends = pages.take<int>();
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    EXPECT_EQ(fcntl(ends[0], F_GETFD), FD_CLOEXEC);
    close(ends[0]), close(ends[1]);
    ends = pages.take<int>();
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[0]), close(ends[1]);

    const int event = eventfd(3, 0);
    auto* value = pages.take<eventfd_t>();
    EXPECT_EQ(eventfd_read(event, value), 0);
    EXPECT_EQ(*value, 3u);
    close(event);
    const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    auto* before = pages.take<itimerspec>();
    EXPECT_EQ(timerfd_settime(timer, 0, pages.take(itimerspec{{}, {1000, 0}}), before), 0);
    auto* left = pages.take<itimerspec>();
    EXPECT_EQ(timerfd_gettime(timer, left), 0);
    EXPECT(left->it_value.tv_sec > 900);
    close(timer);

    char name[] = "/tmp/system_answers_XXXXXX";
    const int file = mkstemp(name);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    EXPECT_EQ(fcntl(file, F_SETLK, pages.take(lock)), 0);
    auto* found = pages.take(lock);
    EXPECT_EQ(fcntl(file, F_GETLK, found), 0);
    EXPECT_EQ(static_cast<int>(found->l_type), F_UNLCK);
    // A buffer that the C library writes from, and reads into, when it likes.
    FILE* stream = fdopen(file, "w+");
    EXPECT_EQ(setvbuf(stream, pages.take<char>(), _IOFBF, 4000), 0);
    for (int i = 0; i < 2000; ++i) fprintf(stream, "%d\n", i);
    pages.give(1);
    EXPECT_EQ(fseek(stream, 0, SEEK_SET), 0);
    pages.give(1);
    int count = 0;
    for (int i = 0; fscanf(stream, "%d", &i) == 1; ++count) EXPECT_EQ(i, count);
    EXPECT_EQ(count, 2000);
    fclose(stream);
    EXPECT_EQ(chmod(pages.text(name), 0600), 0);
    EXPECT_EQ(truncate(pages.text(name), 0), 0);
    EXPECT_EQ(remove(pages.text(name)), 0);
}

static void of_processes(Pages& pages) {
    const auto end_with = [](int code) {
        const pid_t child = fork();
        if (child == 0) _exit(code);
        return child;
    };
    pid_t child = end_with(7);
    int* status = pages.take<int>();
    EXPECT_EQ(waitpid(child, status, 0), child);
    EXPECT(WIFEXITED(*status) && WEXITSTATUS(*status) == 7);
    child = end_with(8);
    status = pages.take<int>();
    auto* used = pages.take<rusage>();
    EXPECT_EQ(wait4(child, status, 0, used), child);
    EXPECT_EQ(WEXITSTATUS(*status), 8);
    EXPECT(used->ru_maxrss > 0);
    child = end_with(9);
    auto* told = pages.take<siginfo_t>();
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(child), told, WEXITED), 0);
    EXPECT_EQ(told->si_status, 9);

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    EXPECT_EQ(sigprocmask(SIG_BLOCK, &set, nullptr), 0);
    raise(SIGUSR2);
    auto* pending = pages.take<sigset_t>();
    EXPECT_EQ(sigpending(pending), 0);
    EXPECT_EQ(sigismember(pending, SIGUSR2), 1);
    told = pages.take<siginfo_t>();
    EXPECT_EQ(sigtimedwait(pages.take(set), told, pages.take(timespec{10, 0})), SIGUSR2);
    EXPECT_EQ(told->si_signo, SIGUSR2);
    raise(SIGUSR2);
    int* signal = pages.take<int>();
    EXPECT_EQ(sigwait(pages.take(set), signal), 0);
    EXPECT_EQ(*signal, SIGUSR2);
}

// Who starts a program gives it all of what it is told, while the device has that.
static void of_programs(Pages& pages) {
    struct Told {
        char path[16] = "/bin/true";
        char* arguments[2];
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        pid_t child = 0;
    };
    char name[] = "true";
    char* arguments[] = {name, nullptr};
    Told told;
    std::copy_n(arguments, 2, told.arguments);
    EXPECT_EQ(posix_spawn_file_actions_init(&told.actions), 0);
    EXPECT_EQ(posix_spawn_file_actions_addopen(&told.actions, 77, "/dev/null", O_RDONLY, 0), 0);
    EXPECT_EQ(posix_spawnattr_init(&told.attributes), 0);
    Told* there = pages.take(told);
    touch<<<1, 1>>>(there->path, 0);  // what has come back with the wait is the device's again
    EXPECT_EQ(posix_spawn(&there->child, there->path, &there->actions, &there->attributes, there->arguments, environ), 0);
    int status = -1;
    EXPECT_EQ(waitpid(there->child, &status, 0), there->child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(posix_spawn_file_actions_destroy(&told.actions), 0);
    pid_t child = 0;
    EXPECT_EQ(posix_spawnp(&child, pages.text("no such program"), nullptr, nullptr, arguments, environ), ENOENT);
    EXPECT_EQ(system(pages.text("exit 3")), 3 << 8);
    FILE* said = popen(pages.text("echo said"), "r");
    char text[8] = "";
    EXPECT(said && fgets(text, sizeof text, said) && std::string(text) == "said\n");
    EXPECT_EQ(pclose(said), 0);

    sigset_t own;
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &own), 0);
    for (int (*call)(int, const sigset_t*, sigset_t*) : {+sigprocmask, +pthread_sigmask}) {
        auto* mask = pages.take<sigset_t>();
        EXPECT_EQ(call(SIG_BLOCK, nullptr, mask), 0);
        for (int signal = 1; signal < SIGRTMAX; ++signal) EXPECT_EQ(sigismember(mask, signal), sigismember(&own, signal));
    }
}

static void of_the_machine(Pages& pages) {
    auto* name = pages.take<utsname>();
    EXPECT_EQ(uname(name), 0);
    EXPECT(std::string(name->sysname) == "Linux");
    auto* memory = pages.take<struct sysinfo>();
    EXPECT_EQ(sysinfo(memory), 0);
    EXPECT(memory->totalram > 0);
    auto* used = pages.take<rusage>();
    EXPECT_EQ(getrusage(RUSAGE_SELF, used), 0);
    EXPECT(used->ru_maxrss > 0);
    auto* limit = pages.take<rlimit>();
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, limit), 0);
    EXPECT(limit->rlim_cur > 0);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, pages.take(rlimit{*limit})), 0);
    auto* room = pages.take<struct statfs>();
    EXPECT_EQ(statfs(pages.text("/"), room), 0);
    EXPECT(room->f_bsize > 0);
    auto* processors = pages.take<cpu_set_t>();
    EXPECT_EQ(sched_getaffinity(0, sizeof *processors, processors), 0);
    EXPECT(CPU_COUNT(processors) > 0);
    EXPECT_EQ(chdir(pages.text("/")), 0);

    EXPECT(times(pages.take<tms>()) != -1);
    auto* time = pages.take<timespec>();
    EXPECT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, time), 0);
    EXPECT(time->tv_sec > 0 || time->tv_nsec > 0);
    time = pages.take<timespec>();
    EXPECT_EQ(clock_gettime(CLOCK_MONOTONIC, time), 0);
    EXPECT(time->tv_sec > 0 || time->tv_nsec > 0);
    EXPECT_EQ(nanosleep(pages.take(timespec{0, 1000}), nullptr), 0);
    EXPECT_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, pages.take(timespec{0, 1000}), nullptr), 0);
    auto* timer = pages.take<itimerval>();
    EXPECT_EQ(setitimer(ITIMER_PROF, pages.take(itimerval{{}, {1000, 0}}), nullptr), 0);
    EXPECT_EQ(getitimer(ITIMER_PROF, timer), 0);
    EXPECT(timer->it_value.tv_sec > 900);
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "managed";
    Pages pages(what);
    of_descriptors(pages);
    of_processes(pages);
    of_programs(pages);
    of_the_machine(pages);
    return passed(what.c_str());
}

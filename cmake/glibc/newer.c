// What glibc has had since 2.28 only and our code, or the libraries that become part of it, call: here, so that what is shipped runs with
// older ones (make_stubs.py). Each is hidden, and does what glibc's documentation says of it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

// 2.33: until then inline functions called others. The kernel's structure is glibc's on x86-64.
HIDDEN int fstatat(int folder, const char* restrict path, struct stat* restrict status, int flags) {
    return (int)syscall(SYS_newfstatat, folder, path, status, flags);
}
HIDDEN int stat(const char* restrict path, struct stat* restrict status) { return fstatat(AT_FDCWD, path, status, 0); }
HIDDEN int lstat(const char* restrict path, struct stat* restrict status) { return fstatat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW); }
HIDDEN int fstat(int file, struct stat* status) { return (int)syscall(SYS_fstat, file, status); }
HIDDEN int stat64(const char* restrict path, struct stat64* restrict status) { return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, 0); }
HIDDEN int fstat64(int file, struct stat64* status) { return (int)syscall(SYS_fstat, file, status); }

// 2.30
HIDDEN pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

// 2.36: std::random_device.
HIDDEN uint32_t arc4random(void) {
    uint32_t value;
    while (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value) {
        if (errno != EINTR) abort();
    }
    return value;
}

// 2.32: whether the C++ run time may count references without atomics. Never.
HIDDEN char __libc_single_threaded = 0;

// 2.30: waits by a clock that nobody sets. glibc's own where it has one; else by the clock of the day, looked at again each second, so
// that setting it does not make a wait longer than that.
typedef int clockwait_function(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);

static int64_t nanoseconds(const struct timespec* time) { return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec; }

static int64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return nanoseconds(&time);
}

HIDDEN int pthread_cond_clockwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex, clockid_t clock,
                                  const struct timespec* restrict deadline) {
    static _Atomic(clockwait_function*) glibcs;
    static _Atomic int looked;
    if (!looked) {
        glibcs = (clockwait_function*)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
        looked = 1;
    }
    clockwait_function* function = glibcs;
    if (function != NULL) return function(condition, mutex, clock, deadline);
    for (;;) {
        int64_t left = nanoseconds(deadline) - now(clock);
        if (left <= 0) return ETIMEDOUT;
        if (left > 1000000000) left = 1000000000;
        const int64_t until = now(CLOCK_REALTIME) + left;
        const struct timespec time = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
        const int result = pthread_cond_timedwait(condition, mutex, &time);
        if (result != ETIMEDOUT) return result;
    }
}

// 2.35: where an exception finds the tables of the code that it passes.
struct search {
    uintptr_t address;
    struct dl_find_object* found;
};

static int look_in(struct dl_phdr_info* object, size_t size, void* argument) {
    (void)size;
    const struct search* search = argument;
    uintptr_t start = UINTPTR_MAX, end = 0, tables = 0;
    int has = 0;
    for (int at = 0; at < object->dlpi_phnum; ++at) {
        const ElfW(Phdr)* part = &object->dlpi_phdr[at];
        const uintptr_t from = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_GNU_EH_FRAME) tables = from;
        if (part->p_type != PT_LOAD) continue;
        if (from < start) start = from;
        if (from + part->p_memsz > end) end = from + part->p_memsz;
        if (search->address >= from && search->address < from + part->p_memsz) has = 1;
    }
    if (!has || tables == 0) return 0;
    memset(search->found, 0, sizeof *search->found);
    search->found->dlfo_map_start = (void*)start;
    search->found->dlfo_map_end = (void*)end;
    search->found->dlfo_eh_frame = (void*)tables;
    return 1;
}

HIDDEN int _dl_find_object(void* address, struct dl_find_object* found) {
    struct search search = {(uintptr_t)address, found};
    return dl_iterate_phdr(look_in, &search) == 1 ? 0 : -1;
}

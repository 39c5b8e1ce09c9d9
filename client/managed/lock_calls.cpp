// Mutexes, condition variables, semaphores, locks of readers and writers, and barriers, as the program calls them.
#include "client/managed/lock_calls.h"

#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "client/managed/call_rows.h"
#include "client/managed/noted_locks.h"
#include "client/managed/parking.h"

namespace warpline::client::lock_calls {

namespace {

using parking::Deadline;
using parking::Visit;
using shared_buffers::may_be_shared;
using system_calls::Row;
using system_calls::Table;

/// Tries until it is not in vain. @param try_it  @returns EBUSY where it is @returns what it says, or ETIMEDOUT, EINVAL
template <typename Try>
int acquire(const void* lock, const Deadline* until, Try try_it) {
    int result = try_it();
    if (result != EBUSY) return result;
    if (until && !until->is_time()) return EINVAL;
    Visit visit(lock);
    for (;;) {
        const uint32_t seen = parking::seen(lock);
        result = try_it();
        if (result != EBUSY) return result;
        if (visit.sleep(seen, until) == ETIMEDOUT) return ETIMEDOUT;
    }
}

bool is_known(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC; }

// What waits for a lock: without end, until a time, or until a time by a clock that is named. Locks that are not ours are the C
// library's alone.
template <typename Lock>
using IsOurs = bool(const Lock*);
/// @param until  null: without end
template <typename Lock>
using Acquire = int(Lock*, const Deadline* until);

template <ImportName Name, typename Lock, IsOurs<Lock>* Ours, Acquire<Lock>* Act>
struct Endless : Row<Name, int(Lock*)> {
    static int ours(Lock* lock) { return Ours(lock) ? Act(lock, nullptr) : Endless::real(lock); }
};
template <ImportName Name, typename Lock, IsOurs<Lock>* Ours, Acquire<Lock>* Act>
struct Timed : Row<Name, int(Lock*, const timespec*)> {
    static int ours(Lock* lock, const timespec* time) {
        if (!Ours(lock)) return Timed::real(lock, time);
        const Deadline until{CLOCK_REALTIME, *time};
        return Act(lock, &until);
    }
};
template <ImportName Name, typename Lock, IsOurs<Lock>* Ours, Acquire<Lock>* Act>
struct Clocked : Row<Name, int(Lock*, clockid_t, const timespec*)> {
    static int ours(Lock* lock, clockid_t clock, const timespec* time) {
        if (!Ours(lock) || !is_known(clock)) return Clocked::real(lock, clock, time);
        const Deadline until{clock, *time};
        return Act(lock, &until);
    }
};

/// What lets go of one: who waits for it looks again. The lock may be gone by then, its address is not.
template <ImportName Name, typename Lock>
struct Release : Row<Name, int(Lock*)> {
    static int ours(Lock* lock) {
        const int result = Release::real(lock);
        if (may_be_shared(lock)) parking::wake(lock);
        return result;
    }
};

// Mutexes

/// True of mutexes whose waiting and letting go is all that there is to them.
bool is_plain(const pthread_mutex_t* mutex) {
    constexpr int k_special = 0xf0;  // robust, with a priority, of processes: the C library's bits beside the type
    return may_be_shared(mutex) && (mutex->__data.__kind & k_special) == 0;
}

int lock_plain(pthread_mutex_t* mutex, const Deadline* until) {
    constexpr int k_type = 3;
    const bool checks = (mutex->__data.__kind & k_type) == PTHREAD_MUTEX_ERRORCHECK;
    return acquire(mutex, until, [&] {
        const int result = ::pthread_mutex_trylock(mutex);
        return result == EBUSY && checks && mutex->__data.__owner == ::gettid() ? EDEADLK : result;
    });
}

using Lock = Endless<"pthread_mutex_lock", pthread_mutex_t, is_plain, lock_plain>;
using Unlock = Release<"pthread_mutex_unlock", pthread_mutex_t>;
using Mutexes = Table<Lock, Unlock, Timed<"pthread_mutex_timedlock", pthread_mutex_t, is_plain, lock_plain>,
                      Clocked<"pthread_mutex_clocklock", pthread_mutex_t, is_plain, lock_plain>>;

// Condition variables

/// True of conditions whose waiting threads sleep elsewhere: the C library lets go of the mutex by itself otherwise.
bool is_ours(const pthread_cond_t* condition, const pthread_mutex_t* mutex) {
    return (may_be_shared(condition) || may_be_shared(mutex)) && !noted_locks::of(condition).is_of_processes;
}

int wait_until(pthread_cond_t* condition, pthread_mutex_t* mutex, const Deadline* until) {
    if (until && !until->is_time()) return EINVAL;
    const uint32_t seen = parking::seen(condition);
    ::pthread_testcancel();
    int result = 0, slept = 0;
    {
        Visit visit(condition);
        result = Unlock::ours(mutex);
        if (result != 0) return result;
        slept = visit.sleep(seen, until);
        result = Lock::ours(mutex);
    }
    ::pthread_testcancel();
    return result == 0 && slept == ETIMEDOUT ? ETIMEDOUT : result;
}

using Wait = Row<"pthread_cond_wait", int(pthread_cond_t*, pthread_mutex_t*)>;
int our_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
    return is_ours(condition, mutex) ? wait_until(condition, mutex, nullptr) : Wait::real(condition, mutex);
}

using TimedWait = Row<"pthread_cond_timedwait", int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>;
int our_timed_wait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* time) {
    if (!is_ours(condition, mutex)) return TimedWait::real(condition, mutex, time);
    const Deadline until{noted_locks::of(condition).clock, *time};
    return wait_until(condition, mutex, &until);
}

using ClockWait = Row<"pthread_cond_clockwait", int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>;
int our_clock_wait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* time) {
    if (!is_ours(condition, mutex) || !is_known(clock)) return ClockWait::real(condition, mutex, clock, time);
    const Deadline until{clock, *time};
    return wait_until(condition, mutex, &until);
}

/// Who waits looks at what it waits for in any case, so all are woken.
template <ImportName Name>
struct Signal : Row<Name, int(pthread_cond_t*)> {
    static int ours(pthread_cond_t* condition) {
        // In memory of the program's own: with a mutex of both sides.
        parking::wake(condition);
        return may_be_shared(condition) && !noted_locks::of(condition).is_of_processes ? 0 : Signal::real(condition);
    }
};

/// What was noted is forgotten.
template <ImportName Name, typename Type>
struct Destroy : Row<Name, int(Type*)> {
    static int ours(Type* lock) {
        noted_locks::note(lock, {});
        return Destroy::real(lock);
    }
};

using InitCondition = Row<"pthread_cond_init", int(pthread_cond_t*, const pthread_condattr_t*)>;
int our_init_condition(pthread_cond_t* condition, const pthread_condattr_t* attributes) {
    noted_locks::Noted noted;
    if (attributes) {
        int processes = PTHREAD_PROCESS_PRIVATE;
        (void)::pthread_condattr_getclock(attributes, &noted.clock);
        (void)::pthread_condattr_getpshared(attributes, &processes);
        noted.is_of_processes = processes == PTHREAD_PROCESS_SHARED;
    }
    noted_locks::note(condition, noted);
    return InitCondition::real(condition, attributes);
}

// Semaphores

/// @returns 0 when it has one; EAGAIN to look again
int wait_once(sem_t* semaphore, uint32_t seen, const Deadline* until) {
    Visit visit(semaphore);
    if (::sem_trywait(semaphore) == 0) return 0;
    if (until && !until->is_time()) return EINVAL;
    const int slept = visit.sleep(seen, until);
    return slept == 0 ? EAGAIN : slept;
}

int wait_for(sem_t* semaphore, const Deadline* until) {
    const int error = errno;
    int said = EAGAIN;
    while (said == EAGAIN) {
        const uint32_t seen = parking::seen(semaphore);
        ::pthread_testcancel();
        said = wait_once(semaphore, seen, until);
    }
    errno = said == 0 ? error : said;
    return said == 0 ? 0 : -1;
}

bool is_ours(const sem_t* semaphore) { return may_be_shared(semaphore) && !noted_locks::of(semaphore).is_of_processes; }

using Semaphores = Table<Endless<"sem_wait", sem_t, is_ours, wait_for>, Timed<"sem_timedwait", sem_t, is_ours, wait_for>,
                         Clocked<"sem_clockwait", sem_t, is_ours, wait_for>, Release<"sem_post", sem_t>>;

using InitSemaphore = Row<"sem_init", int(sem_t*, int, unsigned)>;
int our_init_semaphore(sem_t* semaphore, int is_of_processes, unsigned value) {
    noted_locks::note(semaphore, {.is_of_processes = is_of_processes != 0});
    return InitSemaphore::real(semaphore, is_of_processes, value);
}

// Locks of readers and writers

bool is_ours(const pthread_rwlock_t* lock) { return may_be_shared(lock) && lock->__data.__shared == PTHREAD_PROCESS_PRIVATE; }

template <int (*Try)(pthread_rwlock_t*)>
int lock_by(pthread_rwlock_t* lock, const Deadline* until) {
    return acquire(lock, until, [&] {
        const int result = Try(lock);
        return result == EBUSY && lock->__data.__cur_writer == ::gettid() ? EDEADLK : result;
    });
}
constexpr Acquire<pthread_rwlock_t>*k_read = lock_by<::pthread_rwlock_tryrdlock>,
          *k_write = lock_by<::pthread_rwlock_trywrlock>;

using BothLocks = Table<Endless<"pthread_rwlock_rdlock", pthread_rwlock_t, is_ours, k_read>,
                        Endless<"pthread_rwlock_wrlock", pthread_rwlock_t, is_ours, k_write>,
                        Timed<"pthread_rwlock_timedrdlock", pthread_rwlock_t, is_ours, k_read>,
                        Timed<"pthread_rwlock_timedwrlock", pthread_rwlock_t, is_ours, k_write>,
                        Clocked<"pthread_rwlock_clockrdlock", pthread_rwlock_t, is_ours, k_read>,
                        Clocked<"pthread_rwlock_clockwrlock", pthread_rwlock_t, is_ours, k_write>,
                        Release<"pthread_rwlock_unlock", pthread_rwlock_t>>;

// Barriers

using InitBarrier = Row<"pthread_barrier_init", int(pthread_barrier_t*, const pthread_barrierattr_t*, unsigned)>;
int our_init_barrier(pthread_barrier_t* barrier, const pthread_barrierattr_t* attributes, unsigned count) {
    int processes = PTHREAD_PROCESS_PRIVATE;
    if (attributes) (void)::pthread_barrierattr_getpshared(attributes, &processes);
    noted_locks::note(barrier, {.is_of_processes = processes == PTHREAD_PROCESS_SHARED, .count = count});
    return InitBarrier::real(barrier, attributes, count);
}

using Arrive = Row<"pthread_barrier_wait", int(pthread_barrier_t*)>;
int our_arrive(pthread_barrier_t* barrier) {
    if (!may_be_shared(barrier)) return Arrive::real(barrier);
    Visit visit(barrier);
    const std::optional<noted_locks::Arrival> arrival = noted_locks::arrive(barrier);
    if (!arrival) return Arrive::real(barrier);
    if (arrival->is_last) {
        parking::wake(barrier);
        return PTHREAD_BARRIER_SERIAL_THREAD;
    }
    for (;;) {
        const uint32_t seen = parking::seen(barrier);
        if (noted_locks::have_all_arrived(barrier, *arrival)) return 0;
        (void)visit.sleep(seen, nullptr);
    }
}

// Threads that are cancelled

/// Who waits for a condition or a semaphore goes, where nothing of ours is on the stack that the C library would have to take
/// away: it cannot.
using Cancel = Row<"pthread_cancel", int(pthread_t)>;
int our_cancel(pthread_t thread) {
    const int result = Cancel::real(thread);
    parking::wake_all();
    return result;
}

// What waits by a system call of its own (std::atomic::wait)

/// When the wait for a futex ends at the latest, as the kernel understands it.
std::optional<Deadline> deadline_of(long operation, const timespec* time) {
    if (!time) return std::nullopt;
    Deadline until{(operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC, *time};
    if ((operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) return until;
    constexpr long k_second_ns = 1'000'000'000;
    timespec now{};
    ::clock_gettime(until.clock, &now);
    until.time = {now.tv_sec + time->tv_sec, now.tv_nsec + time->tv_nsec};
    if (until.time.tv_nsec >= k_second_ns) until.time = {until.time.tv_sec + 1, until.time.tv_nsec - k_second_ns};
    return until;
}

/// @returns as futex() does, but for the sign
int wait_while(const uint32_t* word, uint32_t value, const std::optional<Deadline>& until) {
    if (until && !until->is_time()) return EINVAL;
    Visit visit(word);
    const uint32_t seen = parking::seen(word);
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) return EAGAIN;
    return visit.sleep(seen, until ? &*until : nullptr);
}

/// What has fewer parameters is given more: they lie in registers and on the stack, where nobody looks at them.
using SystemCall = Row<"syscall", long(long, long, long, long, long, long, long)>;
long our_system_call(long number, long a, long b, long c, long d, long e, long f) {
    const auto* word = reinterpret_cast<const uint32_t*>(a);
    if (number != SYS_futex || !may_be_shared(word)) return SystemCall::real(number, a, b, c, d, e, f);
    switch (b & FUTEX_CMD_MASK) {
        case FUTEX_WAIT:
        case FUTEX_WAIT_BITSET: {
            const int said = wait_while(word, static_cast<uint32_t>(c), deadline_of(b, reinterpret_cast<const timespec*>(d)));
            if (said != 0) errno = said;
            return said == 0 ? 0 : -1;
        }
        case FUTEX_WAKE:
        case FUTEX_WAKE_BITSET: return parking::wake(word) ? 1 : 0;
        default: return SystemCall::real(number, a, b, c, d, e, f);
    }
}

}  // namespace

void add_to(std::vector<Import>& imports) {
    Mutexes::add_to(imports);
    Semaphores::add_to(imports);
    BothLocks::add_to(imports);
    Table<Signal<"pthread_cond_signal">, Signal<"pthread_cond_broadcast">, Destroy<"pthread_cond_destroy", pthread_cond_t>,
          Destroy<"sem_destroy", sem_t>, Destroy<"pthread_barrier_destroy", pthread_barrier_t>>::add_to(imports);
    for (const Import& one : {Wait::import(our_wait), TimedWait::import(our_timed_wait), ClockWait::import(our_clock_wait),
                              InitCondition::import(our_init_condition), InitSemaphore::import(our_init_semaphore),
                              InitBarrier::import(our_init_barrier), Arrive::import(our_arrive), Cancel::import(our_cancel),
                              SystemCall::import(our_system_call)})
        imports.push_back(one);
}

}  // namespace warpline::client::lock_calls

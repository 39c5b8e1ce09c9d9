// Accesses of the program to pages that are not valid here: found by a signal handler, answered by a thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace warpline::client {

/// What a thread waits for.
enum class Wish : uint8_t {
    access,           ///< the page that it has come to
    bring,            ///< an access to all of a range that is yet to come
    recall,           ///< no access: what the program will probably use again
    recall_in_turns,  ///< of that, what is not the program's at any time
    mirrored,         ///< no access: what the device has written to registered memory, while it goes on
};

/// One access, on the stack of the thread that waits for its end.
struct PageFault {
    uint64_t address = 0;
    uint64_t size_bytes = 1;
    bool writes = false;
    Wish wish = Wish::access;
    pid_t thread = 0;
    PageFault* next = nullptr;
    std::atomic<uint32_t> answer{0};
};

/// What becomes of an access.
enum class FaultAnswer : uint32_t {
    pending,
    again,  ///< the page is there: the instruction is executed again
    fails,  ///< it is no memory of ours, or cannot be had: what the program has installed for SIGSEGV decides
};

/// The handler of SIGSEGV, and what it hands over. It takes no lock, allocates nothing, and needs less than a page of stack; a
/// thread with an alternate stack has it run there. What is none of ours goes to the program's
/// (program_handler.h).
namespace faults {

/// Addresses for which the handler asks. Never taken back.
void watch(uint64_t base, uint64_t size_bytes);
/// Between the first and the last of them, where the program's own memory seldom is.
struct Bounds {
    std::atomic<uint64_t> begin{UINT64_MAX}, end{0};
};
extern constinit Bounds g_bounds;
bool is_among_watched(uint64_t address);
/// Never after forget(). Asked of every lock that the program takes.
inline bool is_watched(uint64_t address) {
    return address >= g_bounds.begin.load(std::memory_order_acquire) &&
           address < g_bounds.end.load(std::memory_order_acquire) && is_among_watched(address);
}

/// True if memory of the program's is the same as other memory. False as well where it cannot be read any more: looking costs
/// no more than it does elsewhere. @thread any that has SIGSEGV open, but for handlers of signals; the handler is installed
bool is_same(const std::byte* program, const std::byte* other, uint64_t size_bytes);

/// Installs the handler, or again, if the program has installed one of its own without our knowledge: that one is asked from
/// then on. @thread any, also in signal handlers
void install();

/// In a forked child, and when the session is over for good: every access is the program's own again.
void forget();

/// How many threads answer: none of the program's.
void add_thread();
unsigned threads();

/// Asks for what the program will probably use again, or for what it has registered. @blocks until it is there
void recall(Wish wish = Wish::recall);
/// As an access of this thread to each byte would. @blocks until they are there, or cannot be had
void bring(uint64_t address, uint64_t size_bytes, bool writes);

/// Accesses that wait for an answer, the oldest last, linked by `next`; null: there are none.
PageFault* take();
/// @param answer  not pending; the fault must not be touched afterwards
void answer(PageFault& fault, FaultAnswer answer);

/// Sleeps until something has come since, until wake(), or for some time. @param seen  of the last call
void wait(uint32_t& seen, int milliseconds);
void wake();

}  // namespace faults

}  // namespace warpline::client

// Noting what the program does, while somebody wants to know.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "client/trace/event.h"

namespace warpline::client::trace {

extern std::atomic<bool> g_on;

/// True while a trace is written: all that a call pays for it else. Orders nothing.
inline bool is_on() { return g_on.load(std::memory_order_relaxed); }

/// Begins to write the process's trace.
///
/// @param path         `%p` stands for the process's number
/// @param limit_bytes  of the file: then the trace ends
/// @param problem      gets a sentence for the user if it cannot be written
/// @return             true if it is
bool start(const std::string& path, uint64_t limit_bytes, std::string& problem);
/// The session's own facts, for who reads the trace. @param server  how it calls itself
void describe(const std::string& server, const std::string& address);
/// Writes what is left, and the end of the file. @blocks for the file
void finish() noexcept;
/// In the child of a fork: the trace is the parent's. One can be started anew.
void forget_after_fork() noexcept;
/// How many of the process's threads are the trace's.
unsigned threads();

/// This machine's steady clock. @blocks no
inline uint64_t now_ns() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

/// Notes an event; of the calling thread, unless it says another track. Nothing while no trace is written. @blocks rarely, for
/// the file, where a thread is faster than it @thread any
void note(Event event) noexcept;

/// The calling thread sends the call with this number, for the call of the program's that it is in.
void note_number(uint64_t number) noexcept;
/// The call of the program's that the thread is in is answered by what the reply to the call with this number has told; 0: by
/// none.
void note_answer(uint64_t number) noexcept;
/// What the server says was dropped of its account, in all. @thread any
void note_dropped(uint64_t calls) noexcept;

/// A call of the program's, for as long as the object lives.
class CallScope {
public:
    /// @param name  lives as long as the process
    explicit CallScope(const char* name) noexcept {
        if (is_on()) [[unlikely]]
            begin(name);
    }
    ~CallScope() {
        if (m_begin_ns != 0) [[unlikely]]
            end();
    }
    CallScope(const CallScope&) = delete;
    CallScope& operator=(const CallScope&) = delete;

    /// What the call returns. @return the same
    template <typename R>
    R returns(R result) noexcept {
        m_result = static_cast<uint32_t>(result);
        return result;
    }

private:
    friend void note_number(uint64_t number) noexcept;
    friend void note_answer(uint64_t number) noexcept;
    void begin(const char* name) noexcept;
    void end() noexcept;

    uint64_t m_begin_ns = 0;  // 0: nobody wants to know
    const char* m_name;
    CallScope* m_around;
    uint64_t m_first;  // of what was sent; if nothing was, whose reply has answered it
    uint32_t m_count;
    uint32_t m_result = 0;
};

}  // namespace warpline::client::trace

// For threads that others depend on: the log must not keep them waiting.
#pragma once

namespace warpline::log {

/// While it lives, and the log's file takes nothing (a pipe that nobody reads), lines of the thread that made it are left out,
/// and counted in the next line that is written.
class NeverWait {
public:
    NeverWait();
    ~NeverWait();
    NeverWait(const NeverWait&) = delete;
    NeverWait& operator=(const NeverWait&) = delete;

private:
    const bool m_before;
};

}  // namespace warpline::log

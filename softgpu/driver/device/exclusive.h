// A device that one process at a time may use.
#pragma once

#include <string>

#include "common/base/mutex.h"

namespace warpline::softgpu::driver {

/// A device in CU_COMPUTEMODE_EXCLUSIVE_PROCESS: one process at a time has contexts on it (DB-22). Known to the processes of a
/// user on a machine by a lock on a file in $TMPDIR, or /tmp; the lock ends with the process, however that ends. Any thread.
class ExclusiveDevice {
public:
    ExclusiveDevice() = default;
    ~ExclusiveDevice();
    ExclusiveDevice(const ExclusiveDevice&) = delete;
    ExclusiveDevice& operator=(const ExclusiveDevice&) = delete;

    /// Opens the file: at cuInit, because a process may have given up its right to open files by the time it makes contexts.
    bool open(const std::string& name);
    /// For each context of this process: false if another process has one.
    bool take();
    void give();

private:
    bool lock(bool on) WL_REQUIRES(m_mutex);

    Mutex m_mutex;
    int m_fd WL_GUARDED_BY(m_mutex) = -1;
    int m_contexts WL_GUARDED_BY(m_mutex) = 0;
};

}  // namespace warpline::softgpu::driver

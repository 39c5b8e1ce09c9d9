// Locks between those who use memory and those who take it away.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace warpline::softgpu::driver {

/// Copies hold one while they look whether memory is there and use it; who takes memory out of the process's address space
/// holds a MemoryGoing meanwhile. Programs may free memory that work in another stream still uses: that is an error of the
/// program, and must not become a crash of the process.
std::shared_mutex& memory_use_mutex();

class MemoryInUse {
public:
    MemoryInUse() : m_lock(memory_use_mutex()) {}

private:
    std::shared_lock<std::shared_mutex> m_lock;
};

class MemoryGoing {
public:
    MemoryGoing() : m_lock(memory_use_mutex()) {}

private:
    std::unique_lock<std::shared_mutex> m_lock;
};

/// Kernels hold one while they run, and who moves memory to another place behind its addresses holds a KernelsStopped. Kernels
/// that run concurrently may wait for each other, so new ones start even while somebody waits for all of them to end.
std::shared_mutex& kernel_mutex();

class KernelRunning {
public:
    KernelRunning() : m_lock(kernel_mutex()) {}

private:
    std::shared_lock<std::shared_mutex> m_lock;
};

class KernelsStopped {
public:
    KernelsStopped() : m_lock(kernel_mutex()) {}

private:
    std::unique_lock<std::shared_mutex> m_lock;
};

}  // namespace warpline::softgpu::driver

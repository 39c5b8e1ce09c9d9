// Profiles for tests.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "tests/unit/softgpu_driver/library.h"

/// Tests of the driver under different settings. The test program itself never initialises the driver, so that its children
/// can.
namespace softgpu_test {

using Settings = std::map<std::string, std::string>;

/// Runs a test's body in a process of its own, with settings of the environment. What fails there fails the test.
void in_process(const Settings& settings, const std::function<void()>& body);

/// The same, with SOFTGPU_PROFILE and with a context that is current.
void on_profile(const std::string& profile, const std::function<void()>& body, Settings settings = {});

/// A flag that a host function or a thread waits for, and others set.
class Gate {
public:
    void open();
    void pass() const;

private:
    std::atomic<bool> m_open{false};
};

/// A call on a thread of its own, in the context that is current here.
class Calling {
public:
    explicit Calling(std::function<void()> call);
    ~Calling();
    /// Waits until the call has returned or its thread sleeps. True if it has returned.
    bool returned() const;
    void join();

private:
    std::atomic<bool> m_returned{false};
    std::atomic<int> m_thread{0};  // as the kernel numbers it
    std::thread m_runs;
};

}  // namespace softgpu_test

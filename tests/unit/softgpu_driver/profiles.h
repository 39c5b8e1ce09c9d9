#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>

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

}  // namespace softgpu_test

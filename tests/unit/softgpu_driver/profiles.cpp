// Runs a test's body in a process with another profile.
#include "tests/unit/softgpu_driver/profiles.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace softgpu_test {

void in_process(const Settings& settings, const std::function<void()>& body) {
    std::fflush(nullptr);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 1);
        body();
        std::fflush(nullptr);
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child's failures are above; status " << status;
}

void on_profile(const std::string& profile, const std::function<void()>& body, Settings settings) {
    SCOPED_TRACE(profile);
    settings["SOFTGPU_PROFILE"] = profile;
    in_process(settings, [&body] {
        CUcontext context = nullptr;
        ASSERT_CU(CU(cuInit)(0));
        ASSERT_CU(CU(cuCtxCreate_v4)(&context, nullptr, 0, 0));
        body();
    });
}

namespace {

/// True if a thread of this process waits for something, according to the kernel.
bool asleep(int thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string text;
    std::getline(file, text);
    const size_t state = text.rfind(") ");
    return state != std::string::npos && text[state + 2] == 'S';
}

}  // namespace

Calling::Calling(std::function<void()> call) {
    CUcontext context = nullptr;
    EXPECT_CU(CU(cuCtxGetCurrent)(&context));
    m_runs = std::thread([this, context, call = std::move(call)] {
        EXPECT_CU(CU(cuCtxSetCurrent)(context));
        m_thread = gettid();
        call();
        m_returned = true;
    });
}

Calling::~Calling() { join(); }

void Calling::join() {
    if (m_runs.joinable()) m_runs.join();
}

bool Calling::returned() const {
    // Short waits for a lock look the same as long ones, once: what sleeps each time it is looked at waits.
    constexpr int k_looks = 200;
    for (int asleep_for = 0; asleep_for < k_looks && !m_returned;) {
        asleep_for = m_thread != 0 && asleep(m_thread) ? asleep_for + 1 : 0;
        std::this_thread::yield();
    }
    return m_returned;
}

void Gate::open() {
    m_open = true;
    m_open.notify_all();
}

void Gate::pass() const { m_open.wait(false); }

}  // namespace softgpu_test

#include "tests/unit/softgpu_driver/profiles.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

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

void Gate::open() {
    m_open = true;
    m_open.notify_all();
}

void Gate::pass() const { m_open.wait(false); }

}  // namespace softgpu_test

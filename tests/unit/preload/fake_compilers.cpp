// A library with the functions of NVIDIA's compilers that are wrapped. They answer with their own number and keep what they
// were asked for.
#include <cstdint>
#include <string>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {
std::string g_options;

void keep(size_t count, const char* const* options) {
    g_options.clear();
    for (size_t i = 0; i < count; ++i) g_options += std::string(i == 0 ? "" : " ") + options[i];
}
}  // namespace

FAKE_EXPORT const char* fake_options() { return g_options.c_str(); }

FAKE_EXPORT int nvrtcCompileProgram(void*, int count, const char* const* options) {
    keep(static_cast<size_t>(count), options);
    return FAKE_NUMBER;
}

FAKE_EXPORT int __nvJitLinkCreate_13_9(void**, uint32_t count, const char** options) {
    keep(count, options);
    return FAKE_NUMBER;
}

FAKE_EXPORT int nvJitLinkDestroy(void**) { return FAKE_NUMBER; }

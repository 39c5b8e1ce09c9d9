// Preloaded by `warpline run` where the software GPU executes. Programs that compile with NVRTC, or link with nvJitLink, mostly
// ask for the machine code of the device's own architecture, which the software GPU cannot execute. With line information that
// machine code has its PTX beside it, so we ask for that too; a GPU takes such code like any other.
#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/nvrtc/wrappers.h"

namespace warpline::nvrtc {
namespace {

constexpr int k_nvrtc_error_internal = 11;
constexpr size_t k_most_libraries = 16;

using Compile = int (*)(void* program, int count, const char* const* options);
using CreateLink = int (*)(void** handle, uint32_t count, const char** options);

bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

/// True if the options ask for machine code and for nothing that already brings the PTX along.
bool wants_line_information(size_t count, const char* const* options) {
    bool machine_code = false;
    for (size_t i = 0; i < count; ++i) {
        const std::string_view option = options[i];
        if (option == "-lineinfo" || option == "--generate-line-info" || option == "-G" || option == "--device-debug" ||
            option == "-g")
            return false;
        if (starts_with(option, "sm_")) machine_code = true;  // "-arch", "sm_89"
        if (starts_with(option, "-arch=sm_") || starts_with(option, "--gpu-architecture=sm_")) machine_code = true;
    }
    return machine_code;
}

std::vector<const char*> with_line_information(size_t count, const char* const* options) {
    std::vector<const char*> more(options, options + count);
    more.push_back("-lineinfo");
    return more;
}

int compile_with(Compile compile, void* program, int count, const char* const* options) {
    if (count <= 0 || !options || !wants_line_information(static_cast<size_t>(count), options))
        return compile(program, count, options);
    auto more = with_line_information(static_cast<size_t>(count), options);
    return compile(program, count + 1, more.data());
}

int create_link_with(CreateLink create, void** handle, uint32_t count, const char** options) {
    if (count == 0 || !options || !wants_line_information(count, options)) return create(handle, count, options);
    auto more = with_line_information(count, options);
    return create(handle, count + 1, more.data());
}

/// One function for each library of a kind, made in advance: which one is called says which library is meant.
template <typename Function>
struct Wrappers {
    std::array<std::atomic<void*>, k_most_libraries> real{};
    std::array<Function, k_most_libraries> functions;

    void* of(void* found) {
        for (size_t i = 0; i < k_most_libraries; ++i) {
            if (reinterpret_cast<void*>(functions[i]) == found) return found;
        }
        for (size_t i = 0; i < k_most_libraries; ++i) {
            void* there = nullptr;
            if (real[i].compare_exchange_strong(there, found) || there == found) return reinterpret_cast<void*>(functions[i]);
        }
        std::fputs("warpline: too many compilers in one process: code of this one needs -lineinfo to be executed\n", stderr);
        return found;
    }
    Function at(size_t index) const { return reinterpret_cast<Function>(real[index].load()); }
};

extern Wrappers<Compile> g_compilers;
extern Wrappers<CreateLink> g_linkers;

template <size_t Index>
int compile_by(void* program, int count, const char* const* options) {
    return compile_with(g_compilers.at(Index), program, count, options);
}
template <size_t Index>
int create_link_by(void** handle, uint32_t count, const char** options) {
    return create_link_with(g_linkers.at(Index), handle, count, options);
}

template <size_t... Index>
constexpr std::array<Compile, k_most_libraries> compile_functions(std::index_sequence<Index...>) {
    return {&compile_by<Index>...};
}
template <size_t... Index>
constexpr std::array<CreateLink, k_most_libraries> link_functions(std::index_sequence<Index...>) {
    return {&create_link_by<Index>...};
}

// Constant-initialised: dlsym() is called before constructors run.
constinit Wrappers<Compile> g_compilers{{}, compile_functions(std::make_index_sequence<k_most_libraries>())};
constinit Wrappers<CreateLink> g_linkers{{}, link_functions(std::make_index_sequence<k_most_libraries>())};

/// nvJitLink's header calls a name with its version: __nvJitLinkCreate_13_0.
bool is_linker(std::string_view name) { return name == "nvJitLinkCreate" || starts_with(name, "__nvJitLinkCreate_"); }

/// NVRTC may be loaded out of the sight of RTLD_NEXT: by dlopen(), for one library only.
int find_nvrtc(dl_phdr_info* info, size_t, void* found) {
    const char* name = std::strrchr(info->dlpi_name, '/');
    if (!name || std::strncmp(name, "/libnvrtc.so", 12) != 0) return 0;
    *static_cast<std::string*>(found) = info->dlpi_name;
    return 1;
}

Compile real_compile() {
    if (void* next = real_dlsym(RTLD_NEXT, "nvrtcCompileProgram")) return reinterpret_cast<Compile>(next);
    std::string path;
    ::dl_iterate_phdr(find_nvrtc, &path);
    void* library = path.empty() ? nullptr : ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return nullptr;
    void* function = real_dlsym(library, "nvrtcCompileProgram");
    ::dlclose(library);  // whoever has a program to compile keeps it loaded
    return reinterpret_cast<Compile>(function);
}

}  // namespace
}  // namespace warpline::nvrtc

extern "C" __attribute__((visibility("default"))) int nvrtcCompileProgram(void* program, int count,
                                                                          const char* const* options) {
    using namespace warpline::nvrtc;
    const Compile compile = real_compile();
    if (!compile) return k_nvrtc_error_internal;
    return compile_with(compile, program, count, options);
}

namespace warpline::nvrtc {

bool is_wrapped(const char* name) { return std::strcmp(name, "nvrtcCompileProgram") == 0 || is_linker(name); }

void* wrapper_of(const char* name, void* real) {
    if (is_linker(name)) return g_linkers.of(real);
    return real == reinterpret_cast<void*>(&nvrtcCompileProgram) ? real : g_compilers.of(real);
}

}  // namespace warpline::nvrtc

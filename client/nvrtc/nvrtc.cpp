// Preloaded by `warpline run` where the software GPU executes. Programs that compile with NVRTC mostly ask for the machine code
// of the device's own architecture, which the software GPU cannot execute. With line information that machine code has its PTX
// beside it, so we ask for that too; a GPU takes such code like any other.
#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int k_nvrtc_error_internal = 11;

using Compile = int (*)(void* program, int count, const char* const* options);

/// NVRTC may be loaded out of the sight of RTLD_NEXT: by dlopen(), for one library only.
int find_nvrtc(dl_phdr_info* info, size_t, void* found) {
    const char* name = std::strrchr(info->dlpi_name, '/');
    if (!name || std::strncmp(name, "/libnvrtc.so", 12) != 0) return 0;
    *static_cast<std::string*>(found) = info->dlpi_name;
    return 1;
}

Compile real_compile() {
    if (void* next = ::dlsym(RTLD_NEXT, "nvrtcCompileProgram")) return reinterpret_cast<Compile>(next);
    std::string path;
    ::dl_iterate_phdr(find_nvrtc, &path);
    void* library = path.empty() ? nullptr : ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return nullptr;
    void* function = ::dlsym(library, "nvrtcCompileProgram");
    ::dlclose(library);  // whoever has a program to compile keeps it loaded
    return reinterpret_cast<Compile>(function);
}

bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

/// True if the options ask for machine code and for nothing that already brings the PTX along.
bool wants_line_information(int count, const char* const* options) {
    bool machine_code = false;
    for (int i = 0; i < count; ++i) {
        const std::string_view option = options[i];
        if (option == "-lineinfo" || option == "--generate-line-info" || option == "-G" || option == "--device-debug")
            return false;
        if (starts_with(option, "sm_")) machine_code = true;  // "-arch", "sm_89"
        if (starts_with(option, "-arch=sm_") || starts_with(option, "--gpu-architecture=sm_")) machine_code = true;
    }
    return machine_code;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int nvrtcCompileProgram(void* program, int count,
                                                                          const char* const* options) {
    const Compile compile = real_compile();
    if (!compile) return k_nvrtc_error_internal;
    if (count <= 0 || !options || !wants_line_information(count, options)) return compile(program, count, options);
    std::vector<const char*> more(options, options + count);
    more.push_back("-lineinfo");
    return compile(program, count + 1, more.data());
}

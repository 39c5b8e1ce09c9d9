// Who asks for a library, and whether it may be us who passes that on.
#include "client/managed/library_loads.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>

namespace warpline::client::library_loads {

namespace {

using Dlopen = void* (*)(const char*, int);

Dlopen g_real = nullptr;
void (*g_loaded)() = nullptr;

// Of all threads: what has ended has begun. Constructors of what this thread loads may load in turn, and use a device.
std::atomic<uint64_t> g_begun{0}, g_ended{0};
thread_local uint64_t t_own = 0;

void* load(const char* name, int mode) {
    g_begun.fetch_add(1);
    ++t_own;
    void* const library = g_real(name, mode);
    --t_own;
    g_ended.fetch_add(1);
    if (library) g_loaded();
    return library;
}

/// True if names without a directory are looked for where the caller says (DT_RPATH, DT_RUNPATH), or if that cannot be told.
bool has_search_path(const void* caller) {
    Dl_info info;
    void* found = nullptr;
    if (::dladdr1(caller, &info, &found, RTLD_DL_LINKMAP) == 0 || !found) return true;
    for (const ElfW(Dyn)* entry = static_cast<const link_map*>(found)->l_ld; entry && entry->d_tag != DT_NULL; ++entry)
        if (entry->d_tag == DT_RPATH || entry->d_tag == DT_RUNPATH) return true;
    return false;
}

}  // namespace

Others::Others() : m_begun(g_ended.load() + t_own) {}
bool Others::have_loaded() const { return g_begun.load() != m_begun; }

// Where the call goes on.
extern "C" __attribute__((visibility("hidden"), used)) Dlopen warpline_dlopen_by(const char* name, int, const void* caller) {
    const bool is_path = name && std::strchr(name, '/') && !std::strchr(name, '$');
    return is_path || !has_search_path(caller) ? &load : g_real;
}

#if defined(__x86_64__)

extern "C" __attribute__((visibility("hidden"))) void* warpline_dlopen(const char* name, int mode);

// A jump, for which compilers give no word.
asm(R"(
    .text
    .globl warpline_dlopen
    .hidden warpline_dlopen
    .type warpline_dlopen, @function
warpline_dlopen:
    .cfi_startproc
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    movq 24(%rsp), %rdx
    call warpline_dlopen_by
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size warpline_dlopen, .-warpline_dlopen
)");

void add_to(std::vector<Import>& imports, void (*loaded)()) {
    g_loaded = loaded;
    imports.push_back({"dlopen", reinterpret_cast<void*>(&warpline_dlopen), reinterpret_cast<void**>(&g_real)});
}

#else

void add_to(std::vector<Import>&, void (*)()) {}

#endif

}  // namespace warpline::client::library_loads

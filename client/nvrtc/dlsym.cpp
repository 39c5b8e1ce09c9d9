// The program's dlsym(). Python's packages, and whoever looks for a compiler at run time, ask it for the functions of the
// library that they have loaded, which no preloaded name stands before.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "client/nvrtc/wrappers.h"

namespace {

using Dlsym = void* (*)(void* handle, const char* name);

#if defined(__x86_64__)
constexpr char k_version[] = "GLIBC_2.2.5";
#else
constexpr char k_version[] = "GLIBC_2.17";
#endif

std::atomic<Dlsym> g_real{nullptr};

}  // namespace

namespace warpline::nvrtc {

void* real_dlsym(void* handle, const char* name) {
    Dlsym real = g_real.load(std::memory_order_acquire);
    if (!real) {
        // glibc has exported this version since there is the architecture.
        real = reinterpret_cast<Dlsym>(::dlvsym(RTLD_NEXT, "dlsym", k_version));
        if (!real) std::abort();
        g_real.store(real, std::memory_order_release);
    }
    return real(handle, name);
}

}  // namespace warpline::nvrtc

// The answer of dlsym if it is one of ours, else null. Runs before constructors, and allocates nothing.
extern "C" __attribute__((visibility("hidden"), used)) void* warpline_wrapper_for(void* handle, const char* name) {
    using namespace warpline::nvrtc;
    // What comes next depends on who asks; and who asks that wraps the function itself.
    if (!name || handle == RTLD_NEXT || !is_wrapped(name)) return nullptr;
    void* found = real_dlsym(handle, name);
    return found ? wrapper_of(name, found) : nullptr;
}

#if defined(__x86_64__)

extern "C" __attribute__((visibility("hidden"), used)) Dlsym warpline_real_dlsym() {
    if (!g_real.load(std::memory_order_acquire)) (void)warpline::nvrtc::real_dlsym(RTLD_DEFAULT, "");
    return g_real.load(std::memory_order_acquire);
}

// A jump, for which compilers give no word: glibc tells by the return address whose RTLD_NEXT and RTLD_DEFAULT are meant.
asm(R"(
    .text
    .globl dlsym
    .type dlsym, @function
dlsym:
    .cfi_startproc
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call warpline_wrapper_for
    testq %rax, %rax
    jne 1f
    call warpline_real_dlsym
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
1:  .cfi_adjust_cfa_offset 24
    addq $24, %rsp
    .cfi_adjust_cfa_offset -24
    ret
    .cfi_endproc
    .size dlsym, .-dlsym
)");

#else

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) noexcept {
    void* ours = warpline_wrapper_for(handle, name);
    return ours ? ours : warpline::nvrtc::real_dlsym(handle, name);
}

#endif

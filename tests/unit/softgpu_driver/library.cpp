// Loads libsoftgpu.so as programs do, and finds its functions.
#include "tests/unit/softgpu_driver/library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace softgpu_test {

void* symbol(const char* name) {
    static void* library = dlopen(SOFTGPU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void* found = library != nullptr ? dlsym(library, name) : nullptr;
    if (found == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::abort();
    }
    return found;
}

void DriverTest::SetUp() {
    ASSERT_CU(CU(cuInit)(0));
    ASSERT_CU(CU(cuCtxCreate_v4)(&m_context, nullptr, 0, 0));
}

void DriverTest::TearDown() {
    EXPECT_CU(CU(cuCtxDestroy_v2)(m_context));
    CUcontext left = nullptr;
    EXPECT_CU(CU(cuCtxGetCurrent)(&left));
    EXPECT_EQ(left, nullptr);
}

CUmodule load_kernels() {
    CUmodule module = nullptr;
    EXPECT_CU(CU(cuModuleLoadData)(&module, k_kernels_ptx));
    return module;
}

CUfunction kernel(CUmodule module, const char* name) {
    CUfunction function = nullptr;
    EXPECT_CU(CU(cuModuleGetFunction)(&function, module, name)) << name;
    return function;
}

CUresult launch_store(CUmodule module, CUdeviceptr address, uint32_t value, CUstream stream) {
    void* params[] = {&address, &value};
    return CU(cuLaunchKernel)(kernel(module, "store"), 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
}

CUresult launch_wait(CUmodule module, CUdeviceptr address, CUstream stream) {
    void* params[] = {&address};
    return CU(cuLaunchKernel)(kernel(module, "wait_for"), 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
}

const char* const k_kernels_ptx = R"(
.version 8.0
.target sm_75
.address_size 64

.global .align 4 .u32 counter = 7;
.const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0};
.extern .shared .align 16 .b8 dynamic[];

.visible .entry store(.param .u64 address, .param .u32 value)
{
    .reg .b64 %a;
    .reg .b32 %v;
    ld.param.u64 %a, [address];
    ld.param.u32 %v, [value];
    st.global.u32 [%a], %v;
    ret;
}

.visible .entry fill(.param .u64 address, .param .u32 value, .param .u32 n)
{
    .reg .b64 %a, %o;
    .reg .b32 %v, %n, %i, %t, %c, %b;
    .reg .pred %p;
    ld.param.u64 %a, [address];
    ld.param.u32 %v, [value];
    ld.param.u32 %n, [n];
    mov.u32 %t, %tid.x;
    mov.u32 %c, %ctaid.x;
    mov.u32 %b, %ntid.x;
    mad.lo.s32 %i, %c, %b, %t;
    setp.ge.u32 %p, %i, %n;
    @%p bra DONE;
    mul.wide.u32 %o, %i, 4;
    add.s64 %a, %a, %o;
    add.s32 %v, %v, %i;
    st.global.u32 [%a], %v;
DONE:
    ret;
}

.visible .entry add(.param .u64 address, .param .u32 value)
{
    .reg .b64 %a;
    .reg .b32 %v, %old;
    ld.param.u64 %a, [address];
    ld.param.u32 %v, [value];
    atom.global.add.u32 %old, [%a], %v;
    ret;
}

.visible .entry wait_for(.param .u64 address)
{
    .reg .b64 %a;
    .reg .b32 %v;
    .reg .pred %p;
    ld.param.u64 %a, [address];
AGAIN:
    ld.volatile.global.u32 %v, [%a];
    setp.eq.u32 %p, %v, 0;
    @%p bra AGAIN;
    ret;
}

.visible .entry trap()
{
    trap;
}

.visible .entry bounded()
.maxntid 64, 1, 1
{
    ret;
}

.visible .entry shared_user(.param .u64 address)
{
    .shared .align 4 .b8 own[4096];
    .reg .b64 %a;
    .reg .b32 %v;
    ld.param.u64 %a, [address];
    mov.u32 %v, 5;
    st.shared.u32 [own+4092], %v;
    st.shared.u32 [dynamic], %v;
    ld.shared.u32 %v, [own+4092];
    st.global.u32 [%a], %v;
    ret;
}
)";

}  // namespace softgpu_test

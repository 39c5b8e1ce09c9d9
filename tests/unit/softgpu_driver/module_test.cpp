// Tests of modules and libraries.
#include <algorithm>
#include <cstring>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

class ModuleTest : public DriverTest {};

TEST_F(ModuleTest, FunctionsAndGlobalsByName) {
    CUmodule module = load_kernels();
    CUfunction store = kernel(module, "store"), none = nullptr;
    EXPECT_EQ(kernel(module, "store"), store);
    EXPECT_EQ(CU(cuModuleGetFunction)(&none, module, "missing"), CUDA_ERROR_NOT_FOUND);
    const char* name = nullptr;
    EXPECT_CU(CU(cuFuncGetName)(&name, store));
    EXPECT_STREQ(name, "store");
    CUdeviceptr address = 0;
    size_t bytes = 0;
    EXPECT_CU(CU(cuModuleGetGlobal_v2)(&address, &bytes, module, "counter"));
    EXPECT_EQ(bytes, 4u);
    uint32_t value = 0;
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(&value, address, 4));
    EXPECT_EQ(value, 7u);
    uint32_t table[4] = {};
    EXPECT_CU(CU(cuModuleGetGlobal_v2)(&address, &bytes, module, "table"));
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(table, address, bytes));
    EXPECT_EQ(table[3], 4u);
    EXPECT_EQ(CU(cuModuleGetGlobal_v2)(&address, &bytes, module, "missing"), CUDA_ERROR_NOT_FOUND);
    unsigned int count = 0;
    EXPECT_CU(CU(cuModuleGetFunctionCount)(&count, module));
    EXPECT_EQ(count, 7u);
    EXPECT_CU(CU(cuModuleUnload)(module));
    EXPECT_EQ(CU(cuModuleUnload)(module), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(CU(cuFuncGetName)(&name, store), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleTest, AttributesAreTrue) {
    CUmodule module = load_kernels();
    auto get = [](CUfunction function, CUfunction_attribute which) {
        int value = -1;
        EXPECT_CU(CU(cuFuncGetAttribute)(&value, which, function));
        return value;
    };
    CUfunction shared = kernel(module, "shared_user");
    EXPECT_EQ(get(shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 4096);
    EXPECT_EQ(get(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), (48 << 10) - 4096);
    EXPECT_EQ(get(shared, CU_FUNC_ATTRIBUTE_PTX_VERSION), 75);
    EXPECT_EQ(get(shared, CU_FUNC_ATTRIBUTE_BINARY_VERSION), 89);  // compiled for the device
    EXPECT_GT(get(shared, CU_FUNC_ATTRIBUTE_NUM_REGS), 0);
    EXPECT_EQ(get(kernel(module, "bounded"), CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 64);
    EXPECT_CU(CU(cuFuncSetAttribute)(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
    EXPECT_EQ(get(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 64 << 10);
    EXPECT_EQ(CU(cuFuncSetAttribute)(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuFuncSetAttribute)(shared, CU_FUNC_ATTRIBUTE_NUM_REGS, 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuModuleUnload)(module));
}

TEST_F(ModuleTest, ParametersAreDescribed) {
    CUmodule module = load_kernels();
    size_t offset = 99, size = 99;
    CUfunction fill = kernel(module, "fill");
    EXPECT_CU(CU(cuFuncGetParamInfo)(fill, 0, &offset, &size));
    EXPECT_EQ(offset, 0u);
    EXPECT_EQ(size, 8u);
    EXPECT_CU(CU(cuFuncGetParamInfo)(fill, 2, &offset, &size));
    EXPECT_EQ(offset, 12u);
    EXPECT_EQ(size, 4u);
    EXPECT_EQ(CU(cuFuncGetParamInfo)(fill, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuModuleUnload)(module));
}

TEST_F(ModuleTest, MistakesInPtxAreExplained) {
    char log[512] = "unwritten";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
    CUmodule module = nullptr;
    EXPECT_EQ(
        CU(cuModuleLoadDataEx)(&module, ".version 8.0\n.target sm_75\n.address_size 64\n.entry broken( {", 2, options, values),
        CUDA_ERROR_INVALID_PTX);
    EXPECT_NE(std::strstr(log, "4"), nullptr) << log;  // the line
    EXPECT_EQ(reinterpret_cast<size_t>(values[1]), std::strlen(log));
    EXPECT_EQ(CU(cuModuleLoadData)(&module, ".version 99.0\n.target sm_75\n.address_size 64\n"),
              CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    EXPECT_EQ(CU(cuModuleLoadData)(&module,
                                   "\x7f"
                                   "ELF is not all there is to it.................................."),
              CUDA_ERROR_INVALID_IMAGE);
    EXPECT_EQ(CU(cuModuleLoadData)(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuModuleLoad)(&module, "/nonexistent/file.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
}

TEST_F(ModuleTest, LibrariesAreLoadedWithoutContextAndUsedInAny) {
    CUcontext ours = nullptr;
    ASSERT_CU(CU(cuCtxPopCurrent_v2)(&ours));
    CUlibrary library = nullptr;
    ASSERT_CU(CU(cuLibraryLoadData)(&library, k_kernels_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUkernel store = nullptr, again = nullptr, none = nullptr;
    EXPECT_CU(CU(cuLibraryGetKernel)(&store, library, "store"));
    EXPECT_CU(CU(cuLibraryGetKernel)(&again, library, "store"));
    EXPECT_EQ(store, again);
    EXPECT_EQ(CU(cuLibraryGetKernel)(&none, library, "missing"), CUDA_ERROR_NOT_FOUND);
    unsigned int count = 0;
    EXPECT_CU(CU(cuLibraryGetKernelCount)(&count, library));
    EXPECT_EQ(count, 7u);
    ASSERT_CU(CU(cuCtxPushCurrent_v2)(ours));
    // A kernel stands where a function is expected.
    CUdeviceptr address = 0;
    ASSERT_CU(CU(cuMemAlloc_v2)(&address, 4));
    uint32_t value = 42, read = 0;
    void* params[] = {&address, &value};
    EXPECT_CU(CU(cuLaunchKernel)(reinterpret_cast<CUfunction>(store), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(&read, address, 4));
    EXPECT_EQ(read, 42u);
    CUfunction function = nullptr;
    CUmodule module = nullptr, of_function = nullptr;
    EXPECT_CU(CU(cuKernelGetFunction)(&function, store));
    EXPECT_CU(CU(cuLibraryGetModule)(&module, library));
    EXPECT_CU(CU(cuFuncGetModule)(&of_function, function));
    EXPECT_EQ(module, of_function);
    int before = 0, after = 0;
    EXPECT_CU(CU(cuKernelSetAttribute)(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000, store, 0));
    EXPECT_CU(CU(cuFuncGetAttribute)(&after, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
    EXPECT_CU(CU(cuKernelGetAttribute)(&before, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, store, 0));
    EXPECT_EQ(before, 60000);
    EXPECT_EQ(after, 60000);
    CUdeviceptr global = 0;
    size_t bytes = 0;
    EXPECT_CU(CU(cuLibraryGetGlobal)(&global, &bytes, library, "counter"));
    EXPECT_EQ(CU(cuLibraryGetManaged)(&global, &bytes, library, "counter"), CUDA_ERROR_NOT_FOUND);
    EXPECT_CU(CU(cuMemFree_v2)(address));
    EXPECT_CU(CU(cuLibraryUnload)(library));
    EXPECT_EQ(CU(cuLibraryUnload)(library), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(CU(cuKernelGetFunction)(&function, store), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleTest, LinksSeveralTexts) {
    std::string caller = R"(
.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 out) twice(.param .b32 in);
.visible .entry run(.param .u64 address)
{
    .reg .b64 %a;
    .reg .b32 %v;
    ld.param.u64 %a, [address];
    mov.u32 %v, 21;
    {
        .param .b32 in;
        .param .b32 out;
        st.param.b32 [in], %v;
        call (out), twice, (in);
        ld.param.b32 %v, [out];
    }
    st.global.u32 [%a], %v;
    ret;
}
)";
    std::string callee = R"(
.version 8.0
.target sm_75
.address_size 64
.visible .func (.param .b32 out) twice(.param .b32 in)
{
    .reg .b32 %v;
    ld.param.b32 %v, [in];
    add.u32 %v, %v, %v;
    st.param.b32 [out], %v;
    ret;
}
)";
    CUlinkState state = nullptr;
    ASSERT_CU(CU(cuLinkCreate_v2)(0, nullptr, nullptr, &state));
    CUjit_option whole[] = {CU_JIT_MAX_REGISTERS, CU_JIT_WALL_TIME};
    void* values[2] = {};
    EXPECT_EQ(CU(cuLinkAddData_v2)(state, CU_JIT_INPUT_PTX, caller.data(), caller.size() + 1, "a", 2, whole, values),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuLinkAddData_v2)(state, CU_JIT_INPUT_PTX, caller.data(), caller.size() + 1, "a", 0, nullptr, nullptr));
    EXPECT_CU(CU(cuLinkAddData_v2)(state, CU_JIT_INPUT_PTX, callee.data(), callee.size() + 1, "b", 0, nullptr, nullptr));
    // The library of the device's run time is there in any case; of others nothing is.
    std::string library = "!<arch>\ncuda_device_runtime.o/", other = "!<arch>\nmine.o/";
    EXPECT_CU(CU(cuLinkAddData_v2)(state, CU_JIT_INPUT_LIBRARY, library.data(), library.size(), "l", 0, nullptr, nullptr));
    EXPECT_EQ(CU(cuLinkAddData_v2)(state, CU_JIT_INPUT_LIBRARY, other.data(), other.size(), "o", 0, nullptr, nullptr),
              CUDA_ERROR_NOT_SUPPORTED);
    void* image = nullptr;
    size_t bytes = 0;
    ASSERT_CU(CU(cuLinkComplete)(state, &image, &bytes));
    CUmodule module = nullptr;
    ASSERT_CU(CU(cuModuleLoadData)(&module, image));
    EXPECT_CU(CU(cuLinkDestroy)(state));
    CUdeviceptr address = 0;
    ASSERT_CU(CU(cuMemAlloc_v2)(&address, 4));
    void* params[] = {&address};
    EXPECT_CU(CU(cuLaunchKernel)(kernel(module, "run"), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    uint32_t value = 0;
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(&value, address, 4));
    EXPECT_EQ(value, 42u);
}

TEST_F(ModuleTest, KernelsThatAreLinkedAtRunTimeLaunchKernels_A4) {
    // As nvcc compiles child<<<1, 32>>>(out, 5) for code that is linked later.
    std::string text = R"(.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2(.param .b64 k, .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);
.extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2(.param .b64 p, .param .b64 s);
.visible .entry child(.param .u64 out, .param .u32 value) {
    .reg .b64 %a, %o;
    .reg .b32 %v, %t;
    ld.param.u64 %a, [out];
    ld.param.u32 %v, [value];
    mov.u32 %t, %tid.x;
    add.u32 %v, %v, %t;
    mul.wide.u32 %o, %t, 4;
    add.u64 %a, %a, %o;
    st.global.u32 [%a], %v;
    ret;
}
.visible .entry parent(.param .u64 out) {
    .reg .b64 %k, %buffer, %a;
    .reg .b32 %r;
    .reg .pred %none;
    ld.param.u64 %a, [out];
    mov.u64 %k, child;
    {
    .param .b64 p0;
    .param .align 4 .b8 p1[12];
    .param .align 4 .b8 p2[12];
    .param .b32 p3;
    .param .b64 r0;
    st.param.b64 [p0], %k;
    st.param.b32 [p1], 1;
    st.param.b32 [p1+4], 1;
    st.param.b32 [p1+8], 1;
    st.param.b32 [p2], 32;
    st.param.b32 [p2+4], 1;
    st.param.b32 [p2+8], 1;
    st.param.b32 [p3], 0;
    call.uni (r0), __cudaCDP2GetParameterBufferV2, (p0, p1, p2, p3);
    ld.param.b64 %buffer, [r0];
    }
    setp.eq.s64 %none, %buffer, 0;
    @%none bra end;
    st.u64 [%buffer], %a;
    st.u32 [%buffer+8], 5;
    {
    .param .b64 p0;
    .param .b64 p1;
    .param .b32 r0;
    st.param.b64 [p0], %buffer;
    st.param.b64 [p1], 0;
    call.uni (r0), __cudaCDP2LaunchDeviceV2, (p0, p1);
    ld.param.b32 %r, [r0];
    }
end:
    ret;
}
)";
    CUlinkState state = nullptr;
    ASSERT_CU(CU(cuLinkCreate_v2)(0, nullptr, nullptr, &state));
    ASSERT_CU(CU(cuLinkAddData_v2)(state, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "a", 0, nullptr, nullptr));
    void* image = nullptr;
    size_t bytes = 0;
    ASSERT_CU(CU(cuLinkComplete)(state, &image, &bytes));
    CUmodule module = nullptr;
    ASSERT_CU(CU(cuModuleLoadData)(&module, image));
    EXPECT_CU(CU(cuLinkDestroy)(state));
    CUdeviceptr address = 0;
    ASSERT_CU(CU(cuMemAlloc_v2)(&address, 128));
    void* params[] = {&address};
    ASSERT_CU(CU(cuLaunchKernel)(kernel(module, "parent"), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    uint32_t out[32] = {};
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(out, address, sizeof out));
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 5 + i);
    EXPECT_CU(CU(cuMemFree_v2)(address));
    EXPECT_CU(CU(cuModuleUnload)(module));
}

}  // namespace
}  // namespace softgpu_test

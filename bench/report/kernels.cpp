// The report's kernels. Their results are whole numbers, so that they can be compared exactly.
#include "bench/report/measure.h"

namespace warpline::bench {

namespace {

constexpr const char* k_report_ptx = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry count(.param .u64 counter)
{
    .reg .u64 %at;
    .reg .u32 %n;
    ld.param.u64 %at, [counter];
    cvta.to.global.u64 %at, %at;
    ld.global.u32 %n, [%at];
    add.u32 %n, %n, 1;
    st.global.u32 [%at], %n;
    ret;
}
.visible .entry multiply_add(.param .u64 y, .param .u64 x, .param .u32 k, .param .u32 n)
{
    .reg .pred %beyond;
    .reg .u32 %i, %block, %threads, %n, %k, %x, %y;
    .reg .u64 %px, %py, %offset;
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %i, %tid.x;
    mad.lo.u32 %i, %block, %threads, %i;
    ld.param.u32 %n, [n];
    setp.ge.u32 %beyond, %i, %n;
    @%beyond ret;
    ld.param.u64 %px, [x];
    ld.param.u64 %py, [y];
    ld.param.u32 %k, [k];
    cvta.to.global.u64 %px, %px;
    cvta.to.global.u64 %py, %py;
    mul.wide.u32 %offset, %i, 4;
    add.u64 %px, %px, %offset;
    add.u64 %py, %py, %offset;
    ld.global.u32 %x, [%px];
    ld.global.u32 %y, [%py];
    mad.lo.u32 %y, %x, %k, %y;
    st.global.u32 [%py], %y;
    ret;
}
)";

}  // namespace

Result<Kernels*> Kernels::instance(Driver& driver) {
    static Kernels kernels;
    if (kernels.count != nullptr) return &kernels;
    CUmodule module = nullptr;
    if (CUresult r = driver.load(&module, k_report_ptx); r != CUDA_SUCCESS) return refused("cuModuleLoadData", r);
    if (CUresult r = driver.mem_alloc(&kernels.counter, 4); r != CUDA_SUCCESS) return refused("cuMemAlloc", r);
    if (CUresult r = driver.set_words(kernels.counter, 0, 1); r != CUDA_SUCCESS) return refused("cuMemsetD32", r);
    if (CUresult r = driver.function(&kernels.multiply_add, module, "multiply_add"); r != CUDA_SUCCESS)
        return refused("cuModuleGetFunction", r);
    if (CUresult r = driver.function(&kernels.count, module, "count"); r != CUDA_SUCCESS)
        return refused("cuModuleGetFunction", r);
    return &kernels;
}

CUresult Kernels::add_one(Driver& driver, CUstream stream) {
    void* arguments[] = {&counter};
    return driver.launch(count, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
}

}  // namespace warpline::bench

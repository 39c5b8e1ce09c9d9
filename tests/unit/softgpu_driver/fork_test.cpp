// Tests of processes that fork.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

int in_child(int (*work)()) {
    pid_t child = fork();
    if (child == 0) _exit(work());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ForkTest, ChildBeforeInitialisationMayUseTheDriver) {
    EXPECT_EQ(in_child([] {
                  CUcontext context = nullptr;
                  CUdeviceptr p = 0;
                  bool works = CU(cuInit)(0) == CUDA_SUCCESS && CU(cuCtxCreate_v2)(&context, 0, 0) == CUDA_SUCCESS &&
                               CU(cuMemAlloc_v2)(&p, 64) == CUDA_SUCCESS && CU(cuMemsetD8_v2)(p, 1, 64) == CUDA_SUCCESS &&
                               CU(cuCtxSynchronize)() == CUDA_SUCCESS;
                  return works ? 0 : 1;
              }),
              0);
}

TEST(ForkTest, ChildAfterInitialisationMayNot) {
    ASSERT_CU(CU(cuInit)(0));
    CUcontext context = nullptr;
    ASSERT_CU(CU(cuCtxCreate_v2)(&context, 0, 0));
    EXPECT_EQ(in_child([] {
                  CUdeviceptr p = 0;
                  bool refused = CU(cuMemAlloc_v2)(&p, 64) == CUDA_ERROR_NOT_INITIALIZED &&
                                 CU(cuInit)(0) == CUDA_ERROR_NOT_INITIALIZED &&
                                 CU(cuCtxSynchronize)() == CUDA_ERROR_NOT_INITIALIZED;
                  return refused ? 0 : 1;
              }),
              0);
    CUdeviceptr p = 0;
    EXPECT_CU(CU(cuMemAlloc_v2)(&p, 64));  // the parent's is unharmed
    EXPECT_CU(CU(cuCtxDestroy_v2)(context));
}

}  // namespace
}  // namespace softgpu_test

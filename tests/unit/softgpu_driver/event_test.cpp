// Tests of events.
#include <atomic>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

class EventTest : public DriverTest {
protected:
    void SetUp() override {
        DriverTest::SetUp();
        m_module = load_kernels();
        ASSERT_CU(CU(cuMemAlloc_v2)(&m_memory, 4096));
        ASSERT_CU(CU(cuMemsetD8_v2)(m_memory, 0, 4096));
        ASSERT_CU(CU(cuCtxSynchronize)());  // streams that do not block do not wait for it
        ASSERT_CU(CU(cuStreamCreate)(&m_a, CU_STREAM_NON_BLOCKING));
        ASSERT_CU(CU(cuStreamCreate)(&m_b, CU_STREAM_NON_BLOCKING));
        ASSERT_CU(CU(cuStreamCreate)(&m_opener, CU_STREAM_NON_BLOCKING));
        ASSERT_CU(CU(cuCtxSynchronize)());
    }
    static CUevent create(unsigned int flags = 0) {
        CUevent event = nullptr;
        EXPECT_CU(CU(cuEventCreate)(&event, flags));
        return event;
    }
    CUmodule m_module = nullptr;
    CUdeviceptr m_memory = 0;
    CUstream m_a = nullptr, m_b = nullptr, m_opener = nullptr;
};

TEST_F(EventTest, NeverRecordedIsComplete) {
    CUevent event = create();
    EXPECT_CU(CU(cuEventQuery)(event));
    EXPECT_CU(CU(cuEventSynchronize)(event));
    EXPECT_CU(CU(cuStreamWaitEvent)(m_a, event, 0));
    EXPECT_CU(CU(cuEventDestroy_v2)(event));
    EXPECT_EQ(CU(cuEventQuery)(event), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(CU(cuEventCreate)(&event, 0x100), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(EventTest, MarksAPlaceInItsStream) {
    CUevent event = create();
    ASSERT_CU(launch_wait(m_module, m_memory, m_a));
    ASSERT_CU(CU(cuEventRecord)(event, m_a));
    EXPECT_EQ(CU(cuEventQuery)(event), CUDA_ERROR_NOT_READY);
    EXPECT_CU(CU(cuStreamWaitEvent)(m_b, event, 0));
    ASSERT_CU(launch_store(m_module, m_memory + 4, 1, m_b));
    EXPECT_EQ(CU(cuStreamQuery)(m_b), CUDA_ERROR_NOT_READY);
    ASSERT_CU(launch_store(m_module, m_memory, 1, m_opener));
    EXPECT_CU(CU(cuEventSynchronize)(event));
    EXPECT_CU(CU(cuEventQuery)(event));
    EXPECT_CU(CU(cuStreamSynchronize)(m_b));
}

TEST_F(EventTest, WaitsMeanTheRecordOfTheirTime) {
    CUevent event = create();
    ASSERT_CU(CU(cuEventRecord)(event, m_a));  // done at once
    ASSERT_CU(CU(cuStreamWaitEvent)(m_b, event, 0));
    ASSERT_CU(launch_wait(m_module, m_memory, m_a));
    ASSERT_CU(CU(cuEventRecord)(event, m_a));
    ASSERT_CU(launch_store(m_module, m_memory + 4, 1, m_b));
    EXPECT_CU(CU(cuStreamSynchronize)(m_b));  // not held by the second record
    ASSERT_CU(launch_store(m_module, m_memory, 1, m_opener));
    EXPECT_CU(CU(cuStreamSynchronize)(m_a));
}

TEST_F(EventTest, ElapsedTimeIsMeasured) {
    CUevent start = create(), end = create(), untimed = create(CU_EVENT_DISABLE_TIMING);
    float milliseconds = -1;
    EXPECT_EQ(CU(cuEventElapsedTime_v2)(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
    ASSERT_CU(CU(cuEventRecord)(start, m_a));
    ASSERT_CU(launch_wait(m_module, m_memory, m_a));
    ASSERT_CU(CU(cuEventRecord)(end, m_a));
    EXPECT_EQ(CU(cuEventElapsedTime_v2)(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
    ASSERT_CU(launch_store(m_module, m_memory, 1, m_opener));
    ASSERT_CU(CU(cuEventSynchronize)(end));
    EXPECT_CU(CU(cuEventElapsedTime_v2)(&milliseconds, start, end));
    EXPECT_GT(milliseconds, 0.0f);
    EXPECT_LT(milliseconds, 60000.0f);
    EXPECT_CU(CU(cuEventElapsedTime)(&milliseconds, start, end));
    ASSERT_CU(CU(cuEventRecord)(untimed, m_a));
    EXPECT_EQ(CU(cuEventElapsedTime_v2)(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(EventTest, ContextsCanBeRecordedAndHeld) {
    CUevent event = create(CU_EVENT_DISABLE_TIMING), timed = create();
    void* gate = nullptr;  // for the program to open: what the context is given is held
    ASSERT_CU(CU(cuMemHostAlloc)(&gate, sizeof(int), CU_MEMHOSTALLOC_DEVICEMAP));
    const std::atomic_ref<int> open(*static_cast<int*>(gate));
    open.store(0);
    ASSERT_CU(launch_wait(m_module, reinterpret_cast<CUdeviceptr>(gate), m_a));
    EXPECT_EQ(CU(cuCtxRecordEvent)(nullptr, event), CUDA_ERROR_INVALID_CONTEXT);
    for (CUevent one : {timed, event}) {
        EXPECT_CU(CU(cuCtxRecordEvent)(context(), one));
        EXPECT_EQ(CU(cuEventQuery)(one), CUDA_ERROR_NOT_READY);
    }
    EXPECT_CU(CU(cuCtxWaitEvent)(context(), event));
    ASSERT_CU(launch_store(m_module, m_memory + 4, 1, m_b));
    EXPECT_EQ(CU(cuStreamQuery)(m_b), CUDA_ERROR_NOT_READY);
    CUstream later = nullptr;
    ASSERT_CU(CU(cuStreamCreate)(&later, CU_STREAM_NON_BLOCKING));
    EXPECT_EQ(CU(cuStreamQuery)(later), CUDA_ERROR_NOT_READY) << "what it is given is held as well";
    ASSERT_CU(launch_store(m_module, m_memory, 1, later));
    open.store(1);
    EXPECT_CU(CU(cuCtxSynchronize)());
    ASSERT_CU(CU(cuStreamCreate)(&later, CU_STREAM_NON_BLOCKING));
    EXPECT_CU(CU(cuStreamQuery)(later)) << "nothing is waited for any more";
    EXPECT_CU(CU(cuMemFreeHost)(gate));
}

}  // namespace
}  // namespace softgpu_test

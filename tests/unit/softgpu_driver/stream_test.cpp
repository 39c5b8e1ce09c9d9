// Tests of streams.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

class StreamTest : public DriverTest {
protected:
    void SetUp() override {
        DriverTest::SetUp();
        m_module = load_kernels();
        ASSERT_CU(CU(cuMemAlloc_v2)(&m_memory, 4096));
        ASSERT_CU(CU(cuMemsetD8_v2)(m_memory, 0, 4096));
        ASSERT_CU(CU(cuCtxSynchronize)());
    }
    CUstream create(unsigned int flags = 0) {
        CUstream stream = nullptr;
        EXPECT_CU(CU(cuStreamCreate)(&stream, flags));
        return stream;
    }
    /// Reads a word without any default stream, which would wait for other streams.
    uint32_t word(size_t index) {
        CUstream stream = create(CU_STREAM_NON_BLOCKING);
        uint32_t value = 0;
        EXPECT_CU(CU(cuMemcpyDtoHAsync_v2)(&value, m_memory + 4 * index, 4, stream));
        EXPECT_CU(CU(cuStreamSynchronize)(stream));
        EXPECT_CU(CU(cuStreamDestroy_v2)(stream));
        return value;
    }
    void open(size_t index) { EXPECT_CU(launch_store(m_module, m_memory + 4 * index, 1, m_opener)); }

    CUmodule m_module = nullptr;
    CUdeviceptr m_memory = 0;
    CUstream m_opener = nullptr;
};

TEST_F(StreamTest, PropertiesAreKept) {
    CUstream plain = create(), free = create(CU_STREAM_NON_BLOCKING), urgent = nullptr;
    EXPECT_CU(CU(cuStreamCreateWithPriority)(&urgent, CU_STREAM_NON_BLOCKING, -100));
    unsigned int flags = 9;
    EXPECT_CU(CU(cuStreamGetFlags)(free, &flags));
    EXPECT_EQ(flags, static_cast<unsigned int>(CU_STREAM_NON_BLOCKING));
    int priority = 9, least = 0, greatest = 0;
    EXPECT_CU(CU(cuCtxGetStreamPriorityRange)(&least, &greatest));
    EXPECT_CU(CU(cuStreamGetPriority)(urgent, &priority));
    EXPECT_EQ(priority, greatest);  // clamped
    unsigned long long a = 0, b = 0;
    EXPECT_CU(CU(cuStreamGetId)(plain, &a));
    EXPECT_CU(CU(cuStreamGetId)(free, &b));
    EXPECT_NE(a, b);
    CUcontext of = nullptr;
    EXPECT_CU(CU(cuStreamGetCtx)(plain, &of));
    EXPECT_EQ(of, context());
    EXPECT_EQ(CU(cuStreamCreate)(&plain, 0x80), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuStreamDestroy_v2)(free));
    EXPECT_EQ(CU(cuStreamDestroy_v2)(free), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(CU(cuStreamQuery)(free), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(CU(cuStreamSynchronize)(reinterpret_cast<CUstream>(0xdead)), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(StreamTest, QueryTellsWhetherWorkIsLeft) {
    m_opener = create(CU_STREAM_NON_BLOCKING);
    CUstream stream = create();
    EXPECT_CU(CU(cuStreamQuery)(stream));
    ASSERT_CU(launch_wait(m_module, m_memory, stream));
    EXPECT_EQ(CU(cuStreamQuery)(stream), CUDA_ERROR_NOT_READY);
    open(0);
    EXPECT_CU(CU(cuStreamSynchronize)(stream));
    EXPECT_CU(CU(cuStreamQuery)(stream));
}

TEST_F(StreamTest, LegacyStreamWaitsForBlockingStreamsOnly) {
    m_opener = create(CU_STREAM_NON_BLOCKING);
    CUstream blocking = create(), free = create(CU_STREAM_NON_BLOCKING);
    ASSERT_CU(launch_wait(m_module, m_memory, blocking));
    ASSERT_CU(launch_wait(m_module, m_memory + 4, free));
    ASSERT_CU(launch_store(m_module, m_memory + 8, 5, CU_STREAM_LEGACY));
    EXPECT_EQ(CU(cuStreamQuery)(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(word(2), 0u);
    open(0);
    EXPECT_CU(CU(cuStreamSynchronize)(nullptr));
    EXPECT_EQ(word(2), 5u);
    EXPECT_EQ(CU(cuStreamQuery)(free), CUDA_ERROR_NOT_READY);
    open(1);
    EXPECT_CU(CU(cuCtxSynchronize)());
}

TEST_F(StreamTest, BlockingStreamsWaitForTheLegacyStream) {
    m_opener = create(CU_STREAM_NON_BLOCKING);
    CUstream blocking = create();
    ASSERT_CU(launch_wait(m_module, m_memory, nullptr));
    ASSERT_CU(launch_store(m_module, m_memory + 4, 5, blocking));
    EXPECT_EQ(CU(cuStreamQuery)(blocking), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(word(1), 0u);
    open(0);
    EXPECT_CU(CU(cuStreamSynchronize)(blocking));
    EXPECT_EQ(word(1), 5u);
}

TEST_F(StreamTest, PerThreadStreamsAreTheThreads) {
    m_opener = create(CU_STREAM_NON_BLOCKING);
    unsigned long long mine = 0, again = 0, other = 0, legacy = 0;
    EXPECT_CU(CU(cuStreamGetId)(CU_STREAM_PER_THREAD, &mine));
    EXPECT_CU(reinterpret_cast<decltype(&::cuStreamGetId)>(symbol("cuStreamGetId_ptsz"))(nullptr, &again));
    EXPECT_CU(CU(cuStreamGetId)(nullptr, &legacy));
    CUcontext ours = context();
    std::thread([&] {
        EXPECT_CU(CU(cuCtxSetCurrent)(ours));
        EXPECT_CU(CU(cuStreamGetId)(CU_STREAM_PER_THREAD, &other));
    }).join();
    EXPECT_EQ(mine, again);
    EXPECT_NE(mine, other);
    EXPECT_NE(mine, legacy);
    // They do not wait for each other.
    ASSERT_CU(launch_wait(m_module, m_memory, CU_STREAM_PER_THREAD));
    std::thread([&] {
        EXPECT_CU(CU(cuCtxSetCurrent)(ours));
        EXPECT_CU(launch_store(m_module, m_memory + 4, 1, CU_STREAM_PER_THREAD));
        EXPECT_CU(CU(cuStreamSynchronize)(CU_STREAM_PER_THREAD));
    }).join();
    EXPECT_EQ(CU(cuStreamQuery)(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    open(0);
    EXPECT_CU(CU(cuStreamSynchronize)(CU_STREAM_PER_THREAD));
}

TEST_F(StreamTest, HostFunctionsRunInOrder) {
    CUstream stream = create();
    std::vector<int> order;
    struct Step {
        std::vector<int>* order;
        int number;
    };
    Step steps[] = {{&order, 0}, {&order, 1}, {&order, 2}};
    for (Step& step : steps) {
        auto note = [](void* p) { static_cast<Step*>(p)->order->push_back(static_cast<Step*>(p)->number); };
        EXPECT_CU(CU(cuLaunchHostFunc)(stream, note, &step));
        EXPECT_CU(launch_store(m_module, m_memory, 1, stream));
    }
    EXPECT_CU(CU(cuStreamSynchronize)(stream));
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(CU(cuLaunchHostFunc)(stream, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StreamTest, HostFunctionsHoldUpTheirStreamOnly) {
    CUstream held = create(CU_STREAM_NON_BLOCKING), other = create(CU_STREAM_NON_BLOCKING);
    std::atomic<bool> go{false};
    auto wait = [](void* p) {
        while (!*static_cast<std::atomic<bool>*>(p)) std::this_thread::yield();
    };
    EXPECT_CU(CU(cuLaunchHostFunc)(held, wait, &go));
    EXPECT_CU(launch_store(m_module, m_memory, 1, held));
    EXPECT_CU(launch_store(m_module, m_memory + 4, 2, other));
    EXPECT_CU(CU(cuStreamSynchronize)(other));
    EXPECT_EQ(CU(cuStreamQuery)(held), CUDA_ERROR_NOT_READY);
    go = true;
    EXPECT_CU(CU(cuStreamSynchronize)(held));
    EXPECT_EQ(word(0), 1u);
}

TEST_F(StreamTest, CallbacksAreToldStreamAndStatus) {
    CUstream stream = create();
    struct Seen {
        CUstream stream = nullptr;
        CUresult status = CUDA_ERROR_UNKNOWN;
    } seen;
    auto note = [](CUstream s, CUresult status, void* p) { *static_cast<Seen*>(p) = {s, status}; };
    EXPECT_CU(CU(cuStreamAddCallback)(stream, note, &seen, 0));
    EXPECT_CU(CU(cuStreamSynchronize)(stream));
    EXPECT_EQ(seen.stream, stream);
    EXPECT_EQ(seen.status, CUDA_SUCCESS);
    EXPECT_EQ(CU(cuStreamAddCallback)(stream, note, &seen, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StreamTest, ValuesInMemoryHoldStreams) {
    CUstream waiter = create(CU_STREAM_NON_BLOCKING), writer = create(CU_STREAM_NON_BLOCKING);
    EXPECT_CU(CU(cuStreamWaitValue32_v2)(waiter, m_memory, 10, CU_STREAM_WAIT_VALUE_GEQ));
    EXPECT_CU(launch_store(m_module, m_memory + 4, 1, waiter));
    EXPECT_CU(CU(cuStreamWriteValue32_v2)(writer, m_memory, 9, 0));
    EXPECT_CU(CU(cuStreamSynchronize)(writer));
    EXPECT_EQ(CU(cuStreamQuery)(waiter), CUDA_ERROR_NOT_READY);
    EXPECT_CU(CU(cuStreamWriteValue32_v2)(writer, m_memory, 10, 0));
    EXPECT_CU(CU(cuStreamSynchronize)(waiter));
    EXPECT_EQ(word(1), 1u);
    CUstreamBatchMemOpParams ops[2] = {};
    ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    ops[0].writeValue.address = m_memory + 16;
    ops[0].writeValue.value64 = 0x100000001;
    ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    ops[1].waitValue.address = m_memory + 16;
    ops[1].waitValue.value64 = 0x100000001;
    ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    EXPECT_CU(CU(cuStreamBatchMemOp_v2)(writer, 2, ops, 0));
    EXPECT_CU(CU(cuStreamSynchronize)(writer));
    EXPECT_EQ(word(5), 1u);
    EXPECT_EQ(CU(cuStreamWaitValue32_v2)(waiter, m_memory + 2, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuStreamWaitValue32_v2)(waiter, 0x1000, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StreamTest, DestroyedStreamsFinishTheirWork) {
    m_opener = create(CU_STREAM_NON_BLOCKING);
    CUstream stream = create();
    ASSERT_CU(launch_wait(m_module, m_memory, stream));
    ASSERT_CU(launch_store(m_module, m_memory + 4, 3, stream));
    EXPECT_CU(CU(cuStreamDestroy_v2)(stream));
    open(0);
    EXPECT_CU(CU(cuCtxSynchronize)());
    EXPECT_EQ(word(1), 3u);
}

TEST_F(StreamTest, AttributesAreKeptAndCopied) {
    CUstream a = create(), b = create();
    CUstreamAttrValue value{}, read{};
    value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
    EXPECT_CU(CU(cuStreamSetAttribute)(a, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    EXPECT_CU(CU(cuStreamCopyAttributes)(b, a));
    EXPECT_CU(CU(cuStreamGetAttribute)(b, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &read));
    EXPECT_EQ(read.syncPolicy, CU_SYNC_POLICY_BLOCKING_SYNC);
    EXPECT_EQ(CU(cuStreamSetAttribute)(a, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace softgpu_test

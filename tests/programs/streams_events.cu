// Streams that work side by side on pinned memory, ordered by events; event timing and queries.
#include "check.h"

__global__ void scale(float* data, int n, float factor) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] *= factor;
}
__global__ void accumulate(float* sum, const float* data, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum[i] += data[i];
}

static int priority_of(cudaStream_t stream) {
    int priority = 99;
    CHECK(cudaStreamGetPriority(stream, &priority));
    return priority;
}

// What a stream's priority is does not depend on how it has got it.
static void priorities() {
    int least, greatest;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t urgent, other;
    CHECK(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, greatest));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    EXPECT_EQ(priority_of(urgent), greatest);
    EXPECT_EQ(priority_of(other), least);
    CHECK(cudaStreamCopyAttributes(other, urgent));
    EXPECT_EQ(priority_of(other), greatest);
    cudaStreamAttrValue value = {};
    value.priority = least;
    CHECK(cudaStreamSetAttribute(other, cudaStreamAttributePriority, &value));
    EXPECT_EQ(priority_of(other), least);
    EXPECT_EQ(priority_of(urgent), greatest);
    value.priority = greatest;
    CHECK(cudaStreamGetAttribute(other, cudaStreamAttributePriority, &value));
    EXPECT_EQ(value.priority, least);
    for (cudaStream_t each : {urgent, other}) CHECK(cudaStreamDestroy(each));
}

int main() {
    priorities();
    const int n = 40000, count = 4;
    cudaStream_t streams[count];
    cudaEvent_t done[count], start, stop;
    float *host[count], *device[count], *sum, *result;
    int least, greatest;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(least >= greatest);
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaMalloc(&sum, n * sizeof(float)));
    CHECK(cudaMemset(sum, 0, n * sizeof(float)));
    CHECK(cudaMallocHost(&result, n * sizeof(float)));
    for (int s = 0; s < count; ++s) {
        if (s % 2 == 0)
            CHECK(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
        else
            CHECK(cudaStreamCreateWithPriority(&streams[s], cudaStreamDefault, greatest));
        CHECK(cudaEventCreateWithFlags(&done[s], cudaEventDisableTiming));
        CHECK(cudaMallocHost(&host[s], n * sizeof(float)));
        CHECK(cudaMalloc(&device[s], n * sizeof(float)));
        for (int i = 0; i < n; ++i) host[s][i] = static_cast<float>(i % 1000 + s);
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventRecord(start, streams[0]));
    for (int s = 0; s < count; ++s) {
        CHECK(cudaMemcpyAsync(device[s], host[s], n * sizeof(float), cudaMemcpyHostToDevice, streams[s]));
        scale<<<32, 128, 0, streams[s]>>>(device[s], n, static_cast<float>(s + 1));
        CHECK(cudaEventRecord(done[s], streams[s]));
        CHECK(cudaStreamWaitEvent(streams[0], done[s], 0));
        accumulate<<<32, 128, 0, streams[0]>>>(sum, device[s], n);
    }
    CHECK(cudaMemcpyAsync(result, sum, n * sizeof(float), cudaMemcpyDeviceToHost, streams[0]));
    CHECK(cudaEventRecord(stop, streams[0]));
    CHECK(cudaEventSynchronize(stop));
    CHECK(cudaEventQuery(stop));
    CHECK(cudaStreamQuery(streams[0]));
    for (int i = 0; i < n; ++i) {
        float expected = 0;
        for (int s = 0; s < count; ++s) expected += static_cast<float>(i % 1000 + s) * static_cast<float>(s + 1);
        EXPECT_EQ(result[i], expected);
    }
    float milliseconds = -1;
    CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    EXPECT(milliseconds > 0 && milliseconds < 60000);
    for (int s = 0; s < count; ++s) {
        CHECK(cudaStreamDestroy(streams[s]));
        CHECK(cudaEventDestroy(done[s]));
        CHECK(cudaFreeHost(host[s]));
        CHECK(cudaFree(device[s]));
    }
    CHECK(cudaFree(sum));
    CHECK(cudaFreeHost(result));
    return passed("streams and events");
}

// Pages that program and device use in turn come along with waits, and with each other: what is seen is what would be without that,
// for fewer round trips.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

struct Parameters {
    int* result;
    int* unused;  // an address that is left over from before, as in structures of frameworks
};
__global__ void step(Parameters parameters, int number) {
    if (parameters.result[1] == number - 1) parameters.result[0] += number;
    parameters.result[2] = number;
}
__global__ void other(int* memory) { memory[0] += 1; }
__global__ void fill(int** regions, int count, int words, int value) {
    for (int region = blockIdx.x; region < count; region += gridDim.x) {
        for (int i = threadIdx.x; i < words; i += blockDim.x) regions[region][i] = value + region;
    }
}

static const int k_steps = 50;

// A wait for each step, and what the step has written to page-locked memory, and what the program has.
static void waits(int way) {
    Parameters parameters;
    CHECK(cudaHostAlloc(&parameters.result, 8192, cudaHostAllocDefault));
    CHECK(cudaHostAlloc(&parameters.unused, 8192, cudaHostAllocDefault));
    std::memset(parameters.result, 0, 8192);
    std::memset(parameters.unused, 0, 8192);
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    int expected = 0;
    for (int number = 1; number <= k_steps; ++number) {
        step<<<1, 1, 0, way == 0 ? 0 : stream>>>(parameters, number);
        CHECK(cudaGetLastError());
        if (way == 0) CHECK(cudaDeviceSynchronize());
        if (way == 1) CHECK(cudaStreamSynchronize(stream));
        if (way == 2) {
            CHECK(cudaEventRecord(event, stream));
            CHECK(cudaEventSynchronize(event));
        }
        expected += number;
        EXPECT_EQ(parameters.result[0], expected);
        EXPECT_EQ(parameters.result[2], number);
        parameters.result[1] = number;
        parameters.unused[number] = number;
    }
    for (int number = 1; number <= k_steps; ++number) EXPECT_EQ(parameters.unused[number], number);
    CHECK(cudaFreeHost(parameters.result));
    CHECK(cudaFreeHost(parameters.unused));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaEventDestroy(event));
}

// A batch for each step, out of page-locked memory that is used again when an event says so. Kernels before the event write there,
// and others behind it might.
static void batches() {
    const int words = 2048, mark = 2000;
    int *batch, *device, *scratch;
    CHECK(cudaHostAlloc(&batch, words * sizeof(int), cudaHostAllocDefault));
    CHECK(cudaMalloc(&device, words * sizeof(int)));
    CHECK(cudaMalloc(&scratch, words * sizeof(int)));
    CHECK(cudaMemset(scratch, 0, words * sizeof(int)));
    std::memset(batch, 0, words * sizeof(int));
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    std::vector<int> back(words);
    for (int number = 1; number <= k_steps; ++number) {
        for (int i = 0; i < 1000; ++i) {
            EXPECT(number == 1 || batch[i] == (number - 1) * 1000 + i);
            batch[i] = number * 1000 + i;
        }
        CHECK(cudaMemcpyAsync(device, batch, words * sizeof(int), cudaMemcpyHostToDevice));
        other<<<1, 1>>>(batch + mark);
        CHECK(cudaEventRecord(event));
        for (int i = 0; i < 4; ++i) other<<<1, 1>>>(scratch);
        other<<<1, 1>>>(batch + mark + 1);
        CHECK(cudaGetLastError());
        while (cudaEventQuery(event) == cudaErrorNotReady) {
        }
        EXPECT_EQ(batch[mark], number);
        EXPECT(batch[mark + 1] >= number - 1 && batch[mark + 1] <= number);
    }
    CHECK(cudaMemcpy(back.data(), device, words * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(back[i], k_steps * 1000 + i);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(batch[mark + 1], k_steps);
    CHECK(cudaFreeHost(batch));
    CHECK(cudaFree(device));
    CHECK(cudaFree(scratch));
    CHECK(cudaEventDestroy(event));
}

// Many large pieces of managed memory, in their order or in another one.
static void regions(bool mixed) {
    const int count = 24, words = 128 << 10;
    int** all;
    CHECK(cudaMallocManaged(&all, count * sizeof(int*)));
    for (int i = 0; i < count; ++i) CHECK(cudaMallocManaged(&all[i], words * sizeof(int)));
    std::vector<int> order(count);
    for (int i = 0; i < count; ++i) order[i] = i;
    Random random(5);
    for (int i = count - 1; mixed && i > 0; --i) std::swap(order[i], order[random.next() % (i + 1)]);
    for (int round = 1; round <= 6; ++round) {
        fill<<<8, 128>>>(all, count, words, round * 100);
        CHECK(cudaDeviceSynchronize());
        for (const int region : order) {
            for (int i = 0; i < words; i += 500) EXPECT_EQ(all[region][i], round * 100 + region);
            if (region % 5 == 0) all[region][7] = -1;
        }
    }
    for (int i = 0; i < count; ++i) CHECK(cudaFree(all[i]));
    CHECK(cudaFree(all));
}

// A word of each array, at the same place; then, of some, all of it, and at last words at other places.
static void parts() {
    const int count = 200, words = 256 << 10, place = 100000;
    int** all;
    CHECK(cudaMallocManaged(&all, count * sizeof(int*)));
    for (int i = 0; i < count; ++i) CHECK(cudaMallocManaged(&all[i], words * sizeof(int)));
    fill<<<8, 128>>>(all, count, words, 100);
    CHECK(cudaDeviceSynchronize());
    for (int region = 0; region < count; ++region) EXPECT_EQ(all[region][place], 100 + region);
    for (int region = 0; region < 20; ++region) {
        for (int i = 0; i < words; i += 500) EXPECT_EQ(all[region][i], 100 + region);
    }
    for (int region = count - 1; region > count - 5; --region) EXPECT_EQ(all[region][region * 1000], 100 + region);
    for (int i = 0; i < count; ++i) CHECK(cudaFree(all[i]));
    CHECK(cudaFree(all));
}

// Of memory that was written once the steps use the first page alone: what lies behind it takes no question in each of them.
static void tail(bool managed) {
    int* memory = nullptr;
    CHECK(managed ? cudaMallocManaged(&memory, 16384) : cudaHostAlloc(&memory, 16384, cudaHostAllocDefault));
    std::memset(memory, 0, 16384);
    for (int number = 1; number <= 72; ++number) {
        memory[0] += 1;
        other<<<1, 1>>>(memory);
        CHECK(cudaDeviceSynchronize());
        EXPECT_EQ(memory[0], 2 * number);
    }
    EXPECT_EQ(memory[4095], 0);
    CHECK(managed ? cudaFree(memory) : cudaFreeHost(memory));
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "context") waits(0);
    if (what == "stream") waits(1);
    if (what == "event") waits(2);
    if (what == "batches") batches();
    if (what == "tail") tail(false);
    if (what == "managed_tail") tail(true);
    if (what == "regions") regions(false);
    if (what == "mixed") regions(true);
    if (what == "parts") parts();
    return passed(("pages that come along, " + what).c_str());
}

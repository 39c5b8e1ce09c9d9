// For test_bulk.py. `upload`, `download`: one thread copies a lot, another launches and waits meanwhile, in a stream of its
// own. `back`: an asynchronous copy to the program, with work behind it. `rows`: copies of rows, layers and arrays, `sync` or
// `async`, with work between them; each must be exactly what it says. `query`: asks whether a copy is done, `upload` or
// `download`. `pile`: many small copies behind a large one to the program, queued when there is a line on stdin. `locked`:
// copies from page-locked memory, queued likewise, whatever the network does. `several`: copies to the program that are under
// way in several streams at a time, of sizes below and above what travels in one part.
#include <atomic>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>

#include "check.h"

constexpr size_t k_bytes = size_t{256} << 20;

__global__ void increment(int* data) { data[threadIdx.x] += 1; }

static std::vector<uint32_t> numbers(size_t bytes, uint32_t seed) {
    std::vector<uint32_t> data(bytes / sizeof(uint32_t));
    for (size_t i = 0; i < data.size(); ++i) data[i] = (static_cast<uint32_t>(i) + seed) * 2654435761u;
    return data;
}

/// How far the two threads are.
enum class Stage { preparing, ready, copying, copied };

/// Rounds of launch and wait that begin and end while the other thread copies.
static int rounds_beside(std::atomic<Stage>& stage) {
    constexpr int k_threads = 32;
    cudaStream_t stream;
    int* data = nullptr;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&data, k_threads * sizeof(int)));
    CHECK(cudaMemsetAsync(data, 0, k_threads * sizeof(int), stream));
    CHECK(cudaStreamSynchronize(stream));
    int begun = 0, within = 0;
    stage = Stage::ready;
    while (stage == Stage::ready) std::this_thread::yield();
    while (stage == Stage::copying) {
        increment<<<1, k_threads, 0, stream>>>(data);
        CHECK(cudaGetLastError());
        CHECK(cudaStreamSynchronize(stream));
        ++begun;
        within += stage == Stage::copying ? 1 : 0;
    }
    int host[k_threads];
    CHECK(cudaMemcpyAsync(host, data, sizeof host, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int value : host) EXPECT_EQ(value, begun);
    CHECK(cudaFree(data));
    CHECK(cudaStreamDestroy(stream));
    return within;
}

static int beside(bool upload) {
    const std::vector<uint32_t> source = numbers(k_bytes, 1);
    std::vector<uint32_t> back(source.size());
    uint32_t* device = nullptr;
    CHECK(cudaMalloc(&device, k_bytes));
    if (!upload) CHECK(cudaMemcpy(device, source.data(), k_bytes, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    increment<<<1, 1>>>(reinterpret_cast<int*>(device));  // the kernel is loaded
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(device, source.data(), sizeof(int), cudaMemcpyHostToDevice));
    std::atomic<Stage> stage{Stage::preparing};
    int rounds = 0;
    std::thread other([&] { rounds = rounds_beside(stage); });
    while (stage == Stage::preparing) std::this_thread::yield();
    stage = Stage::copying;
    if (upload) {
        CHECK(cudaMemcpy(device, source.data(), k_bytes, cudaMemcpyHostToDevice));
    } else {
        CHECK(cudaMemcpy(back.data(), device, k_bytes, cudaMemcpyDeviceToHost));
    }
    stage = Stage::copied;
    other.join();
    if (upload) CHECK(cudaMemcpy(back.data(), device, k_bytes, cudaMemcpyDeviceToHost));
    EXPECT(back == source);
    std::printf("rounds beside it: %d\n", rounds);
    CHECK(cudaFree(device));
    return passed("bulk");
}

static int locked() {
    constexpr size_t k_locked = size_t{48} << 20;
    const std::vector<uint32_t> first = numbers(k_locked, 1), second = numbers(k_locked, 2);
    uint32_t *device[2], *host[2];
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < 2; ++i) {
        CHECK(cudaMalloc(&device[i], k_locked));
        CHECK(cudaMallocHost(&host[i], k_locked));
        std::memcpy(host[i], i == 0 ? first.data() : second.data(), k_locked);
    }
    CHECK(cudaDeviceSynchronize());
    std::printf("ready\n");
    std::fflush(stdout);
    std::string line;
    std::getline(std::cin, line);
    CHECK(cudaMemcpyAsync(device[0], host[0], k_locked, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(device[1], host[1], k_locked, cudaMemcpyHostToDevice, stream));
    std::printf("queued\n");
    std::fflush(stdout);
    std::getline(std::cin, line);
    // Waits until nobody reads from there any more.
    CHECK(cudaFreeHost(host[0]));
    CHECK(cudaStreamSynchronize(stream));
    std::memset(host[1], 0, k_locked);
    std::vector<uint32_t> back(first.size());
    for (int i = 0; i < 2; ++i) {
        CHECK(cudaMemcpy(back.data(), device[i], k_locked, cudaMemcpyDeviceToHost));
        EXPECT(back == (i == 0 ? first : second));
        CHECK(cudaFree(device[i]));
    }
    CHECK(cudaFreeHost(host[1]));
    CHECK(cudaStreamDestroy(stream));
    return passed("bulk");
}

__global__ void overwrite(uint32_t* data, size_t count) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) data[i] = 7;
}

/// What the stream does behind a copy to the program does not touch what is copied.
static int back() {
    const std::vector<uint32_t> source = numbers(k_bytes, 3);
    uint32_t *device = nullptr, *host = nullptr;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&device, k_bytes));
    CHECK(cudaMallocHost(&host, k_bytes));
    CHECK(cudaMemcpy(device, source.data(), k_bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyAsync(host, device, k_bytes, cudaMemcpyDeviceToHost, stream));
    overwrite<<<64, 256, 0, stream>>>(device, source.size());
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(std::memcmp(host, source.data(), k_bytes) == 0);
    CHECK(cudaMemcpy(host, device, sizeof *host, cudaMemcpyDeviceToHost));
    EXPECT_EQ(*host, 7u);
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(device));
    CHECK(cudaStreamDestroy(stream));
    return passed("bulk");
}

/// Many small copies to the program are told of behind a large one, which is complete only when the parts of it are there.
static int pile() {
    // All of the large one fits into what sockets hold, and the small ones need no parts.
    constexpr size_t k_large = size_t{1536} << 10, k_small = size_t{64} << 10, k_count = 1300;
    const std::vector<uint32_t> source = numbers(k_large, 5);
    uint32_t *device = nullptr, *large = nullptr, *small = nullptr;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&device, k_large));
    CHECK(cudaMallocHost(&large, k_large));
    CHECK(cudaMallocHost(&small, k_count * k_small));
    CHECK(cudaMemcpy(device, source.data(), k_large, cudaMemcpyHostToDevice));
    std::string line;
    std::cout << "ready" << std::endl;
    std::getline(std::cin, line);
    CHECK(cudaMemcpyAsync(large, device, k_large, cudaMemcpyDeviceToHost, stream));
    for (size_t i = 0; i < k_count; ++i)
        CHECK(cudaMemcpyAsync(small + i * k_small / 4, device, k_small, cudaMemcpyDeviceToHost, stream));
    std::cout << "queued" << std::endl;
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(std::memcmp(large, source.data(), k_large) == 0);
    for (size_t i = 0; i < k_count; ++i) EXPECT(std::memcmp(small + i * k_small / 4, source.data(), k_small) == 0);
    CHECK(cudaFreeHost(small));
    CHECK(cudaFreeHost(large));
    CHECK(cudaFree(device));
    CHECK(cudaStreamDestroy(stream));
    return passed("bulk");
}

/// Who asks whether a copy is done while its bytes travel is told that it is not, at once: the answer comes before the copy's
/// end, or it would not be that one.
static int query(bool upload) {
    const std::vector<uint32_t> source = numbers(k_bytes, 4);
    uint32_t *device = nullptr, *host = nullptr;
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaMalloc(&device, k_bytes));
    CHECK(cudaMallocHost(&host, k_bytes));
    std::memcpy(host, source.data(), k_bytes);
    if (!upload) {
        CHECK(cudaMemcpy(device, host, k_bytes, cudaMemcpyHostToDevice));
        std::memset(host, 0, k_bytes);
    }
    CHECK(cudaMemcpyAsync(upload ? device : host, upload ? host : device, k_bytes, cudaMemcpyDefault, stream));
    CHECK(cudaEventRecord(event, stream));
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaStreamQuery(stream));
    if (upload) {
        std::memset(host, 0, k_bytes);
        CHECK(cudaMemcpy(host, device, k_bytes, cudaMemcpyDeviceToHost));
    }
    EXPECT(std::memcmp(host, source.data(), k_bytes) == 0);
    CHECK(cudaEventDestroy(event));
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(device));
    CHECK(cudaStreamDestroy(stream));
    return passed("bulk");
}

/// A block of memory as copies with rows see it: of each row of `pitch` bytes, `width` are copied.
struct Shape {
    const char* name;
    size_t width, height, depth;
    size_t pitch;        // here
    bool array = false;  // the other end
    size_t rows() const { return height * depth; }
};

/// The end on the device.
struct Far {
    cudaPitchedPtr memory{};
    cudaArray_t array = nullptr;
};

static Far make_far(const Shape& shape) {
    Far far;
    if (shape.array) {
        const cudaChannelFormatDesc format = cudaCreateChannelDesc<uint32_t>();
        CHECK(cudaMalloc3DArray(&far.array, &format, make_cudaExtent(shape.width / 4, shape.height, shape.depth)));
    } else {
        CHECK(cudaMalloc3D(&far.memory, make_cudaExtent(shape.width, shape.height, shape.depth)));
    }
    return far;
}

static void copy_rows(const Shape& shape, const Far& far, void* here, cudaMemcpyKind kind, cudaStream_t stream, bool async) {
    cudaMemcpy3DParms copy{};
    const cudaPitchedPtr near = make_cudaPitchedPtr(here, shape.pitch, shape.width, shape.height);
    const bool up = kind == cudaMemcpyHostToDevice;
    (up ? copy.srcPtr : copy.dstPtr) = near;
    if (shape.array) {
        (up ? copy.dstArray : copy.srcArray) = far.array;
        copy.extent = make_cudaExtent(shape.width / 4, shape.height, shape.depth);
    } else {
        (up ? copy.dstPtr : copy.srcPtr) = far.memory;
        copy.extent = make_cudaExtent(shape.width, shape.height, shape.depth);
    }
    copy.kind = kind;
    if (async) {
        CHECK(cudaMemcpy3DAsync(&copy, stream));
    } else if (shape.depth == 1 && !shape.array) {
        CHECK(cudaMemcpy2D(up ? far.memory.ptr : here, up ? far.memory.pitch : shape.pitch, up ? here : far.memory.ptr,
                           up ? shape.pitch : far.memory.pitch, shape.width, shape.height, kind));
    } else {
        CHECK(cudaMemcpy3D(&copy));
    }
}

/// There and back: rows as they were, and what lies between them untouched.
static void check_shape(const Shape& shape, bool async) {
    const size_t bytes = shape.pitch * shape.rows();
    const Far far = make_far(shape);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    unsigned char *there, *back;
    CHECK(cudaMallocHost(&there, bytes));
    CHECK(cudaMallocHost(&back, bytes));
    const std::vector<uint32_t> source = numbers(bytes, 5);
    std::memcpy(there, source.data(), bytes);
    std::memset(back, 0xee, bytes);
    copy_rows(shape, far, there, cudaMemcpyHostToDevice, stream, async);
    copy_rows(shape, far, back, cudaMemcpyDeviceToHost, stream, async);
    // Behind the copy, in its stream: overtakes no part of it.
    if (async && !shape.array) {
        overwrite<<<64, 256, 0, stream>>>(static_cast<uint32_t*>(far.memory.ptr), far.memory.pitch * shape.rows() / 4);
        CHECK(cudaGetLastError());
    }
    if (async) CHECK(cudaStreamSynchronize(stream));
    for (size_t row = 0; row < shape.rows(); ++row) {
        const unsigned char* const got = back + row * shape.pitch;
        if (std::memcmp(got, there + row * shape.pitch, shape.width) != 0) {
            std::fprintf(stderr, "%s: row %zu is another one\n", shape.name, row);
            fail();
        }
        for (size_t x = shape.width; x < shape.pitch; ++x) EXPECT_EQ(+got[x], 0xee);
    }
    if (async && !shape.array) {
        uint32_t first = 0;
        CHECK(cudaMemcpy(&first, far.memory.ptr, sizeof first, cudaMemcpyDeviceToHost));
        EXPECT_EQ(first, 7u);
    }
    CHECK(cudaFreeHost(there));
    CHECK(cudaFreeHost(back));
    CHECK(cudaStreamDestroy(stream));
    if (shape.array)
        CHECK(cudaFreeArray(far.array));
    else
        CHECK(cudaFree(far.memory.ptr));
}

static int rows(bool async) {
    constexpr size_t k_large_bytes = size_t{96} << 20;  // four times what test_bulk.py has of staging memory
    const Shape shapes[] = {
        {"short rows", 4000, k_large_bytes / 4000, 1, 4096},
        {"long rows", (3 << 20) + 40, 20, 1, (3 << 20) + 64},
        {"layers", 1000, 300, 200, 1024},
        {"array", 32768, k_large_bytes / 32768, 1, 32768, true},
        {"array of layers", 4096, 100, 64, 4100, true},
    };
    for (const Shape& shape : shapes) check_shape(shape, async);
    return passed("bulk");
}

/// Each stream's bytes of each round are their own.
static int several() {
    constexpr size_t k_streams = 8;
    constexpr size_t k_sizes[] = {60000, 200000, 300000, 400000, 520000, 700000};
    constexpr size_t k_most = 700000;
    cudaStream_t streams[k_streams];
    unsigned char *device[k_streams], *host[k_streams];
    for (size_t i = 0; i < k_streams; ++i) {
        CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        CHECK(cudaMalloc(&device[i], k_most));
        CHECK(cudaMallocHost(&host[i], k_most));
    }
    for (int round = 0; round < 60; ++round) {
        for (const size_t bytes : k_sizes) {
            const auto value = [&](size_t i) { return static_cast<unsigned char>(round * 31 + i * 7 + bytes / 1000); };
            for (size_t i = 0; i < k_streams; ++i) {
                CHECK(cudaMemsetAsync(device[i], value(i), bytes, streams[i]));
                CHECK(cudaMemcpyAsync(host[i], device[i], bytes, cudaMemcpyDeviceToHost, streams[i]));
            }
            for (size_t i = 0; i < k_streams; ++i) {
                CHECK(cudaStreamSynchronize(streams[i]));
                const std::vector<unsigned char> wanted(bytes, value(i));
                EXPECT(std::memcmp(host[i], wanted.data(), bytes) == 0);
            }
        }
    }
    for (size_t i = 0; i < k_streams; ++i) {
        CHECK(cudaStreamDestroy(streams[i]));
        CHECK(cudaFree(device[i]));
        CHECK(cudaFreeHost(host[i]));
    }
    return passed("bulk");
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "locked") return locked();
    if (what == "back") return back();
    if (what == "pile") return pile();
    if (what == "several") return several();
    if (what == "query") return query(argc > 2 && std::string(argv[2]) == "upload");
    if (what == "rows") return rows(argc > 2 && std::string(argv[2]) == "async");
    return beside(what == "upload");
}

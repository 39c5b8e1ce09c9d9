// Threads that each use memory of all kinds as they like, beside each other, and know what must be in it.
//   memory_walks SEED THREADS STEPS [CYCLES]
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

__global__ void change(int* data, int n, int factor, int what, long long cycles) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] = data[i] * factor + what;
}

enum class Kind { managed, attached, mapped, pinned, registered, device };

struct Buffer {
    Kind kind;
    int* host;  // null: the program cannot look at it
    int* device;
    std::vector<int> expected;
    std::vector<int> own;  // registered
    int size() const { return static_cast<int>(expected.size()); }
};

// A part of a buffer.
struct Part {
    int begin, n;
    size_t bytes() const { return n * sizeof(int); }
    int end() const { return begin + n; }
};

struct Function {
    int* data;
    int n, what;
};
static void on_host(void* argument) {
    auto* function = static_cast<Function*>(argument);
    for (int i = 0; i < function->n; ++i) function->data[i] += function->what;
    delete function;
}

class Walk {
public:
    Walk(unsigned seed, long long cycles) : m_random(seed), m_seed(seed), m_cycles(cycles) {
        CHECK(cudaStreamCreateWithFlags(&m_stream, seed % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
        CHECK(cudaEventCreate(&m_event));
        for (int i = 0; i < 5; ++i) m_buffers.push_back(make());
    }
    ~Walk() {
        for (Buffer& buffer : m_buffers) look_at(buffer);
        wait();
        for (Buffer& buffer : m_buffers) drop(buffer);
        CHECK(cudaEventDestroy(m_event));
        CHECK(cudaStreamDestroy(m_stream));
    }
    void step() {
        ++m_step;
        Buffer& buffer = m_buffers[below(m_buffers.size())];
        switch (below(16)) {
            case 0:
            case 1: return write_to(buffer);
            case 2:
            case 3: return look_at(buffer);
            case 4:
            case 5:
            case 6: return launch(buffer);
            case 7: return copy(buffer, m_buffers[below(m_buffers.size())]);
            case 8: return fill(buffer);
            case 9: return wait();
            case 10: return replace(buffer);
            case 11: return prefetch(buffer);
            case 12: return call_function(buffer);
            case 13: return read_from_pipe(buffer);
            case 14: return upload(buffer);
            default: return download(buffer);
        }
    }

private:
    int below(size_t n) { return static_cast<int>(m_random.next() % n); }

    Buffer make() {
        static const int k_most[] = {50, 3000, 30000, 300000};
        Buffer made{static_cast<Kind>(below(6)), nullptr, nullptr, {}, {}};
        made.expected.resize(1 + below(k_most[below(4)]));
        const size_t bytes = made.size() * sizeof(int);
        switch (made.kind) {
            case Kind::managed: CHECK(cudaMallocManaged(&made.host, bytes)); break;
            case Kind::attached:
                CHECK(cudaMallocManaged(&made.host, bytes, below(2) ? cudaMemAttachHost : cudaMemAttachGlobal));
                CHECK(cudaStreamAttachMemAsync(m_stream, made.host, 0, cudaMemAttachSingle));
                CHECK(cudaStreamSynchronize(m_stream));
                break;
            case Kind::mapped: CHECK(cudaHostAlloc(&made.host, bytes, cudaHostAllocMapped)); break;
            case Kind::pinned: CHECK(cudaMallocHost(&made.host, bytes)); break;  // until a kernel uses it, it is copied only
            case Kind::registered:
                made.own.resize(made.size());
                made.host = made.own.data();
                CHECK(cudaHostRegister(made.host, bytes, cudaHostRegisterMapped));
                CHECK(cudaHostGetDevicePointer(&made.device, made.host, 0));
                break;
            case Kind::device: CHECK(cudaMalloc(&made.device, bytes)); break;
        }
        if (!made.device) made.device = made.host;
        for (int i = 0; i < made.size(); ++i) made.expected[i] = i + m_seed;
        if (made.host)
            std::copy(made.expected.begin(), made.expected.end(), made.host);
        else
            CHECK(cudaMemcpyAsync(made.device, made.expected.data(), bytes, cudaMemcpyHostToDevice, m_stream));
        m_pending = true;
        return made;
    }
    void drop(Buffer& buffer) {
        if (buffer.kind == Kind::mapped || buffer.kind == Kind::pinned)
            CHECK(cudaFreeHost(buffer.host));
        else if (buffer.kind == Kind::registered)
            CHECK(cudaHostUnregister(buffer.host));
        else
            CHECK(cudaFree(buffer.device));
    }
    void replace(Buffer& buffer) {
        wait();
        drop(buffer);
        buffer = make();
    }

    Part part_of(const Buffer& buffer) {
        const int begin = below(buffer.size());
        const int n = 1 + below(buffer.size() - begin);
        return {begin, below(3) == 0 ? std::min(n, 20) : n};
    }
    // What the stream does is to be over before the program looks, in one way or another.
    void wait() {
        switch (below(6)) {
            case 0: CHECK(cudaDeviceSynchronize()); break;
            case 1:
                CHECK(cudaEventRecord(m_event, m_stream));
                CHECK(cudaEventSynchronize(m_event));
                break;
            case 2:
                CHECK(cudaEventRecord(m_event, m_stream));
                while (cudaEventQuery(m_event) == cudaErrorNotReady) {
                }
                break;
            case 3:
                while (cudaStreamQuery(m_stream) == cudaErrorNotReady) {
                }
                break;
            default: CHECK(cudaStreamSynchronize(m_stream));
        }
        m_pending = false;
    }
    void settle() {
        if (m_pending) wait();
    }
    void compare(const Buffer& buffer, const int* got, Part part) {
        for (int i = part.begin; i < part.end(); ++i) {
            if (got[i - part.begin] == buffer.expected[i]) continue;
            std::fprintf(stderr, "seed %u, step %d: [%d] of %d, memory of kind %d, is %d and not %d\n", m_seed, m_step, i,
                         buffer.size(), static_cast<int>(buffer.kind), got[i - part.begin], buffer.expected[i]);
            fail();
        }
    }

    void write_to(Buffer& buffer) {
        if (!buffer.host) return;
        settle();
        const Part part = part_of(buffer);
        const int what = below(1000);
        for (int i = part.begin; i < part.end(); ++i) buffer.host[i] = buffer.expected[i] = what + i;
    }
    void look_at(Buffer& buffer) {
        settle();
        const Part part = below(2) ? part_of(buffer) : Part{0, buffer.size()};
        if (buffer.host) return compare(buffer, buffer.host + part.begin, part);
        std::vector<int> got(part.n);
        CHECK(cudaMemcpy(got.data(), buffer.device + part.begin, part.bytes(), cudaMemcpyDeviceToHost));
        compare(buffer, got.data(), part);
    }
    void launch(Buffer& buffer) {
        const Part part = part_of(buffer);
        const int factor = 1 + below(3), what = below(100);
        change<<<2, 64, 0, m_stream>>>(buffer.device + part.begin, part.n, factor, what, below(3) == 0 ? m_cycles : 0);
        CHECK(cudaGetLastError());
        for (int i = part.begin; i < part.end(); ++i) buffer.expected[i] = buffer.expected[i] * factor + what;
        m_pending = true;
    }
    void copy(Buffer& to, Buffer& from) {
        if (&to == &from) return;
        Part part = part_of(to);
        part.n = std::min(part.n, from.size());
        const int at = below(from.size() - part.n + 1);
        int* destination = to.host && below(2) ? to.host : to.device;
        const int* source = from.host && below(2) ? from.host : from.device;
        CHECK(cudaMemcpyAsync(destination + part.begin, source + at, part.bytes(), cudaMemcpyDefault, m_stream));
        std::copy_n(from.expected.begin() + at, part.n, to.expected.begin() + part.begin);
        m_pending = true;
    }
    void fill(Buffer& buffer) {
        const Part part = part_of(buffer);
        const int byte = below(256);
        CHECK(cudaMemsetAsync(buffer.device + part.begin, byte, part.bytes(), m_stream));
        std::memset(&buffer.expected[part.begin], byte, part.bytes());
        m_pending = true;
    }
    void prefetch(Buffer& buffer) {
        if (buffer.kind != Kind::managed) return;
        const Part part = part_of(buffer);
        cudaMemLocation where{};
        where.type = below(2) ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost;
        const cudaError_t done = cudaMemPrefetchAsync(buffer.device + part.begin, part.bytes(), where, 0, m_stream);
        if (done != cudaSuccess) EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);  // no concurrent access
        m_pending = true;
    }
    void call_function(Buffer& buffer) {
        if (!buffer.host) return;
        const Part part = part_of(buffer);
        const int what = below(50);
        CHECK(cudaLaunchHostFunc(m_stream, on_host, new Function{buffer.host + part.begin, part.n, what}));
        for (int i = part.begin; i < part.end(); ++i) buffer.expected[i] += what;
        m_pending = true;
    }
    // Less than a pipe holds. That it comes in pieces is the reader's business with pipes.
    void read_from_pipe(Buffer& buffer) {
        if (!buffer.host) return;
        settle();
        Part part = part_of(buffer);
        part.n = std::min(part.n, 10000);
        std::vector<int> numbers(part.n);
        for (int& number : numbers) number = static_cast<int>(m_random.next());
        int ends[2];
        EXPECT_EQ(pipe(ends), 0);
        EXPECT_EQ(write(ends[1], numbers.data(), part.bytes()), static_cast<ssize_t>(part.bytes()));
        char* to = reinterpret_cast<char*>(buffer.host + part.begin);
        for (size_t done = 0; done < part.bytes();) {
            const ssize_t more = read(ends[0], to + done, part.bytes() - done);
            EXPECT(more > 0);
            done += more;
        }
        close(ends[0]);
        close(ends[1]);
        std::copy(numbers.begin(), numbers.end(), buffer.expected.begin() + part.begin);
    }
    void upload(Buffer& buffer) {
        const Part part = part_of(buffer);
        std::vector<int> numbers(part.n);
        for (int& number : numbers) number = static_cast<int>(m_random.next());
        CHECK(cudaMemcpyAsync(buffer.device + part.begin, numbers.data(), part.bytes(), cudaMemcpyHostToDevice, m_stream));
        std::copy(numbers.begin(), numbers.end(), buffer.expected.begin() + part.begin);
        m_pending = true;
    }
    void download(Buffer& buffer) {
        const Part part = part_of(buffer);
        std::vector<int> got(part.n);
        CHECK(cudaMemcpyAsync(got.data(), buffer.device + part.begin, part.bytes(), cudaMemcpyDeviceToHost, m_stream));
        CHECK(cudaStreamSynchronize(m_stream));
        m_pending = false;
        compare(buffer, got.data(), part);
    }

    Random m_random;
    const unsigned m_seed;
    const long long m_cycles;
    int m_step = 0;
    bool m_pending = true;
    cudaStream_t m_stream;
    cudaEvent_t m_event;
    std::vector<Buffer> m_buffers;
};

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    const unsigned seed = std::atoi(argv[1]);
    const int count = std::atoi(argv[2]), steps = std::atoi(argv[3]);
    const long long cycles = argc > 4 ? std::atoll(argv[4]) : 1000000;
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
        threads.emplace_back([=] {
            Walk walk(seed * 100 + i, cycles);
            for (int step = 0; step < steps; ++step) walk.step();
        });
    }
    for (std::thread& thread : threads) thread.join();
    return passed("walks through memory");
}

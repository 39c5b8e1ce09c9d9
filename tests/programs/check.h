// What every test program shares: a failed CUDA call or a wrong result ends it with exit code 1 and one line that says what.
#pragma once

#include <cuda_runtime.h>
#include <pthread.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// How many checks have failed in a program that goes on all the same (TEST_GO_ON): what scripts/test-gpu shows of a driver that
// does something else is then all of it, rather than the first thing.
inline int& failures() {
    static int count = 0;
    return count;
}

// Ends the program, unless it is to go on. Of threads that fail at the same time one does; the others wait for the end, for
// exit() is for one thread alone. (Not a mutex of the standard library's: its header is a third of what a program costs to
// compile.)
inline void fail() {
    static pthread_mutex_t alone = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;  // what runs at exit may fail, too
    pthread_mutex_lock(&alone);
    if (std::getenv("TEST_GO_ON") == nullptr || ++failures() == 100) std::exit(1);
    pthread_mutex_unlock(&alone);
}

#define CHECK(call)                                                                                                  \
    do {                                                                                                             \
        cudaError_t check_error = (call);                                                                            \
        if (check_error != cudaSuccess) {                                                                            \
            std::fprintf(stderr, "%s:%d: %s: %s (%d)\n", __FILE__, __LINE__, #call, cudaGetErrorString(check_error), \
                         static_cast<int>(check_error));                                                             \
            fail();                                                                                                  \
        }                                                                                                            \
    } while (0)

#define EXPECT(condition)                                                                 \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
            fail();                                                                       \
        }                                                                                 \
    } while (0)

#define EXPECT_EQ(a, b)                                                                                       \
    do {                                                                                                      \
        auto check_a = (a);                                                                                   \
        auto check_b = (b);                                                                                   \
        if (!(check_a == check_b)) {                                                                          \
            std::fprintf(stderr, "%s:%d: expected %s == %s, got %.9g and %.9g\n", __FILE__, __LINE__, #a, #b, \
                         static_cast<double>(check_a), static_cast<double>(check_b));                         \
            fail();                                                                                           \
        }                                                                                                     \
    } while (0)

// A repeatable stream of numbers, the same on every machine.
class Random {
public:
    explicit Random(unsigned seed) : m_state(seed * 2654435761u + 1) {}
    unsigned next() { return m_state = m_state * 1664525u + 1013904223u, m_state >> 8; }
    float uniform() { return static_cast<float>(next() % 10000) / 10000.0f; }

private:
    unsigned m_state;
};

template <typename T>
class DeviceArray {
public:
    explicit DeviceArray(size_t count) : m_count(count) { CHECK(cudaMalloc(&m_data, count * sizeof(T))); }
    explicit DeviceArray(const std::vector<T>& host) : DeviceArray(host.size()) { upload(host); }
    ~DeviceArray() { cudaFree(m_data); }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;
    void upload(const std::vector<T>& host) {
        CHECK(cudaMemcpy(m_data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    std::vector<T> download() const {
        std::vector<T> host(m_count);
        CHECK(cudaMemcpy(host.data(), m_data, m_count * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }
    T* data() { return m_data; }
    size_t size() const { return m_count; }

private:
    T* m_data = nullptr;
    size_t m_count;
};

inline int passed(const char* what) {
    if (failures() != 0) return 1;
    std::printf("%s: verified\n", what);
    return 0;
}

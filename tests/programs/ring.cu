// A kernel publishes: it writes data, then an index, which are on different pages of page-locked memory. A loop of the program's that
// looks at the index without a CUDA call, and then at the data, finds data that is at least as new.
#include <chrono>
#include <string>

#include "check.h"

static const int k_page = 4096 / sizeof(int);

// The program looks at all of them; `stop` it writes.
struct Ring {
    volatile int *data, *more, *index, *stop;
};

__global__ void publish(Ring ring, long long pause, long long limit) {
    const long long end = clock64() + limit;
    for (int i = 1; clock64() < end; ++i) {
        *ring.data = i;
        *ring.more = i;
        __threadfence_system();
        *ring.index = i;
        __threadfence_system();
        for (const long long until = clock64() + pause; clock64() < until;) {
        }
        if (*ring.stop != 0) return;
    }
}

// @param pause  of the kernel, between one and the next: 0, and it writes faster than anybody can look
static void look(Ring ring, long long pause, int wanted) {
    *ring.data = *ring.more = *ring.index = *ring.stop = 0;
    publish<<<1, 1>>>(ring, pause, 40000000000ll);
    CHECK(cudaGetLastError());
    const auto start = std::chrono::steady_clock::now();
    int seen = 0, last = 0, looked = 0;
    while (seen < wanted) {
        const int data = *ring.data, more = *ring.more;
        const int index = *ring.index;
        const int data_behind = *ring.data, more_behind = *ring.more;
        ++looked;
        EXPECT(index >= last);
        EXPECT(data_behind >= data && more_behind >= more);
        if (data_behind < index || more_behind < index) {
            std::fprintf(stderr, "look %d: index %d, and behind it %d and %d\n", looked, index, data_behind, more_behind);
            std::exit(1);
        }
        seen += index != last;
        last = index;
        EXPECT(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
    }
    *ring.stop = 1;
    CHECK(cudaDeviceSynchronize());
    const int index = *ring.index;
    EXPECT(index >= last && *ring.data >= index && *ring.more >= index);
}

int main(int argc, char** argv) {
    const std::string where = argc > 1 ? argv[1] : "behind";
    int* pages[4];
    for (int*& page : pages) CHECK(cudaHostAlloc(&page, 4 * 4096, cudaHostAllocMapped));
    Ring ring{};
    if (where == "behind") ring = {pages[0], pages[0] + k_page, pages[0] + 2 * k_page, pages[0] + 3 * k_page};
    if (where == "before") ring = {pages[0] + 2 * k_page, pages[0] + 3 * k_page, pages[0] + k_page, pages[0]};
    if (where == "apart") ring = {pages[1], pages[3], pages[2], pages[0]};
    for (const long long pause : {100000ll, 2000000ll, 0ll}) look(ring, pause, 60);
    for (int* page : pages) CHECK(cudaFreeHost(page));
    std::printf("verified\n");
    return 0;
}

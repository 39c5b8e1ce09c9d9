// Functions of the program's that streams call, with much memory that kernels use as well: each finds what the kernels before it have
// written, and those behind it what it has written.
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "shared_memory.h"

static const int k_page = 4096 / sizeof(int);
static const int k_ints = 1 << 20;  // 4 MiB

__global__ void number(int* data, int n, int first) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] = first + i;
}

static int* allocate(bool managed, int n) {
    int* data;
    if (managed)
        CHECK(cudaMallocManaged(&data, n * sizeof(int)));
    else
        CHECK(cudaHostAlloc(&data, n * sizeof(int), cudaHostAllocMapped));
    return data;
}
static void release(bool managed, int* data) { CHECK(managed ? cudaFree(data) : cudaFreeHost(data)); }

// What the device has, without an access to it.
static void expect_on_device(const int* data, int n, int first, int step = 1) {
    std::vector<int> back(n);
    int* copy;
    CHECK(cudaMalloc(&copy, n * sizeof(int)));
    CHECK(cudaMemcpy(copy, data, n * sizeof(int), cudaMemcpyDefault));
    CHECK(cudaMemcpy(back.data(), copy, n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) EXPECT_EQ(back[i], first + i * step);
    CHECK(cudaFree(copy));
}

// Looks at all of it, in order, and writes what a kernel behind it looks for.
struct Walk {
    int* data;
    int n, first, pause_us;  // the pause is made after each page
    bool right;
};
static void walk(void* argument) {
    auto* walk = static_cast<Walk*>(argument);
    for (int i = 0; i < walk->n; ++i) {
        walk->right = walk->right && walk->data[i] == walk->first + i;
        walk->data[i] = 3 * i;
        if (walk->pause_us == 0 || i % k_page != 0) continue;
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(walk->pause_us);
        while (std::chrono::steady_clock::now() < end) {
        }
    }
}

// @param graph  the kernels and the function are one
static void whole(bool managed, int pause_us, bool graph) {
    int* const data = allocate(managed, k_ints);
    Walk first{data, k_ints, 5, pause_us, true};
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    if (graph) CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    number<<<4, 128, 0, stream>>>(data, k_ints, 5);
    CHECK(cudaLaunchHostFunc(stream, walk, &first));
    add<<<4, 128, 0, stream>>>(data, k_ints, 7);
    if (graph) {
        cudaGraph_t made;
        cudaGraphExec_t exec;
        CHECK(cudaStreamEndCapture(stream, &made));
        CHECK(cudaGraphInstantiate(&exec, made, 0));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(made));
    }
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(first.right);
    expect_on_device(data, k_ints, 7, 3);
    CHECK(cudaStreamDestroy(stream));
    release(managed, data);
}

// Kernels and functions in turn, all of them given to the stream before the first function is over.
static void rounds() {
    const int count = 10;
    int* const data = allocate(true, k_ints);
    std::vector<Walk> walks;
    for (int i = 0; i < count; ++i) walks.push_back({data, k_ints, i, 0, true});
    for (Walk& one : walks) {
        number<<<4, 128>>>(data, k_ints, one.first);
        CHECK(cudaLaunchHostFunc(nullptr, walk, &one));
        add<<<4, 128>>>(data, k_ints, 7);
    }
    CHECK(cudaDeviceSynchronize());
    for (const Walk& one : walks) EXPECT(one.right);
    expect_on_device(data, k_ints, 7, 3);
    CHECK(cudaFree(data));
}

// One after the other, in many allocations.
struct Pieces {
    std::vector<int*> data;
    int n;
    bool right;
};
static void walk_pieces(cudaStream_t, cudaError_t, void* argument) {
    auto* pieces = static_cast<Pieces*>(argument);
    for (size_t i = 0; i < pieces->data.size(); ++i) {
        Walk one{pieces->data[i], pieces->n, static_cast<int>(i) * 1000, 0, true};
        walk(&one);
        pieces->right = pieces->right && one.right;
    }
}
static void pieces() {
    const int count = 16, n = 128 << 10;
    Pieces all{{}, n, true};
    for (int i = 0; i < count; ++i) all.data.push_back(allocate(true, n));
    for (int i = 0; i < count; ++i) number<<<4, 128>>>(all.data[i], n, i * 1000);
    CHECK(cudaStreamAddCallback(nullptr, walk_pieces, &all, 0));
    for (int i = 0; i < count; ++i) add<<<4, 128>>>(all.data[i], n, i);
    CHECK(cudaDeviceSynchronize());
    EXPECT(all.right);
    for (int i = 0; i < count; ++i) {
        expect_on_device(all.data[i], n, i, 3);
        CHECK(cudaFree(all.data[i]));
    }
}

// Looks here and there.
static const int k_looks = 40;
static int place(int look) { return static_cast<int>(look * 2654435761u % (8u * k_ints)); }
static void look_around(void* argument) {
    auto* sparse = static_cast<Walk*>(argument);
    for (int look = 0; look < k_looks; ++look) {
        int& there = sparse->data[place(look)];
        sparse->right = sparse->right && there == place(look);
        there = -look;
    }
}
static void sparse() {
    int* const data = allocate(true, 8 * k_ints);
    Walk all{data, 8 * k_ints, 0, 0, true};
    number<<<8, 128>>>(data, all.n, 0);
    CHECK(cudaLaunchHostFunc(nullptr, look_around, &all));
    add<<<8, 128>>>(data, all.n, 1);
    CHECK(cudaDeviceSynchronize());
    EXPECT(all.right);
    std::vector<int> back(all.n);
    CHECK(cudaMemcpy(back.data(), data, all.n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int look = 0; look < k_looks; ++look) {
        EXPECT_EQ(back[place(look)], 1 - look);
        back[place(look)] = place(look) + 1;
    }
    for (int i = 0; i < all.n; ++i) EXPECT_EQ(back[i], i + 1);
    CHECK(cudaFree(data));
}

// Many that do little, one behind the other.
static void many() {
    const int functions = 300, n = 3000;
    Turns turns{allocate(true, n), n};
    for (int i = 0; i < n; ++i) turns.values[i] = i;
    for (int i = 0; i < functions; ++i) {
        add<<<1, 64>>>(turns.values, n, 1);
        CHECK(cudaLaunchHostFunc(nullptr, function_in_turn, &turns));
    }
    CHECK(cudaDeviceSynchronize());
    EXPECT(turns.right);
    EXPECT_EQ(turns.done, functions);
    expect_on_device(turns.values, n, 11 * functions);
    CHECK(cudaFree(turns.values));
}

// A kernel of another stream and the function talk to each other while both run: data on pages of their own, then the number of its
// turn. (What the function writes the device gets in the order of addresses.)
struct Talk {
    volatile int *question, *asked, *answered, *answer;
    int* data;  // much, which the function walks through meanwhile
    int turns;
    bool right, in_order;
};
__global__ void answer_each(Talk talk, long long limit) {
    const long long end = clock64() + limit;
    for (int turn = 1; turn <= talk.turns; ++turn) {
        while (*talk.asked < turn)
            if (clock64() > end) return;
        __threadfence_system();
        const int question = *talk.question;
        for (int page = 0; page < 16; ++page) talk.answer[page * k_page] = question + turn;
        __threadfence_system();
        *talk.answered = turn;
        __threadfence_system();
    }
}
static void ask_each(void* argument) {
    auto* talk = static_cast<Talk*>(argument);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    const int share = k_ints / talk->turns;
    for (int turn = 1; turn <= talk->turns; ++turn) {
        *talk->question = 100 * turn;
        *talk->asked = turn;
        Walk some{talk->data + (turn - 1) * share, share, (turn - 1) * share, 0, true};
        walk(&some);
        talk->right = talk->right && some.right;
        while (*talk->answered < turn) {
            if (std::chrono::steady_clock::now() > end) {
                talk->right = false;
                return;
            }
        }
        for (int page = 0; page < 16; ++page) talk->in_order = talk->in_order && talk->answer[page * k_page] == 101 * turn;
    }
}
static void beside() {
    int* const pages = allocate(false, 20 * k_page);
    int* const data = allocate(true, k_ints);
    std::memset(pages, 0, 20 * 4096);
    Talk talk{pages, pages + k_page, pages + 2 * k_page, pages + 3 * k_page, data, 8, true, true};
    cudaStream_t one, other;
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    number<<<4, 128, 0, one>>>(data, k_ints, 0);
    CHECK(cudaStreamSynchronize(one));
    answer_each<<<1, 1, 0, other>>>(talk, 100000000000ll);
    CHECK(cudaLaunchHostFunc(one, ask_each, &talk));
    CHECK(cudaStreamSynchronize(one));
    CHECK(cudaStreamSynchronize(other));
    EXPECT(talk.right);
    EXPECT(talk.in_order);
    const int share = k_ints / talk.turns;
    for (int turn = 0; turn < talk.turns; ++turn) expect_on_device(data + turn * share, share, 0, 3);
    CHECK(cudaStreamDestroy(one));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaFree(data));
    CHECK(cudaFreeHost(pages));
}

// A function that is alone with its memory at first, until another thread gives another stream a kernel that waits for it, and that it
// waits for.
struct Guest {
    int* data;  // of both kinds of memory
    volatile int *mark, *answer;
    std::atomic<bool> has_begun{false};
    bool right = true;
};
__global__ void visit(volatile int* mark, volatile int* answer, int* data, int n, long long limit) {
    const long long end = clock64() + limit;
    for (int i = 0; i < n; ++i) data[i] += 1;
    __threadfence_system();
    *mark = 1;
    while (*answer == 0 && clock64() < end) {
    }
    *mark = *answer == 0 ? 2 : 3;
}
static void receive(void* argument) {
    auto* guest = static_cast<Guest*>(argument);
    for (int i = 0; i < k_ints / 4; ++i) guest->right = guest->right && guest->data[i] == i;
    guest->right = guest->right && *guest->mark == 0;
    guest->data[k_ints / 4 + 7] = -1;
    guest->has_begun = true;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    while (*guest->mark == 0 && std::chrono::steady_clock::now() < end) {
    }
    for (int i = 0; i < k_ints / 4; ++i) guest->right = guest->right && guest->data[i] == i + 1;
    *guest->answer = 1;
    while (*guest->mark == 1 && std::chrono::steady_clock::now() < end) {
    }
    guest->right = guest->right && *guest->mark == 3;
    guest->data[k_ints / 4 + 8] = -2;
}
static void company(bool managed) {
    Guest guest;
    guest.data = allocate(managed, k_ints);
    int* const marks = allocate(false, 2 * k_page);
    std::memset(marks, 0, 2 * 4096);
    guest.mark = marks, guest.answer = marks + k_page;
    cudaStream_t one, other;
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    // What is loaded with the first launch would wait for the function.
    visit<<<1, 1, 0, other>>>(marks, marks, marks, 0, 0);
    CHECK(cudaDeviceSynchronize());
    *guest.mark = *guest.answer = 0;
    number<<<4, 128, 0, one>>>(guest.data, k_ints, 0);
    CHECK(cudaLaunchHostFunc(one, receive, &guest));
    while (!guest.has_begun) {
    }
    visit<<<1, 1, 0, other>>>(guest.mark, guest.answer, guest.data, k_ints / 4, 100000000000ll);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    EXPECT(guest.right);
    std::vector<int> back(k_ints);
    CHECK(cudaMemcpy(back.data(), guest.data, k_ints * sizeof(int), cudaMemcpyDefault));
    const int quarter = k_ints / 4;
    for (int i = 0; i < k_ints; ++i) {
        const int expected = i == quarter + 7 ? -1 : i == quarter + 8 ? -2 : i < quarter ? i + 1 : i;
        EXPECT_EQ(back[i], expected);
    }
    CHECK(cudaStreamDestroy(one));
    CHECK(cudaStreamDestroy(other));
    release(managed, guest.data);
    CHECK(cudaFreeHost(marks));
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "managed")
        whole(true, 0, false);
    else if (what == "mapped")
        whole(false, 0, false);
    else if (what == "slow")
        whole(true, 100, false);
    else if (what == "graph")
        whole(true, 0, true);
    else if (what == "rounds")
        rounds();
    else if (what == "pieces")
        pieces();
    else if (what == "sparse")
        sparse();
    else if (what == "many")
        many();
    else if (what == "beside")
        beside();
    else if (what == "company")
        company(true), company(false);
    else
        return 2;
    return passed(("functions and pages, " + what).c_str());
}

// Page-locked memory that was allocated for copies alone, and that kernels find by an address in memory (A7): natively all of it is
// the device's.
#include <string>
#include <thread>
#include <vector>

#include "shared_memory.h"

struct Link {
    Link* next;
    int value;
};
__device__ Link* k_head;
__managed__ Link* m_head;

__global__ void walk(Link* const* head, int what) {
    for (Link* link = *head; link; link = link->next) link->value += what;
}
__global__ void walk_variable(int what) {
    for (Link* link = k_head; link; link = link->next) link->value += what;
}
__global__ void walk_managed(int what) {
    for (Link* link = m_head; link; link = link->next) link->value += what;
}

static const int k_links = 40;

static std::vector<Link*> make_list() {
    std::vector<Link*> links;
    for (int i = 0; i < k_links; ++i) {
        Link* link;
        CHECK(cudaMallocHost(&link, 5 * sizeof(Link)));
        link += i % 5;  // not where the memory begins
        *link = {links.empty() ? nullptr : links.back(), i};
        links.push_back(link);
    }
    return links;
}

static void check_list(const std::vector<Link*>& links, int what) {
    for (int i = 0; i < k_links; ++i) EXPECT_EQ(links[i]->value, i + what);
}

static void free_list(const std::vector<Link*>& links) {
    for (int i = 0; i < k_links; ++i) CHECK(cudaFreeHost(links[i] - i % 5));
}

// The address comes with a copy: to memory, to a variable, in a rectangle.
static void copied() {
    const auto first = make_list(), second = make_list(), third = make_list();
    Link** head;
    CHECK(cudaMalloc(&head, 4096));
    CHECK(cudaMemcpy(head, &first.back(), sizeof *head, cudaMemcpyHostToDevice));
    walk<<<1, 1>>>(head, 100);
    CHECK(cudaDeviceSynchronize());
    check_list(first, 100);
    CHECK(cudaMemcpyToSymbol(k_head, &second.back(), sizeof(Link*)));
    walk_variable<<<1, 1>>>(1000);
    CHECK(cudaDeviceSynchronize());
    check_list(second, 1000);
    Link* row[] = {nullptr, third.back()};
    CHECK(cudaMemcpy2D(head + 16, 64, row + 1, sizeof(Link*), sizeof(Link*), 1, cudaMemcpyHostToDevice));
    walk<<<1, 1>>>(head + 16, 10);
    walk<<<1, 1>>>(head, 1);
    CHECK(cudaDeviceSynchronize());
    check_list(third, 10);
    check_list(first, 101);
    check_list(second, 1000);
    CHECK(cudaFree(head));
    for (const auto* list : {&first, &second, &third}) free_list(*list);
}

// The address stands in memory that both sides use: managed, registered, page-locked and known to the device.
static void shared() {
    const auto first = make_list(), second = make_list(), third = make_list();
    m_head = first.back();
    walk_managed<<<1, 1>>>(100);
    CHECK(cudaDeviceSynchronize());
    check_list(first, 100);
    // One byte of the address changes where the device has the rest of it already.
    m_head = second.back();
    walk_managed<<<1, 1>>>(200);
    CHECK(cudaDeviceSynchronize());
    check_list(second, 200);
    check_list(first, 100);
    Link* table[2] = {nullptr, nullptr};
    Link** device_table;
    CHECK(cudaHostRegister(table, sizeof table, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device_table, table, 0));
    walk<<<1, 1>>>(device_table, 1);
    table[1] = third.back();
    walk<<<1, 1>>>(device_table + 1, 300);
    CHECK(cudaDeviceSynchronize());
    check_list(third, 300);
    // A list grows at its end.
    const auto behind = make_list();
    third.front()->next = behind.back();
    walk<<<1, 1>>>(device_table + 1, 5);
    CHECK(cudaDeviceSynchronize());
    check_list(third, 305);
    check_list(behind, 5);
    CHECK(cudaHostUnregister(table));
    for (const auto* list : {&first, &second, &third, &behind}) free_list(*list);
}

// Other memory at an address that the device has already: nothing of that changes.
static void again() {
    Link **head, *first, *second = nullptr;
    CHECK(cudaHostAlloc(&head, sizeof *head, cudaHostAllocMapped));
    CHECK(cudaMallocHost(&first, sizeof *first));
    *first = {nullptr, 1};
    *head = first;
    walk<<<1, 1>>>(head, 10);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(first->value, 11);
    CHECK(cudaFreeHost(first));
    std::vector<Link*> others;
    for (int tries = 0; tries < 100 && second != first; ++tries) {
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMallocHost(&second, sizeof *second));
        others.push_back(second);
    }
    *second = {nullptr, 2};
    *head = second;
    walk<<<1, 1>>>(head, 20);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(second->value, 22);
    for (Link* other : others) CHECK(cudaFreeHost(other));
    CHECK(cudaFreeHost(head));
}

// A graph has copied it before a kernel finds it, and launches find what was named before a graph of theirs was made.
static void graphs() {
    const auto links = make_list();
    Link** head;
    CHECK(cudaMalloc(&head, sizeof *head));
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    walk<<<1, 1, 0, stream>>>(head, 7);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaMemcpyAsync(head, &links.back(), sizeof *head, cudaMemcpyHostToDevice, stream));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    check_list(links, 7);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(head));
    free_list(links);
}

// Each thread has lists of its own, whose first addresses stand on a page that they share: whoever launches hands it over for all.
static void threads() {
    const int k_threads = 4;
    Link** heads;
    CHECK(cudaHostAlloc(&heads, k_threads * sizeof(Link*), cudaHostAllocMapped));
    std::vector<std::thread> all;
    for (int i = 0; i < k_threads; ++i) {
        all.emplace_back([heads, i] {
            cudaStream_t stream;
            CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            for (int round = 0; round < 5; ++round) {
                const auto links = make_list();
                heads[i] = links.back();
                walk<<<1, 1, 0, stream>>>(heads + i, i + 1);
                CHECK(cudaStreamSynchronize(stream));
                check_list(links, i + 1);
                free_list(links);  // beside the accesses of the others
            }
            CHECK(cudaStreamDestroy(stream));
        });
    }
    for (std::thread& one : all) one.join();
    CHECK(cudaFreeHost(heads));
}

// What was only copied from and to is not the device's: a kernel that is told its address by arithmetic alone does not find it.
__global__ void write_there(unsigned low, unsigned high) {
    *reinterpret_cast<int*>((static_cast<unsigned long long>(high) << 32 | low)) = 1;
}
static void hidden() {
    int* data;
    CHECK(cudaMallocHost(&data, sizeof *data));
    const auto address = reinterpret_cast<unsigned long long>(data);
    write_there<<<1, 1>>>(static_cast<unsigned>(address), static_cast<unsigned>(address >> 32));
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "copied";
    if (what == "copied")
        copied();
    else if (what == "shared")
        shared(), again();
    else if (what == "graphs")
        graphs();
    else if (what == "threads")
        threads();
    else if (what == "hidden")
        hidden();
    else
        return 2;
    return passed(what.c_str());
}

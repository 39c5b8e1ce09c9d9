// Managed and mapped memory: one pointer for host and device, lists of nodes with pointers inside, managed variables.
#include "check.h"

struct Node {
    int value;
    Node* next;
};
__managed__ int total = 5;

__global__ void walk(Node* node, int* out) {
    int sum = 0;
    for (; node != nullptr; node = node->next) {
        sum += node->value;
        node->value = -node->value;
    }
    *out = sum;
    total += sum;
}
__global__ void fill(int* data, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] += i;
}

int main() {
    Node* head = nullptr;
    int expected = 0;
    for (int i = 0; i < 20; ++i) {
        Node* node;
        CHECK(cudaMallocManaged(&node, sizeof(Node)));
        node->value = i * i;
        node->next = head;
        head = node;
        expected += i * i;
    }
    int* out;
    CHECK(cudaMallocManaged(&out, sizeof(int)));
    walk<<<1, 1>>>(head, out);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(*out, expected);
    EXPECT_EQ(total, expected + 5);
    for (Node* node = head; node != nullptr;) {
        EXPECT(node->value <= 0);
        Node* next = node->next;
        CHECK(cudaFree(node));
        node = next;
    }
    const int n = 5000;
    int *host, *device;
    CHECK(cudaHostAlloc(&host, n * sizeof(int), cudaHostAllocMapped));
    for (int i = 0; i < n; ++i) host[i] = 1000;
    CHECK(cudaHostGetDevicePointer(&device, host, 0));
    fill<<<1, 64>>>(device, n);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], 1000 + i);
    CHECK(cudaFreeHost(host));
    std::vector<int> registered(n, 7);
    CHECK(cudaHostRegister(registered.data(), n * sizeof(int), cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device, registered.data(), 0));
    fill<<<1, 64>>>(device, n);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; ++i) EXPECT_EQ(registered[i], 7 + i);
    CHECK(cudaHostUnregister(registered.data()));
    CHECK(cudaFree(out));
    return passed("managed and mapped memory");
}

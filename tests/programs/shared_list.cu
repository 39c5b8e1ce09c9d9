// A list of 10,000 managed nodes in random order, made on the host, walked and changed on the device, read on the host again.
#include <algorithm>

#include "check.h"

struct Node {
    int value;
    Node* next;
};

__global__ void walk(Node* node, long long* sum) {
    long long all = 0;
    for (; node != nullptr; node = node->next) {
        all += node->value;
        node->value += 1;
    }
    *sum = all;
}

int main() {
    const int n = 10000;
    std::vector<Node*> nodes(n);
    for (Node*& node : nodes) CHECK(cudaMallocManaged(&node, sizeof(Node)));
    Random random(7);
    for (int i = n - 1; i > 0; --i) std::swap(nodes[i], nodes[random.next() % (i + 1)]);
    long long expected = 0;
    for (int i = 0; i < n; ++i) {
        nodes[i]->value = static_cast<int>(random.next() % 1000);
        nodes[i]->next = i + 1 < n ? nodes[i + 1] : nullptr;
        expected += nodes[i]->value;
    }
    long long* sum;
    CHECK(cudaMallocManaged(&sum, sizeof *sum));
    walk<<<1, 1>>>(nodes[0], sum);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(*sum, expected);
    long long seen = 0;
    int count = 0;
    for (const Node* node = nodes[0]; node != nullptr; node = node->next, ++count) seen += node->value;
    EXPECT_EQ(count, n);
    EXPECT_EQ(seen, expected + n);
    for (Node* node : nodes) CHECK(cudaFree(node));
    CHECK(cudaFree(sum));
    return passed("a list of managed nodes");
}

// A list of page-locked nodes, each with an allocation of its own, walked and changed on both sides in turns: first in the order of
// the addresses, then in random order.
#include <algorithm>

#include "check.h"

struct Node {
    Node* next;
    int value;
};

__global__ void walk(Node* node) {
    for (; node != nullptr; node = node->next) node->value += 1;
}

static void take_turns(const std::vector<Node*>& nodes) {
    const int n = static_cast<int>(nodes.size());
    for (int i = 0; i < n; ++i) *nodes[i] = {i + 1 < n ? nodes[i + 1] : nullptr, i};
    for (int turn = 1; turn <= 3; ++turn) {
        walk<<<1, 1>>>(nodes[0]);
        CHECK(cudaDeviceSynchronize());
        int count = 0;
        for (Node* node = nodes[0]; node != nullptr; node = node->next, ++count) {
            EXPECT_EQ(node->value, count + 11 * turn - 10);
            node->value += 10;
        }
        EXPECT_EQ(count, n);
    }
}

int main() {
    std::vector<Node*> nodes(120);
    for (Node*& node : nodes) CHECK(cudaHostAlloc(&node, sizeof(Node), cudaHostAllocMapped));
    take_turns(nodes);
    Random random(7);
    for (size_t i = nodes.size() - 1; i > 0; --i) std::swap(nodes[i], nodes[random.next() % (i + 1)]);
    take_turns(nodes);
    for (Node* node : nodes) CHECK(cudaFreeHost(node));
    return passed("a list of page-locked nodes");
}

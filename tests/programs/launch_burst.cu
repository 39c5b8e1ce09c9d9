// Many launches, one synchronisation: submission must not wait for the network.
#include "check.h"

__global__ void tick(int* counter) { *counter += 1; }

int main(int argc, char** argv) {
    const int launches = argc > 1 ? std::atoi(argv[1]) : 20000;
    int* counter;
    CHECK(cudaMalloc(&counter, sizeof(int)));
    CHECK(cudaMemset(counter, 0, sizeof(int)));
    for (int i = 0; i < launches; ++i) tick<<<1, 1>>>(counter);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    int result = 0;
    CHECK(cudaMemcpy(&result, counter, sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT_EQ(result, launches);
    return passed("launch burst");
}

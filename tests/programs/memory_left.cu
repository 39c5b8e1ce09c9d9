// Says how much memory the device has left.
#include "check.h"

int main() {
    size_t free_bytes, total_bytes;
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    EXPECT(free_bytes != 0 && free_bytes <= total_bytes);
    std::printf("%zu of %zu\n", free_bytes, total_bytes);
    return 0;
}

// A program that does away with its environment before it uses a GPU, as daemons do (A1).
#include <stdlib.h>

#include "check.h"

__global__ void set(int* out, int value) { *out = value; }

int main() {
    EXPECT_EQ(clearenv(), 0);
    EXPECT(getenv("PATH") == nullptr);
    DeviceArray<int> out(1);
    set<<<1, 1>>>(out.data(), 42);
    EXPECT_EQ(out.download()[0], 42);
    return passed("cleared environment");
}

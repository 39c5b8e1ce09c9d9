// The libraries that are source: Thrust sort, scan, reduce by key; CUB device scan and radix sort.
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <numeric>

#include "check.h"

int main() {
    const int n = 5000;
    Random random(41);
    std::vector<int> host(n);
    for (auto& x : host) x = static_cast<int>(random.next() % 100000) - 50000;
    thrust::device_vector<int> data(host.begin(), host.end());
    thrust::sort(data.begin(), data.end());
    std::vector<int> sorted = host, got(n);
    std::sort(sorted.begin(), sorted.end());
    thrust::copy(data.begin(), data.end(), got.begin());
    EXPECT(got == sorted);
    EXPECT_EQ(thrust::reduce(data.begin(), data.end(), 0), std::accumulate(host.begin(), host.end(), 0));
    thrust::exclusive_scan(data.begin(), data.end(), data.begin());
    thrust::copy(data.begin(), data.end(), got.begin());
    int sum = 0;
    for (int i = 0; i < n; ++i) {
        EXPECT_EQ(got[i], sum);
        sum += sorted[i];
    }

    DeviceArray<int> in(host), out(n);
    size_t bytes = 0;
    CHECK(cub::DeviceScan::InclusiveSum(nullptr, bytes, in.data(), out.data(), n));
    DeviceArray<char> scratch(bytes);
    CHECK(cub::DeviceScan::InclusiveSum(scratch.data(), bytes, in.data(), out.data(), n));
    got = out.download();
    sum = 0;
    for (int i = 0; i < n; ++i) EXPECT_EQ(got[i], sum += host[i]);
    std::vector<unsigned> keys(n);
    std::vector<int> values(n);
    for (int i = 0; i < n; ++i) keys[i] = random.next() % 1000, values[i] = i;
    DeviceArray<unsigned> dkeys(keys), dkeys_out(n);
    DeviceArray<int> dvalues(values), dvalues_out(n);
    bytes = 0;
    CHECK(cub::DeviceRadixSort::SortPairs(nullptr, bytes, dkeys.data(), dkeys_out.data(), dvalues.data(), dvalues_out.data(), n));
    DeviceArray<char> sort_scratch(bytes);
    CHECK(cub::DeviceRadixSort::SortPairs(sort_scratch.data(), bytes, dkeys.data(), dkeys_out.data(), dvalues.data(), dvalues_out.data(), n));
    std::stable_sort(values.begin(), values.end(), [&](int a, int b) { return keys[a] < keys[b]; });
    EXPECT(dvalues_out.download() == values);
    return passed("Thrust and CUB");
}

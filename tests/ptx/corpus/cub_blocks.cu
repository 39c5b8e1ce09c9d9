// CUB: block-wide collectives and a device-wide scan, sort, histogram and selection.
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>

extern "C" __global__ void block_collectives(const int* in, int* out) {
    using Scan = cub::BlockScan<int, 128>;
    using Reduce = cub::BlockReduce<int, 128>;
    using Sort = cub::BlockRadixSort<int, 128, 4>;
    __shared__ union {
        Scan::TempStorage scan;
        Reduce::TempStorage reduce;
        Sort::TempStorage sort;
    } storage;
    int items[4];
    for (int i = 0; i < 4; i++) items[i] = in[threadIdx.x * 4 + i];
    Sort(storage.sort).Sort(items);
    __syncthreads();
    Scan(storage.scan).InclusiveSum(items, items);
    __syncthreads();
    int total = Reduce(storage.reduce).Sum(items[0]);
    for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = items[i] + total;
}

void device_wide(void* temporary, size_t& bytes, const int* in, int* out, int n) {
    cub::DeviceScan::ExclusiveSum(temporary, bytes, in, out, n);
    cub::DeviceReduce::Max(temporary, bytes, in, out, n);
}

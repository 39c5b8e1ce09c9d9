// thrust: the largest PTX of the corpus; the parser's speed is measured on it.
#include <thrust/device_ptr.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/unique.h>

void everything(int* keys, float* values, int n) {
    thrust::device_ptr<int> k(keys);
    thrust::device_ptr<float> v(values);
    thrust::sort(k, k + n);
    thrust::sort_by_key(v, v + n, k);
    thrust::inclusive_scan(v, v + n, v);
    keys[0] = static_cast<int>(thrust::unique(k, k + n) - k) + static_cast<int>(thrust::reduce(v, v + n));
}

// Floating point and integer arithmetic against the host: exact where IEEE 754 says so, within documented bounds elsewhere.
#include <cstdint>
#include <cstring>

#include "check.h"

__global__ void exact(const float* a, const float* b, float* out, const double* x, const double* y, double* dout, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[0 * n + i] = __fadd_rn(a[i], b[i]);
    out[1 * n + i] = __fmul_rn(a[i], b[i]);
    out[2 * n + i] = __fdiv_rn(a[i], b[i]);
    out[3 * n + i] = __fsqrt_rn(fabsf(a[i]));
    out[4 * n + i] = fmaf(a[i], b[i], 1.5f);
    out[5 * n + i] = fminf(a[i], b[i]);
    out[6 * n + i] = floorf(a[i]) + ceilf(b[i]) + truncf(a[i]) + rintf(b[i]);
    out[7 * n + i] = static_cast<float>(static_cast<int>(a[i])) + static_cast<float>(static_cast<unsigned char>(static_cast<int>(b[i])));
    dout[0 * n + i] = x[i] + y[i];
    dout[1 * n + i] = x[i] * y[i];
    dout[2 * n + i] = x[i] / y[i];
    dout[3 * n + i] = sqrt(fabs(x[i]));
    dout[4 * n + i] = fma(x[i], y[i], -0.75);
    dout[5 * n + i] = static_cast<double>(static_cast<float>(x[i]));
    dout[6 * n + i] = static_cast<double>(static_cast<long long>(x[i] * 1000));
}

__global__ void close_enough(const float* a, float* out, const double* x, double* dout, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[0 * n + i] = sinf(a[i]);
    out[1 * n + i] = expf(a[i] * 0.1f);
    out[2 * n + i] = logf(fabsf(a[i]) + 0.5f);
    out[3 * n + i] = powf(fabsf(a[i]), 1.5f);
    out[4 * n + i] = tanhf(a[i] * 0.1f);
    out[5 * n + i] = rsqrtf(fabsf(a[i]) + 1.0f);
    out[6 * n + i] = __expf(a[i] * 0.1f);
    dout[0 * n + i] = sin(x[i]);
    dout[1 * n + i] = exp(x[i] * 0.1);
    dout[2 * n + i] = log(fabs(x[i]) + 0.5);
    dout[3 * n + i] = pow(fabs(x[i]), 1.25);
    dout[4 * n + i] = erf(x[i] * 0.1);
}

__global__ void integers(const unsigned* a, const unsigned* b, unsigned long long* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = a[i], y = b[i];
    int sx = static_cast<int>(x), sy = static_cast<int>(y);
    unsigned long long lx = (static_cast<unsigned long long>(x) << 32) | y, ly = (static_cast<unsigned long long>(y) << 13) | 1;
    out[0 * n + i] = x / (y | 1) + x % (y | 1);
    out[1 * n + i] = static_cast<unsigned long long>(static_cast<long long>(sx / (sy | 1)) + sx % (sy | 1));
    out[2 * n + i] = __umulhi(x, y) + static_cast<unsigned>(__mulhi(sx, sy));
    out[3 * n + i] = lx * ly + lx / ly + lx % ly;
    out[4 * n + i] = __popc(x) + 100 * __clz(y) + 10000 * __ffs(x) + 1000000ull * __popcll(lx) + 100000000ull * __clzll(lx);
    out[5 * n + i] = __brev(x) ^ __byte_perm(x, y, 0x7531);
    out[6 * n + i] = (x << (y % 32)) ^ (x >> (y % 32)) ^ static_cast<unsigned>(sx >> (y % 32)) ^ __funnelshift_l(x, y, 7);
    out[7 * n + i] = __umul64hi(lx, ly) ^ static_cast<unsigned long long>(static_cast<long long>(lx) >> (y % 64));
    out[8 * n + i] = static_cast<unsigned>(min(sx, sy)) + max(x, y) + abs(sx / 2) + __sad(sx / 4, sy / 4, 3u);
}

static unsigned reverse(unsigned v) {
    unsigned r = 0;
    for (int i = 0; i < 32; ++i) r |= (v >> i & 1) << (31 - i);
    return r;
}

template <typename T>
static void compare_exact(const std::vector<T>& got, size_t index, T expected) {
    if (std::isnan(expected)) {
        EXPECT(std::isnan(got[index]));
        return;
    }
    if (std::memcmp(&got[index], &expected, sizeof(T)) != 0) {
        std::fprintf(stderr, "entry %zu: got %.17g, expected %.17g\n", index, static_cast<double>(got[index]), static_cast<double>(expected));
        std::exit(1);
    }
}

int main() {
    const int n = 2000;
    std::vector<float> a(n), b(n);
    std::vector<double> x(n), y(n);
    std::vector<unsigned> u(n), v(n);
    Random random(13);
    for (int i = 0; i < n; ++i) {
        a[i] = (random.uniform() - 0.5f) * 100, b[i] = (random.uniform() - 0.5f) * 100 + 0.001f;
        x[i] = (random.uniform() - 0.5) * 50, y[i] = (random.uniform() - 0.5) * 50 + 0.001;
        u[i] = random.next() * 2654435761u, v[i] = random.next() ^ (random.next() << 13);
    }
    a[0] = 0, b[0] = 5, a[1] = 1e-40f, b[1] = 0.5f, a[2] = 3e38f, b[2] = 10, a[3] = -0.0f, b[3] = 3;
    u[0] = 0, v[0] = 0, u[1] = 0xffffffffu, v[1] = 1, u[2] = 0x80000000u, v[2] = 0x7fffffffu;
    DeviceArray<float> da(a), db(b), dout(8 * n);
    DeviceArray<double> dx(x), dy(y), ddout(7 * n);
    DeviceArray<unsigned> du(u), dv(v);
    DeviceArray<unsigned long long> diout(9 * n);
    const int blocks = (n + 127) / 128;
    exact<<<blocks, 128>>>(da.data(), db.data(), dout.data(), dx.data(), dy.data(), ddout.data(), n);
    CHECK(cudaGetLastError());
    auto f = dout.download();
    auto d = ddout.download();
    for (int i = 0; i < n; ++i) {
        compare_exact(f, 0 * n + i, a[i] + b[i]);
        compare_exact(f, 1 * n + i, a[i] * b[i]);
        compare_exact(f, 2 * n + i, a[i] / b[i]);
        compare_exact(f, 3 * n + i, std::sqrt(std::fabs(a[i])));
        compare_exact(f, 4 * n + i, std::fma(a[i], b[i], 1.5f));
        compare_exact(f, 5 * n + i, std::fmin(a[i], b[i]));
        compare_exact(f, 6 * n + i, std::floor(a[i]) + std::ceil(b[i]) + std::trunc(a[i]) + std::rint(b[i]));
        if (i != 2) compare_exact(f, 7 * n + i, static_cast<float>(static_cast<int>(a[i])) + static_cast<float>(static_cast<unsigned char>(static_cast<int>(b[i]))));
        compare_exact(d, 0 * n + i, x[i] + y[i]);
        compare_exact(d, 1 * n + i, x[i] * y[i]);
        compare_exact(d, 2 * n + i, x[i] / y[i]);
        compare_exact(d, 3 * n + i, std::sqrt(std::fabs(x[i])));
        compare_exact(d, 4 * n + i, std::fma(x[i], y[i], -0.75));
        compare_exact(d, 5 * n + i, static_cast<double>(static_cast<float>(x[i])));
        compare_exact(d, 6 * n + i, static_cast<double>(static_cast<long long>(x[i] * 1000)));
    }
    close_enough<<<blocks, 128>>>(da.data(), dout.data(), dx.data(), ddout.data(), n);
    CHECK(cudaGetLastError());
    f = dout.download();
    d = ddout.download();
    auto near = [](double got, double expected, double relative) {
        if (std::fabs(got - expected) > relative * (std::fabs(expected) + 1e-30) + relative * 1e-3) {
            std::fprintf(stderr, "got %.17g, expected %.17g\n", got, expected);
            std::exit(1);
        }
    };
    for (int i = 0; i < n; ++i) {
        if (i == 2) continue;
        double ai = a[i];
        near(f[0 * n + i], std::sin(ai), 1e-5);
        near(f[1 * n + i], std::exp(ai * 0.1f), 1e-5);
        near(f[2 * n + i], std::log(std::fabs(ai) + 0.5), 1e-4);
        near(f[3 * n + i], std::pow(std::fabs(ai), 1.5), 1e-5);
        near(f[4 * n + i], std::tanh(ai * 0.1f), 1e-5);
        near(f[5 * n + i], 1 / std::sqrt(std::fabs(ai) + 1), 1e-6);
        near(f[6 * n + i], std::exp(ai * 0.1f), 1e-5);
        near(d[0 * n + i], std::sin(x[i]), 1e-13);
        near(d[1 * n + i], std::exp(x[i] * 0.1), 1e-14);
        near(d[2 * n + i], std::log(std::fabs(x[i]) + 0.5), 1e-12);
        near(d[3 * n + i], std::pow(std::fabs(x[i]), 1.25), 1e-13);
        near(d[4 * n + i], std::erf(x[i] * 0.1), 1e-13);
    }
    integers<<<blocks, 128>>>(du.data(), dv.data(), diout.data(), n);
    CHECK(cudaGetLastError());
    auto r = diout.download();
    for (int i = 0; i < n; ++i) {
        unsigned p = u[i], q = v[i];
        int sp = static_cast<int>(p), sq = static_cast<int>(q);
        uint64_t lp = (uint64_t{p} << 32) | q, lq = (uint64_t{q} << 13) | 1;
        EXPECT(r[0 * n + i] == p / (q | 1) + p % (q | 1));
        if ((sq | 1) != -1 || sp != INT32_MIN) EXPECT(r[1 * n + i] == static_cast<uint64_t>(int64_t{sp / (sq | 1)} + sp % (sq | 1)));
        EXPECT(r[2 * n + i] == static_cast<unsigned>(uint64_t{p} * q >> 32) + static_cast<unsigned>((int64_t{sp} * sq) >> 32));
        EXPECT(r[3 * n + i] == lp * lq + lp / lq + lp % lq);
        unsigned clz_q = q ? __builtin_clz(q) : 32, clz_lp = lp ? __builtin_clzll(lp) : 64;
        EXPECT(r[4 * n + i] == __builtin_popcount(p) + 100ull * clz_q + 10000ull * __builtin_ffs(sp) + 1000000ull * __builtin_popcountll(lp) + 100000000ull * clz_lp);
        unsigned char bytes[8];
        std::memcpy(bytes, &p, 4);
        std::memcpy(bytes + 4, &q, 4);
        unsigned permuted = bytes[1] | bytes[3] << 8 | bytes[5] << 16 | static_cast<unsigned>(bytes[7]) << 24;
        EXPECT(r[5 * n + i] == (reverse(p) ^ permuted));
        unsigned s = q % 32;
        EXPECT(r[6 * n + i] == ((p << s) ^ (p >> s) ^ static_cast<unsigned>(sp >> s) ^ (q << 7 | p >> 25)));
        EXPECT(r[7 * n + i] == (static_cast<uint64_t>((static_cast<unsigned __int128>(lp) * lq) >> 64) ^ static_cast<uint64_t>(static_cast<int64_t>(lp) >> (q % 64))));
        unsigned sad = 3u + static_cast<unsigned>(std::abs(sp / 4 - sq / 4));
        EXPECT(r[8 * n + i] == static_cast<unsigned>(static_cast<unsigned>(std::min(sp, sq)) + std::max(p, q) + static_cast<unsigned>(std::abs(sp / 2)) + sad));
    }
    return passed("arithmetic");
}

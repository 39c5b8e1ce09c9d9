// Draws the Mandelbrot set on the GPU and writes it as a PNG file; rows are checked against the host. What the quickstart shows.
// Usage: mandelbrot FILE.png [WIDTH HEIGHT ITERATIONS]
#include <chrono>
#include <cstdint>
#include <cstring>

#include "check.h"

struct View {
    int width, height, iterations;
    float left, top, step;
};

// nvcc fuses a multiplication and an addition into one rounding where it can; these never are, so that host and device agree.
#ifdef __CUDA_ARCH__
__device__ inline float times(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float plus(float a, float b) { return __fadd_rn(a, b); }
#else
inline float times(float a, float b) { return a * b; }
inline float plus(float a, float b) { return a + b; }
#endif

__host__ __device__ inline int escape(const View& view, int px, int py) {
    float cx = fmaf(static_cast<float>(px), view.step, view.left), cy = fmaf(static_cast<float>(py), view.step, view.top);
    float x = 0, y = 0;
    int i = 0;
    while (i < view.iterations) {
        float xx = times(x, x), yy = times(y, y);
        if (plus(xx, yy) > 4.0f) break;
        y = fmaf(plus(x, x), y, cy);
        x = plus(plus(xx, -yy), cx);
        ++i;
    }
    return i;
}

__global__ void mandelbrot(View view, unsigned char* pixels, int* counts) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= view.width || y >= view.height) return;
    int n = escape(view, x, y);
    counts[y * view.width + x] = n;
    unsigned char* pixel = pixels + 3 * (y * view.width + x);
    float t = sqrtf(static_cast<float>(n) / static_cast<float>(view.iterations));
    bool inside = n == view.iterations;
    pixel[0] = inside ? 8 : static_cast<unsigned char>(255 * fminf(1.0f, 3.2f * t * t));
    pixel[1] = inside ? 10 : static_cast<unsigned char>(255 * fminf(1.0f, 1.6f * t * t + 0.25f * t));
    pixel[2] = inside ? 24 : static_cast<unsigned char>(255 * fminf(1.0f, 0.25f + 1.1f * t));
}

// A PNG of 8-bit RGB with stored (uncompressed) deflate blocks: enough for a picture, no library needed.
class PngWriter {
public:
    explicit PngWriter(const char* path) : m_file(std::fopen(path, "wb")) { EXPECT(m_file != nullptr); }
    ~PngWriter() { std::fclose(m_file); }
    void write(const std::vector<unsigned char>& rgb, int width, int height) {
        std::fwrite("\x89PNG\r\n\x1a\n", 1, 8, m_file);
        std::vector<unsigned char> header;
        append(header, static_cast<uint32_t>(width));
        append(header, static_cast<uint32_t>(height));
        for (unsigned char b : {8, 2, 0, 0, 0}) header.push_back(b);
        chunk("IHDR", header);
        std::vector<unsigned char> raw;
        for (int y = 0; y < height; ++y) {
            raw.push_back(0);
            raw.insert(raw.end(), rgb.begin() + 3 * y * width, rgb.begin() + 3 * (y + 1) * width);
        }
        std::vector<unsigned char> data = {0x78, 0x01};
        uint32_t a = 1, b = 0;
        for (unsigned char c : raw) a = (a + c) % 65521, b = (b + a) % 65521;
        for (size_t start = 0; start < raw.size(); start += 65535) {
            size_t size = std::min<size_t>(65535, raw.size() - start);
            data.push_back(start + size == raw.size());
            for (size_t v : {size, ~size}) data.push_back(v & 0xff), data.push_back(v >> 8 & 0xff);
            data.insert(data.end(), raw.begin() + start, raw.begin() + start + size);
        }
        append(data, b << 16 | a);
        chunk("IDAT", data);
        chunk("IEND", {});
    }

private:
    static void append(std::vector<unsigned char>& to, uint32_t v) {
        for (int shift = 24; shift >= 0; shift -= 8) to.push_back(v >> shift & 0xff);
    }
    void chunk(const char* type, const std::vector<unsigned char>& data) {
        std::vector<unsigned char> out;
        append(out, static_cast<uint32_t>(data.size()));
        out.insert(out.end(), type, type + 4);
        out.insert(out.end(), data.begin(), data.end());
        uint32_t crc = 0xffffffffu;
        for (size_t i = 4; i < out.size(); ++i) {
            crc ^= out[i];
            for (int k = 0; k < 8; ++k) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
        append(out, ~crc);
        std::fwrite(out.data(), 1, out.size(), m_file);
    }
    FILE* m_file;
};

int main(int argc, char** argv) {
    const char* path = argc > 1 ? argv[1] : "mandelbrot.png";
    View view;
    view.width = argc > 2 ? std::atoi(argv[2]) : 320;
    view.height = argc > 3 ? std::atoi(argv[3]) : 240;
    view.iterations = argc > 4 ? std::atoi(argv[4]) : 256;
    view.step = 3.0f / static_cast<float>(view.width);
    view.left = -2.15f;
    view.top = -view.step * static_cast<float>(view.height) / 2;
    const size_t count = static_cast<size_t>(view.width) * view.height;
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    DeviceArray<unsigned char> pixels(count * 3);
    DeviceArray<int> counts(count);
    dim3 block(16, 16), grid((view.width + 15) / 16, (view.height + 15) / 16);
    auto start = std::chrono::steady_clock::now();
    mandelbrot<<<grid, block>>>(view, pixels.data(), counts.data());
    CHECK(cudaGetLastError());
    auto rgb = pixels.download();
    auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    auto n = counts.download();
    for (int y = 0; y < view.height; y += 7)
        for (int x = 0; x < view.width; ++x) EXPECT_EQ(n[static_cast<size_t>(y) * view.width + x], escape(view, x, y));
    PngWriter(path).write(rgb, view.width, view.height);
    std::printf("%s: %d x %d points, up to %d iterations, on '%s' in %.3f s; every 7th row verified\n", path, view.width, view.height, view.iterations,
                properties.name, seconds);
    return 0;
}

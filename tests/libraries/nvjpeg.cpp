// nvJPEG: pictures are read, one by one and many at once, and one is encoded. What is read is a file that the program writes
// itself.
#include <nvjpeg.h>

#include <cstdint>

#include "library.h"

#define JPEG(call) check(call, NVJPEG_STATUS_SUCCESS, #call, __LINE__)

namespace {

constexpr int k_width = 128, k_height = 64;
using Bytes = std::vector<unsigned char>;

/// A segment of a JPEG file: marker, length, what it says.
void add(Bytes& file, unsigned char marker, const Bytes& says) {
    const size_t length = says.size() + 2;
    file.insert(file.end(), {0xff, marker, static_cast<unsigned char>(length >> 8), static_cast<unsigned char>(length)});
    file.insert(file.end(), says.begin(), says.end());
}

/// A table of Huffman codes with a single code, 0, which says 0: no difference to the last block, or no more coefficients.
Bytes one_code(unsigned char which) {
    Bytes table(18, 0);
    table[0] = which;
    table[1] = 1;
    return table;
}

/// A grey picture (baseline, ITU T.81): two bits for each of its blocks.
Bytes grey_picture() {
    Bytes file = {0xff, 0xd8}, quantization(65, 1);
    quantization[0] = 0;
    add(file, 0xdb, quantization);
    add(file, 0xc0, {8, 0, k_height, 0, k_width, 1, 1, 0x11, 0});
    add(file, 0xc4, one_code(0x00));
    add(file, 0xc4, one_code(0x10));
    add(file, 0xda, {1, 1, 0x00, 0, 63, 0});
    file.insert(file.end(), k_width / 8 * (k_height / 8) * 2 / 8, 0);
    file.insert(file.end(), {0xff, 0xd9});
    return file;
}

void decode(nvjpegHandle_t library, const Bytes& file, const nvjpegImage_t& picture, cudaStream_t stream) {
    nvjpegJpegState_t one, many;
    JPEG(nvjpegJpegStateCreate(library, &one));
    JPEG(nvjpegJpegStateCreate(library, &many));
    int components = 0, widths[NVJPEG_MAX_COMPONENT] = {}, heights[NVJPEG_MAX_COMPONENT] = {};
    nvjpegChromaSubsampling_t subsampling;
    JPEG(nvjpegGetImageInfo(library, file.data(), file.size(), &components, &subsampling, widths, heights));
    check(components, 1, "the picture's components", __LINE__);
    check(widths[0], k_width, "the picture's width", __LINE__);
    check(heights[0], k_height, "the picture's height", __LINE__);
    nvjpegImage_t out = picture;
    for (int i = 0; i < 20; ++i) JPEG(nvjpegDecode(library, one, file.data(), file.size(), NVJPEG_OUTPUT_RGBI, &out, stream));
    constexpr int k_batch = 8;
    JPEG(nvjpegDecodeBatchedInitialize(library, many, k_batch, 1, NVJPEG_OUTPUT_RGBI));
    const std::vector<const unsigned char*> files(k_batch, file.data());
    const std::vector<size_t> lengths(k_batch, file.size());
    std::vector<nvjpegImage_t> outs(k_batch, picture);
    for (int i = 0; i < 5; ++i) JPEG(nvjpegDecodeBatched(library, many, files.data(), lengths.data(), outs.data(), stream));
    CUDA(cudaStreamSynchronize(stream));
    JPEG(nvjpegJpegStateDestroy(one));
    JPEG(nvjpegJpegStateDestroy(many));
}

void encode(nvjpegHandle_t library, const nvjpegImage_t& picture, cudaStream_t stream) {
    nvjpegEncoderState_t state;
    nvjpegEncoderParams_t how;
    JPEG(nvjpegEncoderStateCreate(library, &state, stream));
    JPEG(nvjpegEncoderParamsCreate(library, &how, stream));
    JPEG(nvjpegEncoderParamsSetQuality(how, 90, stream));
    JPEG(nvjpegEncoderParamsSetSamplingFactors(how, NVJPEG_CSS_420, stream));
    for (int i = 0; i < 5; ++i)
        JPEG(nvjpegEncodeImage(library, state, how, &picture, NVJPEG_INPUT_RGBI, k_width, k_height, stream));
    CUDA(cudaStreamSynchronize(stream));
    JPEG(nvjpegEncoderParamsDestroy(how));
    JPEG(nvjpegEncoderStateDestroy(state));
}

}  // namespace

int main() {
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    nvjpegHandle_t library;
    JPEG(nvjpegCreateSimple(&library));
    nvjpegImage_t picture{};
    picture.channel[0] = filled<unsigned char>(3 * k_width * k_height, 0);
    picture.pitch[0] = 3 * k_width;
    decode(library, grey_picture(), picture, stream);
    encode(library, picture, stream);
    JPEG(nvjpegDestroy(library));
    CUDA(cudaFree(picture.channel[0]));
    CUDA(cudaStreamDestroy(stream));
    return done("nvjpeg");
}

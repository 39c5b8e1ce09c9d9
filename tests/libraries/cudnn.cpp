// cuDNN: a convolution, an activation, a pooling and a softmax.
#include <cudnn.h>

#include "library.h"

#define DNN(call) check(call, CUDNN_STATUS_SUCCESS, #call, __LINE__)

int main() {
    constexpr int k_images = 2, k_channels = 8, k_side = 16;
    constexpr size_t k_count = k_images * k_channels * k_side * k_side;
    float *x = filled(k_count, 1.0f), *y = filled(k_count, 0.0f), *weights = filled(k_channels * k_channels * 9, 0.5f);
    cudnnHandle_t dnn;
    DNN(cudnnCreate(&dnn));
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    DNN(cudnnSetStream(dnn, stream));
    cudnnTensorDescriptor_t tensor, pooled;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
    cudnnActivationDescriptor_t activation;
    cudnnPoolingDescriptor_t pooling;
    DNN(cudnnCreateTensorDescriptor(&tensor));
    DNN(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, k_images, k_channels, k_side, k_side));
    DNN(cudnnCreateTensorDescriptor(&pooled));
    DNN(cudnnSetTensor4dDescriptor(pooled, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, k_images, k_channels, k_side / 2, k_side / 2));
    DNN(cudnnCreateFilterDescriptor(&filter));
    DNN(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, k_channels, k_channels, 3, 3));
    DNN(cudnnCreateConvolutionDescriptor(&convolution));
    DNN(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    DNN(cudnnCreateActivationDescriptor(&activation));
    DNN(cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    DNN(cudnnCreatePoolingDescriptor(&pooling));
    DNN(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
    constexpr auto k_algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
    size_t workspace_bytes = 0;
    DNN(cudnnGetConvolutionForwardWorkspaceSize(dnn, tensor, filter, convolution, tensor, k_algorithm, &workspace_bytes));
    void* workspace = nullptr;
    CUDA(cudaMalloc(&workspace, workspace_bytes + 1));
    const float one = 1, zero = 0;
    for (int i = 0; i < 50; ++i) {
        DNN(cudnnConvolutionForward(dnn, &one, tensor, x, filter, weights, convolution, k_algorithm, workspace, workspace_bytes,
                                    &zero, tensor, y));
        DNN(cudnnActivationForward(dnn, activation, &one, tensor, y, &zero, tensor, y));
        DNN(cudnnPoolingForward(dnn, pooling, &one, tensor, y, &zero, pooled, x));
        DNN(cudnnSoftmaxForward(dnn, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, tensor, y, &zero, tensor, y));
    }
    CUDA(cudaStreamSynchronize(stream));
    DNN(cudnnDestroy(dnn));
    return done("cudnn");
}

// Textures and surfaces through objects: 1D, 2D, 3D, layered, cube, mip levels, gathers, gradients.
extern "C" __global__ void textures(cudaTextureObject_t t, float4* out, int4* iout, float x, float y) {
    int i = threadIdx.x;
    out[i] = tex2D<float4>(t, x, y);
    out[i].x += tex1D<float>(t, x) + tex1Dfetch<float>(t, i) + tex3D<float>(t, x, y, 0.5f);
    out[i].y += tex1DLayered<float>(t, x, 2) + tex2DLayered<float>(t, x, y, 3) + texCubemap<float>(t, x, y, x) + texCubemapLayered<float>(t, x, y, x, 1);
    out[i].z += tex2DLod<float>(t, x, y, 1.5f) + tex2DGrad<float>(t, x, y, make_float2(x, y), make_float2(y, x)) + tex3DLod<float>(t, x, y, x, 1.0f);
    float4 g = tex2Dgather<float4>(t, x, y, 1);
    out[i].w += g.x + g.w;
    iout[i] = tex2D<int4>(t, x, y);
    iout[i].y += tex2D<unsigned char>(t, x, y) + tex1Dfetch<short>(t, i);
}

extern "C" __global__ void surfaces(cudaSurfaceObject_t s, uchar4* out) {
    int x = threadIdx.x, y = threadIdx.y;
    uchar4 v;
    surf2Dread(&v, s, x * 4, y);
    float f;
    surf1Dread(&f, s, x * 4, cudaBoundaryModeClamp);
    float4 q;
    surf3Dread(&q, s, x * 16, y, 2, cudaBoundaryModeZero);
    v.x += static_cast<unsigned char>(f + q.x);
    surf2Dwrite(v, s, x * 4, y);
    surf1Dwrite(f, s, x * 4, cudaBoundaryModeZero);
    surf2DLayeredwrite(make_float2(f, f), s, x * 8, y, 1);
    surf3Dwrite(static_cast<unsigned char>(3), s, x, y, 1, cudaBoundaryModeClamp);
    surfCubemapwrite(f, s, x * 4, y, 2);
    out[x] = v;
}

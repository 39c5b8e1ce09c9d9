// The mathematical library, single and double precision: long bodies, tables in constant and global memory, slow paths.
extern "C" __global__ void single_precision(const float* a, float* out) {
    float x = a[threadIdx.x], r = 0;
    int e;
    r += sinf(x) + cosf(x) + tanf(x) + asinf(x) + acosf(x) + atanf(x) + atan2f(x, 2.0f) + sinhf(x) + coshf(x) + tanhf(x);
    r += expf(x) + exp2f(x) + exp10f(x) + expm1f(x) + logf(x) + log2f(x) + log10f(x) + log1pf(x) + powf(x, 1.7f) + cbrtf(x);
    r += erff(x) + erfcf(x) + lgammaf(x) + tgammaf(x) + j0f(x) + y1f(x) + normcdff(x) + hypotf(x, 3.0f) + rsqrtf(x) + fmodf(x, 1.3f);
    r += remainderf(x, 0.7f) + frexpf(x, &e) + ldexpf(x, 3) + scalbnf(x, e) + nextafterf(x, 9.0f) + roundf(x) + logbf(x) + sinpif(x);
    out[threadIdx.x] = r + lrintf(x) + ilogbf(x);
}

extern "C" __global__ void double_precision(const double* a, double* out) {
    double x = a[threadIdx.x], r = 0, i;
    int e;
    r += sin(x) + cos(x) + tan(x) + asin(x) + acos(x) + atan(x) + atan2(x, 2.0) + sinh(x) + cosh(x) + tanh(x);
    r += exp(x) + exp2(x) + exp10(x) + expm1(x) + log(x) + log2(x) + log10(x) + log1p(x) + pow(x, 1.7) + cbrt(x);
    r += erf(x) + erfc(x) + lgamma(x) + tgamma(x) + j0(x) + y1(x) + normcdf(x) + hypot(x, 3.0) + rsqrt(x) + fmod(x, 1.3);
    r += remainder(x, 0.7) + frexp(x, &e) + ldexp(x, 3) + scalbn(x, e) + nextafter(x, 9.0) + round(x) + modf(x, &i) + sinpi(x);
    out[threadIdx.x] = r + i + llrint(x);
}

"""cuda.core and cuda.bindings: NVRTC's PTX and machine code, nvJitLink, launches."""

import numpy as np
from cases import case
from cuda.bindings import driver, runtime
from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, Program, ProgramOptions, launch

SOURCE = """
extern __device__ float inner(float x);
extern "C" __global__ void kernel(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = inner(x[i]);
}"""
INNER = "__device__ float inner(float x) { return 2 * x + 1; }"

device = Device()
device.set_current()
stream = device.create_stream()
ARCH = "sm_" + "".join(str(number) for number in device.compute_capability)


def checked(answer):
    assert answer[0] == 0, answer
    return answer[1] if len(answer) == 2 else answer[1:]


def runs(code):
    n = 1000
    there = checked(driver.cuMemAlloc(4 * n))
    x = np.arange(n, dtype=np.float32)
    checked(driver.cuMemcpyHtoD(there, x.ctypes.data, 4 * n))
    launch(stream, LaunchConfig(grid=8, block=128), code.get_kernel("kernel"), int(there), np.int32(n))
    stream.sync()
    back = np.empty_like(x)
    checked(driver.cuMemcpyDtoH(back.ctypes.data, there, 4 * n))
    checked(driver.cuMemFree(there))
    assert (back == 2 * x + 1).all()


def compiled(source, kind, **options):
    return Program(source, "c++", ProgramOptions(arch=ARCH, **options)).compile(kind)


@case
def ptx():
    runs(compiled(INNER + SOURCE, "ptx"))


@case
def machine_code():
    runs(compiled(INNER + SOURCE, "cubin"))


@case
def linked_ptx():
    units = [compiled(source, "ptx", relocatable_device_code=True) for source in (SOURCE, INNER)]
    runs(Linker(*units, options=LinkerOptions(arch=ARCH)).link("cubin"))


@case
def linked_machine_code():
    units = [compiled(source, "cubin", relocatable_device_code=True) for source in (SOURCE, INNER)]
    runs(Linker(*units, options=LinkerOptions(arch=ARCH)).link("cubin"))


@case
def profiler():
    checked(driver.cuProfilerStart())
    checked(driver.cuProfilerStop())


@case
def execution_context():
    kind = runtime.cudaDevResourceType.cudaDevResourceTypeSm
    whole = checked(runtime.cudaDeviceGetDevResource(0, kind))
    described = checked(runtime.cudaDevResourceGenerateDesc([whole], 1))
    context = checked(runtime.cudaGreenCtxCreate(described, 0, 0))
    own = checked(runtime.cudaExecutionCtxStreamCreate(context, 0, 0))
    assert int(checked(driver.cuStreamGetGreenCtx(driver.CUstream(int(own))))) != 0
    checked(runtime.cudaExecutionCtxSynchronize(context))
    checked(runtime.cudaExecutionCtxDestroy(context))

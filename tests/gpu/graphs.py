"""What a driver tells of graphs that it was given."""

import ctypes
from ctypes import byref, c_uint, c_void_p

from device import KERNELS, SUCCESS


class KernelNodeParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2"""
    _fields_ = [("func", c_void_p), ("sizes", c_uint * 7), ("parameters", c_void_p), ("extra", c_void_p), ("kern", c_void_p),
                ("ctx", c_void_p)]


def names_of_kernel_nodes(driver):
    """By which handles are nodes' kernels told that were given as a library's kernel, as the function of one, or as a module's function?"""
    context = driver.context()
    library = c_void_p()
    driver.call("cuLibraryLoadData", byref(library), KERNELS, None, None, 0, None, None, 0)
    module = c_void_p(driver.made(c_void_p, "cuModuleLoadData", KERNELS))
    kernel = driver.made(c_void_p, "cuLibraryGetKernel", library, b"nothing")
    of_kernel = driver.made(c_void_p, "cuKernelGetFunction", c_void_p(kernel))
    of_module = driver.made(c_void_p, "cuModuleGetFunction", module, b"nothing")
    known = {kernel: "kernel", of_kernel: "function of the kernel", of_module: "function of the module", None: "none", context: "current"}
    graph, found = c_void_p(driver.made(c_void_p, "cuGraphCreate", 0)), {}
    for name, func, kern in (("kernel", None, kernel), ("function_of_kernel", of_kernel, None), ("module", of_module, None)):
        given, told, node = KernelNodeParams(func=func, kern=kern, sizes=(1,) * 6 + (0,)), KernelNodeParams(), c_void_p()
        driver.call("cuGraphAddKernelNode_v2", byref(node), graph, None, 0, byref(given))
        code = driver.code("cuGraphKernelNodeGetParams_v2", node, byref(told))
        # A kernel's handle may be its function's as well.
        names = {"func": known, "ctx": known, "kern": {**known, kernel: "kernel"}}
        words = {field: names[field].get(getattr(told, field), "another") for field in names} if code == SUCCESS else {}
        found |= {f"{name}_{field}": word for field, word in {"result": code, **words}.items()}
    return found

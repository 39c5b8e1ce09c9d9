#!/usr/bin/env bash
# Compiles kernels.cu in the ways that images differ, for all build folders once. Usage: make_samples.sh NVCC CXX SOURCE OUT-DIR
set -euo pipefail
nvcc=$1 cxx=$2 source=$3 out=$4
mkdir -p "$out"
exec 9>"$out.lock"
flock 9
made="$(sha256sum "$0" "$source" "$(dirname "$source")/kernels.h" | cut -d' ' -f1 | paste -sd' ') $("$nvcc" --version | tail -n 1)"
[ "$(cat "$out/done" 2>/dev/null)" != "$made" ] || exit 0
rm -rf "$out"
mkdir -p "$out"
cd "$out"

# What libcudart would be given, wrapper and all: a library that registers itself with whoever loads it.
shared() { # NAME FLAGS…
    local name=$1
    shift
    "$nvcc" -shared -cudart=none -Xcompiler -fPIC "$@" -o "$name.so" "$source"
}
shared default
shared sass_only -gencode arch=compute_80,code=sm_80

# -rdc=true: a device-linked fatbin beside those of the translation units.
relocatable() { # NAME ARCH
    "$nvcc" -rdc=true "-arch=$2" -Xcompiler -fPIC -c -o "$1.o" "$source"
    "$nvcc" "-arch=$2" -dlink -Xcompiler -fPIC -o "$1_link.o" "$1.o"
    "$cxx" -shared -o "$1.so" "$1.o" "$1_link.o" "-L${nvcc%/bin/nvcc}/lib" "-L${nvcc%/bin/nvcc}/lib64" -lcudadevrt
}
relocatable rdc sm_80
relocatable rdc_ptx compute_80

for mode in none speed size balance; do
    "$nvcc" -fatbin -arch=sm_80 "--compress-mode=$mode" -o "compress_$mode.fatbin" "$source"
done
"$nvcc" -fatbin -arch=all-major -o all_major.fatbin "$source"
"$nvcc" -fatbin -gencode arch=compute_90a,code=[sm_90a,compute_90a] -gencode arch=compute_100f,code=sm_100f \
    -gencode arch=compute_80,code=compute_80 -o specific.fatbin "$source"
for arch in 75 80 90 100 120; do
    "$nvcc" -cubin "-arch=sm_$arch" --resource-usage -o "sm_$arch.cubin" "$source" 2>"sm_$arch.usage"
    "$nvcc" -ptx "-arch=compute_$arch" -o "compute_$arch.ptx" "$source"
done
"$nvcc" -cubin -arch=sm_80 -lineinfo -o lineinfo_80.cubin "$source"
"$nvcc" -cubin -arch=sm_120 -G -o debug_120.cubin "$source"
for unit in first second; do
    echo "extern \"C\" __global__ void ${unit}_unit(int* value) { ++*value; }" >"$unit.cu"
    "$nvcc" -cubin -rdc=true -arch=sm_80 -lineinfo -o "$unit.cubin" "$unit.cu"
done
"$nvcc" -dlink -cubin -arch=sm_80 -o linked_80.cubin first.cubin second.cubin
rm -f first.* second.*
"$nvcc" -cubin -rdc=true -arch=sm_100 -o relocatable_100.cubin "$source"
"$nvcc" -cubin -rdc=true -arch=sm_80 -o relocatable_80.cubin "$source"
rm -f ./*.o
echo "$made" >done

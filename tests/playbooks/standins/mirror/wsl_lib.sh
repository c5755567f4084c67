#!/bin/sh
# The libraries that Windows' driver shows below /usr/lib/wsl/lib.
set -e
mkdir -p /srv/wsl-lib
for pair in nvml.c:libnvidia-ml.so.1 cuda.c:libcuda.so.1.1; do
  name=${pair#*:}
  gcc -O1 -shared -fPIC -Wl,-soname,"${name%%.so*}.so.1" -DVERSION='"580.97"' -DCUDA=13000 -o "/srv/wsl-lib/$name" "/srv/build/mock/${pair%%:*}"
done
cp /srv/build/files/nvidia-smi /srv/wsl-lib/nvidia-smi

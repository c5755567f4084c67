#!/bin/sh
# What the NVIDIA hook does for a container that asked for GPUs, with the libraries of the stand-in: it is Docker's
# device driver `nvidia` because dockerd finds a program of that name.
set -eu
bundle=$(sed -n 's/.*"bundle":"\([^"]*\)".*/\1/p')
root=$(sed -n 's/.*"root":{"path":"\([^"]*\)".*/\1/p' "$bundle/config.json")
here=$(dirname "$0")
for name in libcuda.so.1 libnvidia-ml.so.1; do cp "$here/$name" "$root/usr/lib/$(uname -m)-linux-gnu/$name"; done
cp "$here/nvidia-smi" "$root/usr/bin/nvidia-smi"

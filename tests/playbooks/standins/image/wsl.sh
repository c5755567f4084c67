#!/bin/bash
# What WSL2 puts into a distribution: the Windows driver's libraries, wsl.conf and interop's marks.
set -euo pipefail
mkdir -p /usr/lib/wsl/lib /usr/lib/wsl/drivers
cp /usr/lib/standin/wsl-lib/* /usr/lib/wsl/lib/
ln -sfn libcuda.so.1.1 /usr/lib/wsl/lib/libcuda.so.1
ln -sfn libcuda.so.1 /usr/lib/wsl/lib/libcuda.so
chmod 755 /usr/lib/wsl/lib/nvidia-smi
echo /usr/lib/wsl/lib >/etc/ld.so.conf.d/ld.wsl.conf
printf '[boot]\nsystemd=true\n' >/etc/wsl.conf

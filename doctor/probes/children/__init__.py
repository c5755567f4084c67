"""What runs in disposable children: NVML, cuInit, and the filter that keeps them from changing the host."""

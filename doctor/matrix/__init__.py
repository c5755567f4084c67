"""The matrix: what is known about drivers, CUDA, GPUs and engines, each row with a source. No host is looked at here."""

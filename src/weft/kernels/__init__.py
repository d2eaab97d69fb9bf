"""Fast implementations. Each file names the plain code whose results it must equal and the test that compares them.

`triton` is for CUDA GPUs, `cpu` for CPUs; what both use is beside them. Kernels know tensors only: no file here imports
attention, models, search or training.
"""

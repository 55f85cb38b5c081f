"""Random kernels of the semtree, for the fuzzer and the tests of back ends."""

"""The semtree: kernels as typed loops over flat arrays, run over a grid."""

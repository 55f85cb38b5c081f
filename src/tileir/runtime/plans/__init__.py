"""Programs of kernels that are ready to run: where their temporaries lie, and how their launches follow each other."""

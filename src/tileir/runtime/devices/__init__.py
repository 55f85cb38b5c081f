"""Arrays in the memory of devices, and how they are exchanged with other libraries."""

"""Programs on several devices: meshes, shardings, partitioned programs, collectives, and the part of each rank."""

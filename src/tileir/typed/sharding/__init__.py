"""Programs on several devices: meshes, shardings, the partitioned program, its collectives, and each rank's part."""

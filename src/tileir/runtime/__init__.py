"""Back ends behind one interface: discovery, devices, compiling, buffers, events and launches."""

"""The parts of the Python builder; :mod:`tileir.tile.builder` is its public interface."""

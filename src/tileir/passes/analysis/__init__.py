"""Analyses of blocks, shared by passes; nothing here rewrites. The package re-exports common functions."""

from tileir.passes.analysis.accesses import (
    address as address,
    bytes_of_a_row as bytes_of_a_row,
    is_element as is_element,
    lone_store as lone_store,
)
from tileir.passes.analysis.dependences import DependenceScan as DependenceScan, roots as roots

"""The conformance kits: what every back end and every extension must do, as tests that run on any device.

``python -m tileir.testing NAME`` runs that of back ends and prints a summary; ``pytest --pyargs tileir_testing``, with
``--backend NAME``, runs it like any other tests. NAME is a device, a back end, or ``module:OBJECT`` for one that is
not installed.
"""

from tileir_testing.checking.check import check_passes
from tileir_testing.extensions import (
    check_command,
    check_installed,
    check_language,
    check_listing,
    check_operation,
    check_pass,
    check_schedule,
    check_target,
)
from tileir_testing.gradients import check_gradients
from tileir_testing.transports import check_transport

__all__ = [
    "check_command",
    "check_gradients",
    "check_installed",
    "check_language",
    "check_listing",
    "check_operation",
    "check_pass",
    "check_passes",
    "check_schedule",
    "check_target",
    "check_transport",
]

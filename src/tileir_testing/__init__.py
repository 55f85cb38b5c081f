"""The conformance kit: what every back end must do, as tests that run on any device.

``python -m tileir.testing NAME`` runs it and prints a summary; ``pytest --pyargs tileir.testing --backend NAME`` runs
it like any other tests. NAME is a device, a back end, or ``module:OBJECT`` for one that is not installed.
"""

"""The Hypothesis profiles of tileir's own tests."""

from __future__ import annotations

from strategies.effort import register_profiles

register_profiles()

"""The search for the fastest pipeline or script: candidates, sketches, contests and measurements."""

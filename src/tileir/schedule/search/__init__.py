"""Scripts that a tuner draws: sketches of schedules, the steps that they stand for, and changes of them."""

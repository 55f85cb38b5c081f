"""Images: blocks of pixels, crops, resizing, sampling at positions, and boxes around objects."""

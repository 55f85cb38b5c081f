"""Mathematical functions as straight-line semtree code; :mod:`tileir.semtree.expansions` is the way in."""

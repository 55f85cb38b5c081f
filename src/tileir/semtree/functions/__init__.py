"""Mathematical functions as straight-line semtree code; :mod:`tileir.semtree.transform.expansions` is the interface."""

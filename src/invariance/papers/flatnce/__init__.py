"""Claims of flatnce."""

CLAIMS = ()

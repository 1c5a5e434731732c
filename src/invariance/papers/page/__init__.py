"""Claims of page."""

CLAIMS = ()

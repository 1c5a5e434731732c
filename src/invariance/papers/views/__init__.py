"""Claims of views."""

CLAIMS = ()

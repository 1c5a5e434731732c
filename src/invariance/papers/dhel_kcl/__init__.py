"""Claims of dhel_kcl."""

CLAIMS = ()

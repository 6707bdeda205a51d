"""Learning in the span of chosen atoms: small dense linear algebra on the host, numbers in and numbers out."""

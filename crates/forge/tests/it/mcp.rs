//! `forge mcp`: the wire on standard input and output, and nothing else on it.

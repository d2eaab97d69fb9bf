"""The running process: what it reports, its switches, its children, and which implementation of a function it uses."""

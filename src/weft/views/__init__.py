"""Pictures: attention maps for the terminal and as SVG or PNG."""

"""Text to ids and back. Imports no torch."""

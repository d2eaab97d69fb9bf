"""Sources that are arrays: pictures, frames of features and sound, read from files that may come from a stranger."""

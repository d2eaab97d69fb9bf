"""Other people's engines: our models in their formats."""

"""Translation: from text to text with a trained model. `weft.translation.translator` is where to start."""

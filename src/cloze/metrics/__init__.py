"""Official scores."""

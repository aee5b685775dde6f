"""The encoder, its heads, and the directories it lives in."""

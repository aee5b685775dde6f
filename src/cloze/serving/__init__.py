"""An HTTP server of models: routes, limits, and the thread that computes."""

"""Fixtures that many tests share."""

pytest_plugins = ("shared_fixtures", "skips")

"""The fixtures of all tests."""

pytest_plugins = ("shared_fixtures", "skips")

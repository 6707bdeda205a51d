"""Settings of pytest that hold for every folder."""

import pytest


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Know the setting `timeout` without pytest-timeout too: tests then run without a limit."""
    if not pluginmanager.hasplugin("timeout"):
        parser.addini("timeout", "seconds a test may take, where pytest-timeout is installed")

"""What the tests need to know of the libraries they run with."""

import gc
import signal
from importlib.util import find_spec

import pytest
import sklearn
from _pytest.runner import runtestprotocol
from sklearn.utils.fixes import parse_version

# Arrays of other libraries are fitted where they live from scikit-learn 1.9 on; NumPy and sparse data before as well.
collect_ignore = [] if parse_version(sklearn.__version__) >= parse_version("1.9") else ["promises/test_array_api.py"]

# Thousands of tests and their modules stay until the end. Looking through them again and again for garbage took a tenth
# of the suite's time: it is not done while they are collected, and afterwards they are left out of the search.
gc.disable()

# Tests send interrupts to themselves. A shell that runs them in the background has these ignored.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def no_cuda_without_a_device(request):
    """scikit-learn's checks take a PyTorch that is built for CUDA, as pip's is, for a machine that has a GPU."""
    if find_spec("torch") and any("scikit_learn_checks" in item.name for item in request.session.items):
        import torch

        if not torch.cuda.is_available():
            torch.backends.cuda.is_built = lambda: False


def pytest_collection_finish():
    """Freeze what was collected; what tests leave behind is looked for in larger portions."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    gc.enable()


def pytest_runtest_protocol(item, nextitem):
    """A worker process reports a test that passed once, not before, after and for each of its three parts.

    What is reported travels to the main process and is taken apart there: a third of what pytest adds to a test.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True

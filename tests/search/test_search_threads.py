"""Paths of a search in threads: the numbers of one after the other, and interrupts that end all of them."""

import signal
import threading
import time
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from sklearn import config_context, get_config
from sklearn.base import clone

import kernelpursuit.search.foreseeing as foreseeing
import kernelpursuit.search.search as search
import kernelpursuit.search.search_paths as search_paths
import kernelpursuit.search.side_by_side as side_by_side
from kernelpursuit import KMPClassifierCV, KMPRegressorCV, SparseKernelFDACV, losses
from kernelpursuit.search.side_by_side import Ending, in_threads, threads_of_search

pytestmark = pytest.mark.filterwarnings("ignore:the best number of atoms is max_atoms")


def data(n=90):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


@pytest.fixture
def two_threads(monkeypatch):
    """Two threads for searches of any size; the names of those that worked."""
    names = set()
    path_scores = search.path_scores

    def noting(*job):
        names.add(threading.current_thread().name)
        return path_scores(*job)

    monkeypatch.setattr(search, "path_scores", noting)
    monkeypatch.setattr(side_by_side, "FEW_ROWS", 0)
    monkeypatch.setattr(side_by_side, "usable_threads", lambda: 2)
    return names


MODELS = [
    KMPRegressorCV(8, cv=3, gammas=[0.1, 1.0], alphas=[0.0, 0.1]),
    KMPRegressorCV(8, cv=3, gammas=[0.1, 1.0], scoring="r2"),
    KMPClassifierCV(8, cv=3, gammas=[0.1, 1.0]),
    SparseKernelFDACV(5, cv=3, gammas=[0.1, 1.0]),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_the_numbers_are_those_of_one_after_the_other(model, two_threads):
    X, y = data()
    y = y if isinstance(model, KMPRegressorCV) else y > 0
    threaded = clone(model).fit(X, y)
    assert two_threads and threading.main_thread().name not in two_threads
    alone = clone(model).set_params(n_jobs=1).fit(X, y)
    for name, values in alone.cv_results_.items():
        np.testing.assert_allclose(threaded.cv_results_[name], values, rtol=1e-9, err_msg=name)
    np.testing.assert_array_equal(threaded.predict(X), alone.predict(X))


@pytest.mark.parametrize("rows", [0, 2000])
def test_of_few_rows_one_path_at_a_time_is_foreseen(rows, two_threads, monkeypatch):
    monkeypatch.setattr(foreseeing, "FEW_FORESEEN", rows)
    foresee, under_way, most = foreseeing.foresee, [], []

    def slow(*given):
        *others, turn = given

        @contextmanager
        def noting():
            with turn or nullcontext():
                under_way.append(None)
                time.sleep(0.01)
                most.append(len(under_way))
                yield
                under_way.pop()

        return foresee(*others, noting())

    monkeypatch.setattr(foreseeing, "foresee", slow)
    X, y = data()
    one = KMPRegressorCV(8, gammas=[0.3, 1.0], cv=3).fit(X, y)
    assert len(two_threads) == 2 and threading.main_thread().name not in two_threads
    assert max(most) == 1 if rows else max(most) > 1
    np.testing.assert_array_equal(one.predict(X), clone(one).set_params(n_jobs=1).fit(X, y).predict(X))


def test_paths_are_foreseen_in_threads_and_those_of_the_last_fit(two_threads, monkeypatch):
    """That with the best width so far while the last paths are followed, and another where the last is the best."""
    monkeypatch.setattr(search_paths, "FEW_ROWS", 0)
    foresee, split, by = foreseeing.foresee, foreseeing.SplitKernel, {"foreseen": [], "made": []}

    def noting(what, function):
        def noted(*given, **options):
            by[what].append(threading.current_thread())
            return function(*given, **options)

        return noted

    monkeypatch.setattr(foreseeing, "foresee", noting("foreseen", foresee))
    monkeypatch.setattr(foreseeing, "SplitKernel", noting("made", split))
    X, y = data()
    for gammas, most in ([0.1, 0.3, 1.0], 10), ([1.0, 0.3, 0.1], 11):
        one = KMPRegressorCV(8, gammas=gammas, cv=3).fit(X, y)
        assert one.gamma_ == 0.1 and threading.main_thread() not in by["foreseen"] + by["made"]
        assert 10 <= len(by["foreseen"]) <= most and len(by["made"]) == 3
        np.testing.assert_array_equal(one.predict(X), clone(one).set_params(n_jobs=1).fit(X, y).predict(X))
        by["foreseen"].clear(), by["made"].clear()


def test_warnings_of_folds_are_left_out_and_filters_stay_as_they_were(two_threads):
    X, y = data(30)
    X = np.round(X[:, :1])  # few distinct rows: paths end early
    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        KMPRegressorCV(12, cv=3, gammas=[0.5], alpha=0.0, one_standard_error=True).fit(X, y)
    assert not [one for one in seen if "was asked for" in str(one.message)]
    assert warnings.filters == before


def test_searches_at_the_same_time_leave_filters_as_they_were(two_threads):
    X, y = data(200)
    before = list(warnings.filters)

    def late(seconds):
        time.sleep(seconds)
        KMPRegressorCV(15, cv=3, gammas=[0.1, 0.5, 1.0]).fit(X, y)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(late, [0.0, 0.02, 0.05]))
    assert warnings.filters == before


def test_threads_have_the_configuration_of_the_caller():
    with config_context(working_memory=7):
        seen = list(
            in_threads(lambda i: (i, get_config()["working_memory"]), lambda hands: [(1,), (2,), (3,)], 2, Ending())
        )
    assert seen == [(1, 7), (2, 7), (3, 7)]


def test_jobs_are_made_by_the_same_threads_and_may_wait_for_others():
    """So there are never more threads at work than the machine has cores."""
    seen, begun_at, done = set(), [], []

    def work(item):
        seen.add(threading.current_thread())
        time.sleep(0.001)
        return item

    def jobs(hands):
        for width in range(3):
            begun = hands.later(lambda: hands.each(work, range(20)))
            assert begun() == list(range(20))
            while hands.done() < 3 * width - 1:
                yield None
            begun_at.append(hands.done())
            yield from ((3 * width + fold,) for fold in range(3))

    for result in in_threads(work, jobs, 2, Ending()):
        done.append(result)
    assert done == list(range(9)) and len(begun_at) == 3
    assert all(3 * width - 1 <= at <= 3 * width for width, at in enumerate(begun_at))
    assert len(seen - {threading.main_thread()}) <= max(2, side_by_side.usable_threads())
    assert threading.main_thread() in seen  # who waits takes part


@pytest.mark.parametrize("few_rows", [0, 1500])
@pytest.mark.parametrize("one_standard_error", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_three_widths_are_in_memory_at_most(few_rows, one_standard_error, threads, monkeypatch):
    """Of the width of which paths are followed, the next and the best, whatever is chosen from at the end."""
    made, alive, split = [], [], foreseeing.SplitKernel

    class Noted(split):
        def __init__(self, *given, **options):
            made.append(weakref.ref(self))
            alive.append(sum(one() is not None for one in made))
            super().__init__(*given, **options)

    monkeypatch.setattr(foreseeing, "SplitKernel", Noted)
    monkeypatch.setattr(search_paths, "FEW_ROWS", few_rows)
    monkeypatch.setattr(side_by_side, "FEW_ROWS", 0)
    monkeypatch.setattr(side_by_side, "usable_threads", lambda: threads)
    X, y = data(120)
    KMPRegressorCV(8, gammas=[3.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05], cv=3, one_standard_error=one_standard_error).fit(
        X, y
    )
    assert len(made) == 7 and max(alive) <= 3
    assert not any(one() is not None for one in made)


def test_errors_of_what_is_made_in_threads_come_out():
    def wrong(item):
        if item == 3:
            raise ValueError("an error of one")
        return item

    def jobs(hands):
        begun = hands.later(lambda: hands.each(wrong, range(5)))
        time.sleep(0.01)  # the other thread has the error
        begun()
        yield ()

    with pytest.raises(ValueError, match="an error of one"):
        list(in_threads(wrong, jobs, 2, Ending()))


def test_what_is_being_made_ends_with_the_search():
    begun, ended = threading.Event(), []

    def slow(item):
        begun.set()
        time.sleep(0.002)
        ended.append(item)

    def jobs(hands):
        hands.later(lambda: hands.each(slow, range(10_000)))
        begun.wait(5)
        raise KeyboardInterrupt
        yield ()

    with pytest.raises(KeyboardInterrupt):
        list(in_threads(slow, jobs, 2, Ending()))
    assert len(ended) < 1000


def test_an_interrupt_ends_all_of_them(two_threads, monkeypatch):
    """Ctrl-C while the second or third path is waited for; what is known by then is the model."""
    X, y = data()
    path_scores, begun = search.path_scores, []

    def slow(model, *job):
        begun.append(model)
        if len(begun) > 2:
            while not model._ending():
                if threading.current_thread() is not threading.main_thread() and len(begun) == 4:
                    begun.append(None)
                    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                time.sleep(0.001)
        return path_scores(model, *job)

    monkeypatch.setattr(search, "path_scores", slow)
    model = KMPRegressorCV(8, cv=2, gammas=[0.1, 0.5, 1.0])
    with pytest.raises(KeyboardInterrupt, match=r"interrupted after [12] of 6 paths"):
        model.fit(X, y)
    assert model.gamma_ == 0.1 and len(model.support_) == model.best_n_atoms_
    assert np.all(np.isfinite(model.predict(X)))
    assert threading.active_count() == 1 or not [t for t in threading.enumerate() if "ThreadPool" in t.name]


def test_paths_that_are_finished_count_when_the_next_width_is_interrupted():
    done, seen = threading.Event(), []

    def jobs(hands):
        yield from [(1,), (2,)]
        done.wait(5)
        raise KeyboardInterrupt

    def path(i):
        if i == 2:
            done.set()
        return i

    with pytest.raises(KeyboardInterrupt):
        for one in in_threads(path, jobs, 2, Ending()):
            seen.append(one)
    assert seen == [1, 2]


def test_an_interrupted_path_says_how_far_it_came():
    """The one whose turn it is; the others end, and those that have not begun never do."""
    begun = []

    def path(i, ending):
        begun.append(i)
        while not ending():
            if i == 1:
                raise ValueError("an error of one")
            time.sleep(0.001)
        raise search.Interrupted(5)

    first, second = Ending(), Ending()

    def interrupting(hands):
        yield 0, first
        yield 2, first
        time.sleep(0.02)
        raise KeyboardInterrupt

    with pytest.raises(search.Interrupted) as caught:
        list(in_threads(path, interrupting, 2, first))
    assert caught.value.steps == 5 and sorted(begun) == [0, 2]
    with pytest.raises(ValueError, match="an error of one"):
        list(in_threads(path, lambda hands: [(i, second) for i in (1, 3, 4, 5)], 2, second))
    assert second.now and 5 not in begun


def test_where_there_is_one_thread(monkeypatch):
    monkeypatch.setattr(side_by_side, "usable_threads", lambda: 4)
    X, many = np.zeros((999, 2)), np.zeros((1000, 2))
    assert threads_of_search(KMPRegressorCV(), X, 5) == 1 and threads_of_search(KMPRegressorCV(), many, 5) == 4
    assert threads_of_search(KMPRegressorCV(), many, 3) == 3 and threads_of_search(SparseKernelFDACV(), many, 5) == 4
    one = [
        KMPRegressorCV(n_jobs=1), KMPRegressorCV(n_jobs=2), KMPRegressorCV(verbose=2),
        KMPRegressorCV(loss=losses.huber(1.0)), KMPRegressorCV(scoring=lambda model, X, y: 0.0),
    ]  # fmt: skip
    assert all(threads_of_search(model, many, 5) == 1 for model in one)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_line_for_each_path(two_threads, capsys):
    X, y = data()
    KMPRegressorCV(4, cv=3, gammas=[0.1, 1.0], verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert sum("fold" in line and "best score" in line for line in lines) == 6
    assert all(line.startswith("[kernelpursuit] ") for line in lines)

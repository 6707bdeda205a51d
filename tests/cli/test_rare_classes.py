"""Where classes are unequal, models that always name the frequent one err little: other measures judge them."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

pd = pytest.importorskip("pandas")
pytest.importorskip("skrub")
pytest.importorskip("jinja2")

from kernelpursuit.cli import page, reporting, scores  # noqa: E402
from kernelpursuit.cli.fitting import judgement_in_words  # noqa: E402
from kernelpursuit.cli.tables import Table  # noqa: E402
from kernelpursuit.cli.training import fit_table  # noqa: E402

RNG = np.random.default_rng(0)
A = RNG.normal(size=(200, 3))
GOOD = np.where(A[:, 0] + RNG.normal(size=200) > 2, "bad", "good")  # 8 % are bad, and none is clearly so


@pytest.mark.parametrize("classes", [2, 3])
def test_losses_are_those_of_scikit_learn(classes):
    """Values are rounded, so that many rows tie."""
    y = RNG.integers(classes, size=150).astype(str)
    values = np.round(RNG.dirichlet(np.ones(classes), size=150) + 0.3 * (y[:, None] == np.unique(y)), 1) + 0.01
    values /= values.sum(axis=1, keepdims=True)
    area = roc_auc_score(y == "1", values[:, 1]) if classes == 2 else roc_auc_score(y, values, multi_class="ovr")
    assert 1 - scores.ranking_losses(y, values).mean() == pytest.approx(area)
    assert scores.log_losses(y, values).mean() == pytest.approx(log_loss(y, values))


def test_the_spread_of_ranking_losses_is_that_of_the_area():
    """Over many draws of ten rare rows among two hundred."""
    draws, y = np.random.default_rng(1), np.repeat(["a", "b"], [190, 10])
    areas, noise = [], []
    for _ in range(400):
        p = np.where(y == "a", 0.0, 1.0) + draws.normal(size=200)
        losses = scores.ranking_losses(y, np.stack([-p, p], axis=1))
        areas.append(losses.mean())
        noise.append(losses.std() / np.sqrt(200))
    assert np.mean(noise) == pytest.approx(np.std(areas), rel=0.15)


def summary(family, terms, log_losses, lost_areas, never=()):
    """A model that is wrong in 5 % of 1000 rows, like all others."""
    losses = {"AUC": [np.array(lost_areas)], **({"log loss": [np.array(log_losses)]} if log_losses is not None else {})}
    named = {"AUC": 1 - np.mean(lost_areas), "AUC noise": 0.02, "balanced accuracy": 0.5}
    named |= {} if log_losses is None else {"log loss": float(np.mean(log_losses))}
    wrong = [np.repeat([1.0, 0.0], [50, 950])]
    return reporting.ModelSummary(family, family, [0.05], wrong, named, losses, [*never], terms, 0.1, 1.0, 0.1, 1.0)


def test_the_verdict_is_not_of_the_rows_that_are_wrong():
    """Once: "the same accuracy ... It is more accurate than HistGradientBoosting", of models that never named "bad"."""
    noise = 0.1 * np.random.default_rng(0).normal(size=1000)
    records = [
        summary("chance", None, 0.2 + noise, 0.5 + 0 * noise, ["bad"]),
        summary("refined auto", 6, 0.19 + noise, 0.3 + noise, ["bad"]),
        summary("exact", 400, None, 0.35 + noise / 2),
        summary("exact", 300, None, 0.2 + noise / 2),
        summary("boosting", None, 0.15 + noise / 2, 0.2 + noise),
    ]
    text = " ".join(reporting.conclusion(records, "classification", unequal=True))
    for words in (
        "The classes are unequal: area under the ROC curve 0.7", "(chance 0.500), log loss 0.18",
        "It never names 'bad'.",
        "it ranks the rows worse, with a fiftieth of the terms (6 for 300)",
        "probabilities are worse than those of Hist",
    ):  # fmt: skip
        assert words in text
    assert "accura" not in text


def test_the_model_of_a_table_is_judged_so():
    """Also beside its peers, and on its page."""
    frame = pd.DataFrame(A, columns=list("abc"))
    model = fit_table(Table("t.csv", frame, GOOD, "y", "classification", dict.fromkeys("abc", "number")), n_atoms=2)
    text = " ".join(judgement_in_words(model))
    held = model.about["held_out"]
    assert f"log loss {held['log loss']:.3f} (chance {held['chance log loss']:.3f})" in text
    assert ("It never names 'bad'." in text) == (held["never"] == ["bad"])
    best = max((one for one in model.about["peers"] if one["model"] != "chance"), key=lambda one: one["AUC"])
    assert f"The best of its peers on these rows, {best['model']}: area {best['AUC']:.3f} (this model:" in text
    model.about["held_out"]["never"] = ["bad"]
    shown = page.page_html(model, "m.model")
    assert "It never names &#39;bad&#39;." in shown and "what the area under the ROC curve lacks" in shown
    areas = [float(one["area"]) for one in page.peer_rows(model, str)]
    assert areas == sorted(areas, reverse=True)

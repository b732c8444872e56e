import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from proxlin.paper.classify import STEPS, Classified, _centre, classify
from proxlin.paper.grid import Cell
from proxlin.paper.store import pack
from proxlin.paper.workload import fresh_net, workload

CELL = Cell(dataset="digits", outliers=0.3, p=1.0, method="probed", seconds=None, steps=1, rows=300)


def job():
    net = fresh_net(CELL)
    return net, Classified(CELL, pack(torch.nn.utils.parameters_to_vector(net.parameters())))


def test_the_accuracy_is_that_of_scikit_learn_on_the_clean_codes():
    net, task = job()
    record = classify(task)
    work = workload(CELL)
    with torch.no_grad():
        train = net.encoder(work.train[0][~work.mask]).flatten(1).double().numpy()
        test = net.encoder(work.test[0]).flatten(1).double().numpy()
    labels = work.labels[0][~work.mask].numpy()
    assert record["rows"] == {"train": len(train), "test": 300, "features": 4 * 4 * 4}
    assert 0 < work.mask.sum() == 300 - len(train)
    for strength in (0.01, 0.1, 1.0):
        oracle = LogisticRegression(C=strength, max_iter=5000)  # on the codes as they are
        expected = oracle.fit(train, labels).score(test, work.labels[1].numpy())
        # Ours takes fewer steps in float32: a row or two on the boundary may change sides.
        assert record["by_strength"][str(strength)] == pytest.approx(expected, abs=2.5 / 300)
    assert record["accuracy"] == max(record["by_strength"].values())
    assert len(record["steps"]) == 3
    assert max(record["steps"]) <= STEPS


def test_codes_that_tell_the_classes_apart_less_score_less():
    net, good = job()
    with torch.no_grad():
        net.encoder[0].weight.zero_()  # the code no longer sees the image
    blind = Classified(CELL, pack(torch.nn.utils.parameters_to_vector(net.parameters())))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        assert classify(blind)["accuracy"] < 0.2 < classify(good)["accuracy"]


def test_other_parameters_are_another_job():
    _, task = job()
    other = Classified(CELL, pack(torch.zeros(3)))
    assert task.config() != other.config()
    assert task.name == other.name


def test_centring_in_place():
    generator = np.random.default_rng(0)
    train = generator.normal(3.0, 2.0, (2500, 5)).astype(np.float32)
    test = generator.normal(3.0, 2.0, (40, 5)).astype(np.float32)
    mean = train.astype(np.float64).mean(0)
    expected = test - mean
    _centre(train, test)
    np.testing.assert_allclose(train.mean(0), 0.0, atol=1e-5)
    np.testing.assert_allclose(test, expected, atol=1e-5)


def test_callbacks_hear_each_strength():
    heard = []
    _, task = job()
    record = classify(task, (lambda told: heard.append((told.share, told.objective)),))
    assert [share for share, _ in heard] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert [1 - error for _, error in heard] == pytest.approx(list(record["by_strength"].values()))

"""Methods that exist with some parameters only: `hasattr` and the error say so."""

from __future__ import annotations

import pytest

import lineal


@pytest.mark.parametrize("make", [lineal.LinearClassifier, lambda: lineal.TableClassifier(lineal.LinearClassifier())])
def test_absent_probabilities_say_what_to_set(make):
    classifier = make()
    assert not hasattr(classifier, "predict_proba")
    with pytest.raises(AttributeError, match=r"has no predict_proba: .*set probability=True, or use 'logistic'"):
        classifier.predict_proba  # noqa: B018


def test_methods_are_there_otherwise():
    assert hasattr(lineal.LinearClassifier("logistic"), "predict_proba")
    assert "Probabilities" in lineal.LinearClassifier.predict_proba.__doc__

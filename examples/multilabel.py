"""Multi-label classification: one decision per label (logistic), a ranking of labels, and thresholds for it."""

from __future__ import annotations

from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score, label_ranking_average_precision_score
from sklearn.preprocessing import MaxAbsScaler

import lineal


def main() -> None:
    X, Y = make_multilabel_classification(n_samples=1500, n_features=40, n_classes=6, n_labels=2, random_state=0)
    X = MaxAbsScaler().fit_transform(X)
    X_train, X_test, Y_train, Y_test = X[:1000], X[1000:], Y[:1000], Y[1000:]

    deciding = lineal.LinearClassifier(loss="logistic", alpha=1e-3).fit(X_train, Y_train)
    print(f"logistic: {deciding.certificate_}")
    print(f"  micro F1 {f1_score(Y_test, deciding.predict(X_test), average='micro'):.3f}")
    print(f"  probabilities of the first row: {deciding.predict_proba(X_test[:1])[0].round(2)}")

    ranking = lineal.LinearClassifier(loss="label_ranking", alpha=1e-3).fit(X_train, Y_train)
    print(f"label ranking: {ranking.certificate_}")
    for name, classifier in (("logistic", deciding), ("label ranking", ranking)):
        precision = label_ranking_average_precision_score(Y_test, classifier.decision_function(X_test))
        print(f"  average precision of the ranking by {name}: {precision:.3f}")

    for threshold in ("global", "per_label", "learned"):
        cut = lineal.LinearClassifier(loss="label_ranking", alpha=1e-3, threshold=threshold).fit(X_train, Y_train)
        print(f"  micro F1, threshold {threshold}: {f1_score(Y_test, cut.predict(X_test), average='micro'):.3f}")


if __name__ == "__main__":
    main()

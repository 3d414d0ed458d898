"""The scikit-learn face of lineal, thin: parameters in, `lineal.fit` in between, attributes out."""

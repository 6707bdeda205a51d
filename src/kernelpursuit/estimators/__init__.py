"""scikit-learn estimators: one public class a file, its constructor in the class, its `fit` on one screen.

regression.py and classification.py are kernel matching pursuit, ranker.py for rows in groups. landmarks.py, pca.py,
novelty.py and cca.py choose points without targets; discriminant.py and faces.py are other methods of the papers.
widths.py learns weights of the inputs (width_evidence.py), conformal.py wraps a regressor.
"""

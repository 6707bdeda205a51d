"""What the tests need to know of the libraries they run with."""

import sklearn
from sklearn.utils.fixes import parse_version

# Arrays of other libraries are fitted where they live from scikit-learn 1.9 on; NumPy and sparse data before as well.
collect_ignore = [] if parse_version(sklearn.__version__) >= parse_version("1.9") else ["test_array_api.py"]

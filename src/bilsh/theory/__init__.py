from bilsh.theory.distance import expected_hamming
from bilsh.theory.kernels import spectrum_of

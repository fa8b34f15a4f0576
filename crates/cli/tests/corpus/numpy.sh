# numpy on OpenBLAS with four threads, Debian's.
OPENBLAS_NUM_THREADS=4 /usr/bin/python3 - <<'END'
import numpy as np
r = np.random.default_rng(1)
a = r.random((400, 400))
print("%.6f" % (a @ a).sum(), "%.6f" % np.linalg.det(a / 8), "%.4f" % np.linalg.svd(a, compute_uv=False)[0])
print(np.allclose(np.linalg.solve(a, a @ np.ones(400)), 1), np.sort(r.integers(0, 1000, 100000)).sum())
print("%.6f" % abs(np.fft.fft(r.random(1 << 15))).sum(), "%.6f" % np.linalg.eigvalsh(a + a.T)[-1])
END
echo "$?"

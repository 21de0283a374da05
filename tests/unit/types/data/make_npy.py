"""Writes the .npy and .npz files of this folder with NumPy and ml_dtypes. Run by hand, in this folder."""
import ml_dtypes
import numpy as np

grid = np.arange(6).reshape(2, 3)
np.save("c_order_f32.npy", grid.astype("<f4") / 4)
np.save("fortran_big_endian_i32.npy", np.asfortranarray(grid.astype(">i4") - 3))
np.save("bf16.npy", (grid / 4).astype(ml_dtypes.bfloat16))
np.save("f8e5m2.npy", (grid / 4).astype(ml_dtypes.float8_e5m2))
np.save("i4.npy", np.asfortranarray((grid - 3).astype(ml_dtypes.int4)))
np.save("scalar_bool.npy", np.array(True))
with open("version_2_u8.npy", "wb") as file:
    np.lib.format.write_array(file, grid.astype(np.uint8), version=(2, 0))
np.save("objects.npy", np.array([{}, None], dtype=object), allow_pickle=True)
np.save("structured.npy", np.zeros(2, dtype=[("x", "<f4")]))
np.save("complex.npy", np.zeros(2, dtype=np.complex64))
np.savez_compressed("deflated.npz", **{"x": grid.astype(np.float64), "scope/y": grid.astype(ml_dtypes.int4)})
np.savez("stored.npz", a=np.float32(1.5), b=np.zeros((0, 4), np.int64))

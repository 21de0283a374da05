"""Writes small_floats.txt: what ml_dtypes makes of the 8-bit and 4-bit floats, as bits.

Lines: `decode FORMAT CODE FLOAT32` for every code, `encode FORMAT FLOAT32 SATURATING OTHERWISE` for probes
around every value, every midpoint and the special values. Run by hand when a format is added.
"""
import sys
import warnings

import ml_dtypes
import numpy as np

warnings.filterwarnings("ignore")
FORMATS = {
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f4e2m1": ml_dtypes.float4_e2m1fn,
}


def bits(value):
    return np.asarray(value, np.float32).view(np.uint32)


out = open(sys.argv[1], "w")
for name, dtype in FORMATS.items():
    codes = np.arange(16 if name == "f4e2m1" else 256, dtype=np.uint8)
    values = codes.view(dtype).astype(np.float32)
    for code, value in zip(codes, values):
        if not np.isnan(value):
            print(f"decode {name} {code:02x} {bits(value):08x}", file=out)
    finite = np.unique(np.abs(values[np.isfinite(values)]))
    middles = (finite[1:] + finite[:-1]) / 2
    probes = np.concatenate([finite[:: max(1, len(finite) // 32)], middles[:: max(1, len(middles) // 32)], middles[-2:]])
    largest = finite[-1]
    probes = np.concatenate([probes, [largest * 1.03, largest * 1.07, largest * 1.2, 1e30, np.inf]]).astype(np.float32)
    probes = np.concatenate([np.nextafter(probes, np.float32(0)), probes, np.nextafter(probes, np.float32(np.inf))])
    probes = np.unique(np.concatenate([probes, -probes]))
    limits = ml_dtypes.finfo(dtype)
    saturating = np.clip(probes, np.float32(limits.min), np.float32(limits.max)).astype(dtype).view(np.uint8)
    otherwise = probes.astype(dtype).view(np.uint8)
    for probe, first, second in zip(probes, saturating, otherwise):
        print(f"encode {name} {bits(probe):08x} {first:02x} {second:02x}", file=out)

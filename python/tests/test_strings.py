import pathlib
import tempfile
import unittest

import numpy as np
import xyntra

MODEL = b"""xir 1
graph @main(%x: string[rows, 2], %y: string[]) -> (%joined, %same) {
  %joined: string[rows, 2] = StringConcat(%x, %y)
  %same: bool[rows, 2] = Equal(%x, %y)
}
"""


class Strings(unittest.TestCase):
    def setUp(self):
        self.session = xyntra.Session(MODEL)

    def test_arrays_of_text(self):
        x = np.array([["a", "\u4e2d"], ["", "b\0"]], dtype=object)
        for backend in ("cpu", "reference", "sim", "fused", "float64"):
            joined, same = xyntra.Session(MODEL, backend=backend).run(None, {"x": x, "y": np.array("a", dtype=object)})
            self.assertEqual(joined.tolist(), [["aa", "\u4e2da"], ["a", "b\0a"]])
            self.assertEqual(same.tolist(), [[True, False], [False, False]])
            self.assertEqual(joined.dtype, object)

    def test_other_forms_of_text(self):
        for x in (np.array([["a", "bc"]]), np.array([[b"a", b"bc"]]), [["a", "bc"]], [["a", np.str_("bc")]]):
            self.assertEqual(self.session.run(["joined"], {"x": x, "y": "!"})[0].tolist(), [["a!", "bc!"]])
        self.assertEqual(self.session.run(["joined"], {"x": np.empty((0, 2), object), "y": ""})[0].shape, (0, 2))
        self.assertEqual([value.type for value in self.session.get_inputs()], ["tensor(string)", "tensor(string)"])

    def test_what_is_no_text_is_refused(self):
        for x in (np.ones((1, 2), np.float32), [[1, 2]], np.array([["a", None]], object), [[b"\xff", b""]], [["\ud800", ""]], np.array([["a"]]), 1):
            with self.assertRaises(xyntra.UsageError):
                self.session.run(None, {"x": x, "y": ""})
        numbers = xyntra.Session(b"xir 1\ngraph @main(%x: f32[2]) -> (%y) {\n  %y: f32[2] = Relu(%x)\n}\n")
        with self.assertRaises(xyntra.UsageError):
            numbers.run(None, {"x": ["a", "b"]})

    def test_an_artifact_takes_them(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.xir"
            path.write_bytes(MODEL)
            joined, _ = xyntra.Session(xyntra.compile(path)).run(None, {"x": [["a", ""]], "y": "b"})
            self.assertEqual(joined.tolist(), [["ab", "b"]])


if __name__ == "__main__":
    unittest.main()

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from load_script import load

conformance = load("conformance")
EXPECTED = {"passed": ["a", "b"], "not_passed": {"c": "strings"}}


def results(**status):
    return [{"name": name, "status": value, "reason": "why"} for name, value in status.items()]


class Conformance(unittest.TestCase):
    def compare(self, **status):
        return conformance.compare(EXPECTED, results(**status))

    def test_as_listed(self):
        self.assertEqual(self.compare(a="passed", b="passed", c="skipped"), (2, [], 1, []))

    def test_regression_fails(self):
        _, failures, _, _ = self.compare(a="passed", b="failed", c="skipped")
        self.assertEqual(failures, ["b: failed, passed before: why"])

    def test_skipping_what_passed_is_a_regression(self):
        _, failures, _, _ = self.compare(a="passed", b="skipped", c="skipped")
        self.assertEqual(failures, ["b: skipped, passed before: why"])

    def test_a_test_that_was_not_run_fails(self):
        _, failures, _, _ = self.compare(a="passed", c="skipped")
        self.assertEqual(failures, ["b: in the list, but was not run"])

    def test_an_unlisted_failure_fails(self):
        _, failures, _, _ = self.compare(a="passed", b="passed", c="skipped", d="failed")
        self.assertEqual(failures, ["d: failed, not in the list: why"])

    def test_progress_is_noted(self):
        passed, failures, _, notes = self.compare(a="passed", b="passed", c="passed")
        self.assertEqual((passed, failures, len(notes)), (3, [], 1))

    def test_a_folder_must_pass_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in "ab":
                (Path(folder) / name).mkdir()
                (Path(folder) / name / "model.onnx").touch()
            expected = conformance.all_pass(folder)
        _, failures, _, _ = conformance.compare(expected, results(a="passed"))
        self.assertEqual(failures, ["b: in the list, but was not run"])

    def test_a_sample_leaves_out_what_was_not_run(self):
        expected = conformance.only_sample(EXPECTED, results(a="passed", c="skipped"))
        self.assertEqual(expected, {"passed": ["a"], "not_passed": {"c": "strings"}})

    def test_what_an_adapter_lacks_is_excused(self):
        tests = [{"name": "a", "status": "failed", "reason": f"f64 in a shader: {conformance.NO_DOUBLES}"}]
        expected = conformance.excuse(EXPECTED, conformance.without_doubles(tests))
        self.assertEqual(expected, {"passed": ["b"], "not_passed": {"c": "strings", "a": conformance.NO_DOUBLES}})

    def test_an_excuse_is_for_one_way_to_run(self):
        tests = results(**{"light/light_vgg19": "failed", "light/light_zfnet512": "passed"})
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder) / "shaders.json"
            written.write_text('{"fused": {}, "unfused": {"light/*": "too large"}}', encoding="utf-8")
            with mock.patch.object(conformance, "SHADERS", written):
                self.assertEqual(conformance.excused_on_shaders("unfused", tests), {"light/light_vgg19": "too large"})
                self.assertEqual(conformance.excused_on_shaders("fused", tests), {})

    def test_an_archive_holds_the_tests(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            data, unpacked, archive = Path(folder) / "data", Path(folder) / "unpacked", Path(folder) / "tests.tar.xz"
            (data / "node/test_add").mkdir(parents=True)
            (data / "node/test_add/model.onnx").write_bytes(b"model")
            conformance.pack(data, archive)
            first = archive.read_bytes()
            (data / "node/test_add/model.onnx").touch()
            conformance.pack(data, archive)
            conformance.unpack(archive, unpacked)
            self.assertEqual(archive.read_bytes(), first)
            self.assertEqual((unpacked / "node/test_add/model.onnx").read_bytes(), b"model")


if __name__ == "__main__":
    unittest.main()

import unittest

from load_script import load

same_kernels = load("same_kernels")


class SameKernels(unittest.TestCase):
    def test_renames_are_whole_words_in_their_order(self):
        renames = same_kernels.parse_renames("turns -> trips\n\ntrips -> trip_count\n")
        self.assertEqual(same_kernels.renamed("loop turns, returns, turns_2 (turns)", renames),
                         "loop trip_count, returns, turns_2 (trip_count)")

    def test_a_trailer_that_is_no_rename_is_refused(self):
        with self.assertRaises(ValueError):
            same_kernels.parse_renames("turns became trips")


if __name__ == "__main__":
    unittest.main()

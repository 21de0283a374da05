#include "support/text/unknown_name.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/text/text.h"

namespace xyntra {
namespace {

const std::vector<std::string> kBackends = {"reference", "fused", "sim", "cpu", "wgsl", "ptx"};

TEST(UnknownName, ListsWhatThereIsAndTheNearest) {
  const Error error = unknown_name("backend", "cup", kBackends);
  EXPECT_EQ(error.error_class, ErrorClass::Usage);
  EXPECT_EQ(error.message, "there is no backend 'cup'; there are reference, fused, sim, cpu, wgsl, ptx");
  EXPECT_EQ(error.hint, "did you mean 'cpu'?");
  EXPECT_EQ(unknown_name("backend", "tpuv4", kBackends).hint, "");
}

TEST(UnknownName, CountsWhatIsTooMuchForASentence) {
  std::vector<std::string> many;
  for (int i = 0; i < 60; ++i) many.push_back("Op" + std::to_string(i));
  many.emplace_back("Softmax");
  const Error error = unknown_name("operator", "softmx", many, "xyntra ops");
  EXPECT_EQ(error.message, "there is no operator 'softmx'; there are 61: xyntra ops lists them");
  EXPECT_EQ(error.hint, "did you mean 'Softmax'?");
}

TEST(UnknownName, OfOneAndOfNone) {
  const std::vector<std::string> one = {"x"};
  EXPECT_EQ(unknown_name("input", "why", one).message, "there is no input 'why'; there is x");
  EXPECT_EQ(unknown_name("input", "why", {}).message, "there is no input 'why'; there is none at all");
}

TEST(NearestWord, CountsEditsSwapsAndIgnoresCase) {
  const std::vector<std::string> words = {"--backend", "--threads", "Relu", "max_memory"};
  EXPECT_EQ(nearest_word("--bakcend", words), "--backend");   // neighbours swapped
  EXPECT_EQ(nearest_word("--thread", words), "--threads");    // one missing
  EXPECT_EQ(nearest_word("RELU", words), "Relu");             // another case
  EXPECT_EQ(nearest_word("max_memroy", words), "max_memory");
  EXPECT_EQ(nearest_word("frobnicate", words), std::nullopt);
  EXPECT_EQ(nearest_word(std::string(100'000, 'x'), words), std::nullopt);  // quadratic work is not done
}

}  // namespace
}  // namespace xyntra

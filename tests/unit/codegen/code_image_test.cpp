// The loader: what it maps, and what it refuses.
#include <fstream>
#include <random>

#include "unit/codegen/kernel_runner.h"

namespace xyntra {
namespace {

// y[0] = x[0] + c, with a constant that comes from read-only memory.
std::vector<std::byte> small_object() {
  kir::Kernel kernel{"small", {}, {}, {}};
  kir::BufferId x = kir::add_buffer(kernel, {"x", DType::F64, {16}, kir::Scope::Global, false, {}});
  kir::BufferId y = kir::add_buffer(kernel, {"y", DType::F64, {16}, kir::Scope::Global, true, {}});
  kir::VarId l = kir::add_variable(kernel, "l", 16);
  te::Expr at = te::Expr::variable(l);
  kernel.body = kir::Stmt::loop(
      kir::LoopKind::Vector, l,
      kir::Stmt::store(y, {at}, te::exp(te::Expr::load(x, DType::F64, {at})) + te::cast(DType::F64, at)));
  auto made = compile_kernels(std::span(&kernel, 1), native_cpu());
  EXPECT_TRUE(made.has_value());
  return made ? made->object : std::vector<std::byte>{};
}

// The rights of the mapping that holds an address: "r-xp".
std::string rights_at(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t dash = line.find('-'), space = line.find(' ');
    const auto low = std::stoull(line.substr(0, dash), nullptr, 16);
    const auto high = std::stoull(line.substr(dash + 1, space - dash - 1), nullptr, 16);
    if (wanted >= low && wanted < high) return line.substr(space + 1, 4);
  }
  return "";
}

TEST(CodeImage, IsNeverWritableAndExecutable) {
  auto image = CodeImage::load(small_object());
  ASSERT_TRUE(image.has_value()) << image.error().to_string();
  PhaseFunction function = image->phase_function("k0_p0");
  ASSERT_NE(nullptr, function);
  EXPECT_EQ("r-xp", rights_at(reinterpret_cast<const void*>(function)));
  EXPECT_EQ("r--p", rights_at(&image->memory().back()));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    EXPECT_EQ(std::string::npos, line.substr(0, line.find(' ') + 5).find("wx")) << line;
  }
  EXPECT_EQ(nullptr, image->phase_function("k0_p1"));
}

TEST(CodeImage, RefusesWhatIsCut) {
  const std::vector<std::byte> object = small_object();
  for (std::size_t size = 0; size < object.size(); size += 1 + size / 16) {
    EXPECT_FALSE(CodeImage::load(std::span(object).first(size)).has_value()) << size;
  }
}

// A damaged object is refused or loaded, but never read or written outside. (What it computes is another question: the
// cache and artifacts compare a SHA-256 before they come here.)
TEST(CodeImage, SurvivesDamage) {
  const std::vector<std::byte> object = small_object();
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> damaged = object;
    for (int i = 0; i < 1 + round % 4; ++i) {
      // Half of the damage goes to the headers at the end, where it has the most to say.
      const std::size_t from = round % 2 == 0 ? 0 : damaged.size() * 3 / 4;
      damaged[from + random() % (damaged.size() - from)] = static_cast<std::byte>(random());
    }
    auto image = CodeImage::load(damaged);
    if (!image) {
      EXPECT_EQ(ErrorClass::BadModel, image.error().error_class) << image.error().to_string();
    }
  }
}

TEST(CodeImage, RefusesOtherMachinesAndUndefinedSymbols) {
  std::vector<std::byte> object = small_object();
  object[18] = std::byte{0x28};  // e_machine: a 32-bit Arm
  auto image = CodeImage::load(object);
  ASSERT_FALSE(image.has_value());
  EXPECT_NE(std::string::npos, image.error().message.find("another architecture"));
}

}  // namespace
}  // namespace xyntra

// Operations as shaders against the reference evaluator, bit by bit, on whatever adapter is there: with what every browser
// has, where integers of 64 bits are two words, and with what the adapter has. Skipped where there is none.
#include "codegen/wgsl/emit.h"
#include "runtime/drivers/webgpu.h"
#include "unit/codegen/every_operation.h"

namespace xyntra {
namespace {

constexpr std::size_t kOutputs = 4;  // of one shader: browsers promise 8 buffers, operands included

std::shared_ptr<webgpu::Device> device() {
  static const auto opened = webgpu::Device::open("");
  return opened ? *opened : nullptr;
}

class WgslSemantics : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!device()) GTEST_SKIP() << webgpu::Device::open("").error().message;
  }
  WgslFeatures features() const {
    const webgpu::Adapter& adapter = device()->adapter();
    return GetParam() ? WgslFeatures{} : WgslFeatures{adapter.int64, adapter.f64, adapter.f16};
  }

  // What the kernel makes of the operands: one result per buffer that it writes.
  std::vector<std::vector<std::byte>> run(const kir::Kernel& kernel, const Reference& reference) {
    auto shader = emit_wgsl(kernel, features());
    EXPECT_TRUE(shader.has_value()) << shader.error().to_string();
    if (!shader) return {};
    webgpu::Shader asked;
    asked.wgsl = shader->text;
    asked.entry = shader->phases[0].entry;
    std::vector<webgpu::Buffer> buffers;
    std::vector<std::vector<std::byte>> results;
    for (const kir::Buffer& buffer : kernel.buffers) {
      const auto bytes = static_cast<std::size_t>((kCount * bits_of(buffer.dtype) + 7) / 8);
      buffers.push_back(*device()->allocate(static_cast<std::int64_t>((bytes + 3) / 4 * 4)));
      asked.writable.push_back(true);
      if (buffer.written) {
        results.emplace_back(bytes);
      } else {
        EXPECT_TRUE(device()->write(buffers.back(), 0, reference.operand_bytes[buffers.size() - 1]));
      }
    }
    auto pipeline = device()->pipeline(asked);
    EXPECT_TRUE(pipeline.has_value()) << pipeline.error().to_string() << shader->text;
    if (!pipeline) return {};
    std::vector<webgpu::BufferRange> ranges;
    for (const webgpu::Buffer& buffer : buffers) ranges.push_back({&buffer, 0, buffer.bytes()});
    webgpu::Recording recording;
    const std::int64_t per_group = shader->phases[0].items_per_group;
    EXPECT_TRUE(recording.dispatch(*pipeline, ranges, {}, (kCount + per_group - 1) / per_group, 1, 1));
    EXPECT_TRUE(device()->submit(recording));
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(device()->read(buffers[reference.operands.size() + i], 0, results[i]));
    }
    return results;
  }

  void expect_same_as_reference(Operations operations) {
    const std::vector<Case> cases = operations.cases;
    std::vector<kir::Kernel> kernels;
    for (std::size_t first = 0; first < cases.size(); first += kOutputs) {
      const auto end = std::min(first + kOutputs, cases.size());
      operations.cases = {cases.begin() + static_cast<std::ptrdiff_t>(first),
                          cases.begin() + static_cast<std::ptrdiff_t>(end)};
      kernels.push_back(kernel_of(operations, 1));
    }
    operations.cases = cases;
    const Reference reference = reference_of(operations);
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const auto results = run(kernels[k], reference);
      for (std::size_t i = 0; i < results.size(); ++i) {
        expect_same(operations, reference, k * kOutputs + i, results[i],
                    GetParam() ? "with what every browser has" : "with what the adapter has");
      }
    }
  }
};

void keep(Operations& operations, const std::function<bool(const Case&)>& kept) {
  std::erase_if(operations.cases, [&](const Case& one) { return !kept(one); });
}

TEST_P(WgslSemantics, ArithmeticOnIntegersIsTheReferences) {
  for (DType dtype : all_dtypes()) {
    if (is_integer(dtype)) expect_same_as_reference(arithmetic_on(dtype));
  }
}

TEST_P(WgslSemantics, CastsToAndFromIntegersAreTheReferences) {
  for (DType from : all_dtypes()) {
    if (from == DType::F64) continue;
    Operations operations = casts_of(from);
    keep(operations, [from](const Case& one) {
      const DType to = one.body.dtype();
      if (one.body->op == ExprOp::Bitcast && bits_of(to) == 16)
        return false;  // signalling NaNs are among them
      return to != DType::F64 && (is_integer(from) || is_integer(to));
    });
    expect_same_as_reference(std::move(operations));
  }
}

TEST_P(WgslSemantics, DoublesAreRefusedWithTheReasonWhereThereAreNone) {
  if (features().float64) GTEST_SKIP() << "the adapter has them";
  Operations operations({DType::F32});
  operations.add("a double in between", te::cast(DType::F32, te::cast(DType::F64, operations.operand(0)) +
                                                                 Expr::floating(DType::F64, 1)));
  auto shader = emit_wgsl(kernel_of(operations, 1), features());
  ASSERT_FALSE(shader.has_value());
  EXPECT_EQ(ErrorClass::Unsupported, shader.error().error_class);
  EXPECT_NE(std::string::npos, shader.error().message.find("f64 in a shader: the adapter has no"));
}

INSTANTIATE_TEST_SUITE_P(Shaders, WgslSemantics, testing::Bool(),
                         [](const auto& name) { return name.param ? "Portable" : "Native"; });

}  // namespace
}  // namespace xyntra

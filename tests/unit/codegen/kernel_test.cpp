// Kernels written by hand: loops, scopes, masks, checks.
#include "unit/codegen/kernel_runner.h"

namespace xyntra {
namespace {

using kir::add_buffer;
using kir::add_variable;
using kir::BufferId;
using kir::Kernel;
using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using kir::VarId;
using te::Expr;

Expr var(VarId id) { return Expr::variable(id); }
Expr load(const Kernel& kernel, BufferId id, std::vector<Expr> index) {
  return Expr::load(id, kernel.buffer(id).dtype, std::move(index));
}
kir::Buffer global(DType dtype, Shape shape, bool written = false) {
  return {"b", dtype, std::move(shape), Scope::Global, written, {}};
}
kir::Buffer scoped(Scope scope, DType dtype, Shape shape) {
  return {"t", dtype, std::move(shape), scope, false, {}};
}

// y[i] = x[i] + 1 over n elements, in vectors of 16 with a masked tail.
Kernel add_one(const Dim& n) {
  Kernel kernel{"add_one", {}, {}, {}};
  BufferId x = add_buffer(kernel, global(DType::F32, {n}));
  BufferId y = add_buffer(kernel, global(DType::F32, {n}, true));
  VarId i = add_variable(kernel, "i", ceil_div(n, Dim(16)));
  VarId l = add_variable(kernel, "l", 16);
  Expr at = var(i) * 16 + var(l);
  Stmt store = Stmt::store(y, {at}, load(kernel, x, {at}) + 1);
  Stmt guarded = Stmt::branch(at < Expr::size(n), store);
  kernel.body = Stmt::loop(LoopKind::Grid, i, Stmt::loop(LoopKind::Vector, l, guarded));
  return kernel;
}

TEST(Kernels, AddsOneWithAMaskedTail) {
  for (std::int64_t n : {1, 15, 16, 17, 100}) {
    KernelRunner runner(add_one(n));
    auto buffers = runner.buffers();
    std::vector<float> x(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    buffers[0].set(x);
    ASSERT_EQ(0, runner.run(buffers));
    for (float& value : x) value += 1;
    EXPECT_EQ(x, buffers[1].as<float>());
  }
}

TEST(Kernels, SymbolicSizesAreArguments) {
  KernelRunner runner(add_one(Dim::symbol("n")));
  for (std::int64_t n : {0, 1, 31, 1000}) {
    SymbolBindings sizes{{"n", n}};
    for (bool guard_before : {false, true}) {
      auto buffers = runner.buffers(sizes, guard_before);
      std::vector<float> x(static_cast<std::size_t>(n), 2);
      buffers[0].set(x);
      ASSERT_EQ(0, runner.run(buffers, sizes, 3));
      EXPECT_EQ(std::vector<float>(static_cast<std::size_t>(n), 3), buffers[1].as<float>());
    }
  }
}

// c[m, n] = sum over k of a[m, k] * b[k, n], in tiles of 12 x 32 kept in registers.
Kernel matmul(std::int64_t m, std::int64_t n, const Dim& k) {
  Kernel kernel{"matmul", {}, {}, {}};
  BufferId a = add_buffer(kernel, global(DType::F32, {m / 12, k, 12}));
  BufferId b = add_buffer(kernel, global(DType::F32, {n / 32, k, 32}));
  BufferId c = add_buffer(kernel, global(DType::F32, {m, n}, true));
  BufferId tile = add_buffer(kernel, scoped(Scope::Register, DType::F32, {12, 32}));
  VarId i = add_variable(kernel, "i", m / 12), j = add_variable(kernel, "j", n / 32),
        s = add_variable(kernel, "s", k);
  auto rows = [&](auto body) {
    VarId r = add_variable(kernel, "r", 12), h = add_variable(kernel, "h", 2),
          l = add_variable(kernel, "l", 16);
    Stmt inner = body(var(r), var(h) * 16 + var(l));
    return Stmt::loop(LoopKind::Unrolled, r,
                      Stmt::loop(LoopKind::Unrolled, h, Stmt::loop(LoopKind::Vector, l, inner)));
  };
  Stmt zero = rows([&](Expr r, Expr l) { return Stmt::store(tile, {r, l}, Expr::floating(DType::F32, 0)); });
  Stmt step = rows([&](Expr r, Expr l) {
    return Stmt::store(tile, {r, l},
                       te::fma(load(kernel, a, {var(i), var(s), r}), load(kernel, b, {var(j), var(s), l}),
                               load(kernel, tile, {r, l})));
  });
  Stmt write = rows([&](Expr r, Expr l) {
    return Stmt::store(c, {var(i) * 12 + r, var(j) * 32 + l}, load(kernel, tile, {r, l}));
  });
  Stmt body = Stmt::block({zero, Stmt::loop(LoopKind::Serial, s, step), write});
  kernel.body = Stmt::loop(LoopKind::Grid, i, Stmt::loop(LoopKind::Grid, j, body));
  return kernel;
}

TEST(Kernels, MultipliesMatrices) {
  const std::int64_t m = 24, n = 64, k = 7;
  KernelRunner runner(matmul(m, n, Dim::symbol("k")));
  SymbolBindings sizes{{"k", k}};
  auto buffers = runner.buffers(sizes);
  std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5) - 2;
  buffers[0].set(a);
  buffers[1].set(b);
  ASSERT_EQ(0, runner.run(buffers, sizes, 1));
  const std::vector<float> c = buffers[2].as<float>();
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t s = 0; s < k; ++s) {
        sum += a[static_cast<std::size_t>(i / 12 * k * 12 + s * 12 + i % 12)] *
               b[static_cast<std::size_t>(j / 32 * k * 32 + s * 32 + j % 32)];
      }
      ASSERT_EQ(sum, c[static_cast<std::size_t>(i * n + j)]) << i << ", " << j;
    }
  }
}

TEST(Kernels, TileStaysInRegisters) {
  Kernel kernel = matmul(24, 64, Dim::symbol("k"));
  auto cpu = cpu_target("avx512");
  ASSERT_TRUE(cpu.has_value());
  auto text = kernels_text(std::span(&kernel, 1), *cpu, CodeText::Assembly);
  ASSERT_TRUE(text.has_value());
  auto count = [&](std::string_view what) {
    std::size_t found = 0;
    for (std::size_t at = text->find(what); at != std::string::npos; at = text->find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(24u, count("vfmadd")) << "12 rows of two vectors";
  EXPECT_EQ(12u, count("vbroadcastss\t-") + count("vbroadcastss\t(")) << "one element of a row each";
  EXPECT_EQ(0u, count("(%rsp)")) << "nothing is spilled";
}

}  // namespace
}  // namespace xyntra

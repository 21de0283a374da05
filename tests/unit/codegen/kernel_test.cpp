// Kernels written by hand: loops, scopes, masks, checks.
#include <bit>
#include <numeric>

#include "unit/codegen/example_kernels.h"
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

TEST(Kernels, TakeNoLongerToCompileThanTheyMay) {
  CodeOptions options;
  options.kernel_seconds = 0;
  const Kernel kernels[] = {add_one(100)};
  auto cpu = cpu_target("native");
  ASSERT_TRUE(cpu.has_value());
  auto made = compile_kernels(kernels, *cpu, options);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().error_class, ErrorClass::Limit);
  EXPECT_EQ(made.error().message,
            "kernel add_one: making its machine code takes longer than limits.kernel_seconds allows");
}

TEST(Kernels, AreMadeWithinABudget) {
  auto token = std::make_shared<CancelToken>();
  const Budget budget(INT64_MAX, std::nullopt, token);
  CodeOptions options;
  options.budget = &budget;
  const Kernel kernels[] = {add_one(100)};
  auto cpu = cpu_target("native");
  ASSERT_TRUE(cpu.has_value());
  EXPECT_TRUE(compile_kernels(kernels, *cpu, options).has_value());
  token->cancel();
  auto made = compile_kernels(kernels, *cpu, options);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().to_string(), "limit: cancelled");
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

// Non-temporal stores: of several vectors together, at any alignment of the buffer, with a tail.
TEST(Kernels, StreamsWhereSizesSaySo) {
  const Dim n = Dim::symbol("n");
  Kernel kernel{"double_all", {}, {}, {}};
  BufferId x = add_buffer(kernel, global(DType::F32, {n}));
  BufferId y = add_buffer(kernel, global(DType::F32, {n}, true));
  VarId g = add_variable(kernel, "g", 1), i = add_variable(kernel, "i", floor_div(n, 64)),
        l = add_variable(kernel, "l", 64), r = add_variable(kernel, "r", n - floor_div(n, 64) * 64);
  const Expr large = Expr::index(100) < Expr::size(n);
  auto doubled = [&](const Expr& at) { return Stmt::store(y, {at}, load(kernel, x, {at}) * 2, large); };
  Stmt vectors = Stmt::loop(LoopKind::Vector, l, doubled(var(i) * 64 + var(l)));
  Stmt rest = Stmt::loop(LoopKind::Serial, r, doubled(Expr::size(floor_div(n, 64) * 64) + var(r)));
  kernel.body =
      Stmt::loop(LoopKind::Grid, g, Stmt::block({Stmt::loop(LoopKind::Serial, i, std::move(vectors)), rest}));
  KernelRunner runner(kernel);
  for (std::int64_t count : {64, 127, 128, 129, 1000, 4096}) {
    SymbolBindings sizes{{"n", count}};
    for (bool guard_before : {false, true}) {
      auto buffers = runner.buffers(sizes, guard_before);
      buffers[0].set(std::vector<float>(static_cast<std::size_t>(count), 1.5F));
      ASSERT_EQ(0, runner.run(buffers, sizes));
      EXPECT_EQ(std::vector<float>(static_cast<std::size_t>(count), 3), buffers[1].as<float>());
    }
  }
}

// Whatever a NaN's bits, one is written, from vectors of any size; everything else stays as it is.
template <class T, class Bits>
void expect_one_nan(DType dtype, Bits infinity, Bits quiet, Bits sign) {
  const std::vector<Bits> all{0,
                              sign,
                              1,
                              sign | 1,
                              quiet,
                              quiet | 5,
                              sign | quiet | 5,
                              infinity,
                              infinity | 1,
                              infinity | sign,
                              infinity | sign | 9,
                              77};
  for (std::int64_t lanes : {1, 8, 16, 32, 64, 24}) {
    SCOPED_TRACE(lanes);
    Kernel kernel{"times_one", {}, {}, {}};
    BufferId x = add_buffer(kernel, global(dtype, {3, lanes}));
    BufferId y = add_buffer(kernel, global(dtype, {3, lanes}, true));
    VarId g = add_variable(kernel, "g", 3), l = add_variable(kernel, "l", lanes);
    const Expr same = load(kernel, x, {var(g), var(l)}) * Expr::number(dtype, 1);
    kernel.body = Stmt::loop(LoopKind::Grid, g,
                             Stmt::loop(LoopKind::Vector, l, Stmt::store(y, {var(g), var(l)}, same)));
    KernelRunner runner(kernel);
    auto buffers = runner.buffers({});
    std::vector<T> given(static_cast<std::size_t>(3 * lanes));
    std::vector<Bits> expected(given.size()), got(given.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Bits bits = all[i % all.size()];
      given[i] = std::bit_cast<T>(bits);
      expected[i] = (bits & ~sign) > infinity ? quiet : bits;
    }
    buffers[0].set(given);
    ASSERT_EQ(0, runner.run(buffers, {}));
    const std::vector<T> made = buffers[1].template as<T>();
    for (std::size_t i = 0; i < made.size(); ++i) got[i] = std::bit_cast<Bits>(made[i]);
    EXPECT_EQ(got, expected);
  }
}

TEST(Kernels, WriteOneNan) {
  expect_one_nan<float, std::uint32_t>(DType::F32, 0x7f800000, 0x7fc00000, 0x80000000);
  expect_one_nan<double, std::uint64_t>(DType::F64, 0x7ff0000000000000, 0x7ff8000000000000,
                                        0x8000000000000000);
}

TEST(Kernels, MultipliesMatrices) {
  const std::int64_t m = 24, n = 64, k = 7;
  KernelRunner runner(tiled_matmul(m, n, Dim::symbol("k")));
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
  Kernel kernel = tiled_matmul(24, 64, Dim::symbol("k"));
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

// y[i] = x[index[i]], with the index looked at first.
Kernel gather(std::int64_t n, std::int64_t rows, bool in_vectors) {
  Kernel kernel{"gather", {}, {}, {}};
  BufferId x = add_buffer(kernel, global(DType::F32, {rows}));
  BufferId index = add_buffer(kernel, global(DType::I64, {n}));
  BufferId y = add_buffer(kernel, global(DType::F32, {n}, true));
  VarId i = add_variable(kernel, "i", n);
  Expr at = load(kernel, index, {var(i)});
  Stmt body = Stmt::block({Stmt::check(x, 0, at), Stmt::store(y, {var(i)}, load(kernel, x, {at}))});
  kernel.body = Stmt::loop(in_vectors ? LoopKind::Vector : LoopKind::Serial, i, body);
  return kernel;
}

TEST(Kernels, ChecksFindTheFirstIndexOutside) {
  for (bool in_vectors : {false, true}) {
    KernelRunner runner(gather(20, 5, in_vectors));
    auto buffers = runner.buffers();
    std::vector<std::int64_t> index(20);
    for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::int64_t>(i % 5);
    buffers[0].set<float>({10, 11, 12, 13, 14});
    buffers[1].set(index);
    ASSERT_EQ(0, runner.run(buffers));
    EXPECT_EQ(13, buffers[2].as<float>()[18]);
    for (std::int64_t outside : {std::int64_t{5}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
      index[7] = outside;
      index[9] = 99;
      buffers[1].set(index);
      ASSERT_EQ(1, runner.run(buffers));
      EXPECT_EQ(0, runner.fault.buffer);
      EXPECT_EQ(0, runner.fault.dimension);
      EXPECT_EQ(outside, runner.fault.index);
    }
  }
}

// y[i] = select(3 <= i < n + 3, x[i - 3], -1): reads x only where it is.
TEST(Kernels, SelectReadsOnlyWhatItChooses) {
  for (std::int64_t n : {0, 1, 20}) {
    for (LoopKind kind : {LoopKind::Vector, LoopKind::Serial}) {
      Kernel kernel{"pad", {}, {}, {}};
      BufferId x = add_buffer(kernel, global(DType::F32, {n}));
      BufferId y = add_buffer(kernel, global(DType::F32, {32}, true));
      BufferId z = add_buffer(kernel, global(DType::F32, {32}, true));
      VarId i = add_variable(kernel, "i", 32);
      Expr at = var(i) - 3, minus = Expr::floating(DType::F32, -1);
      Expr inside = (at >= 0) & (at < n);
      Stmt padded = Stmt::store(y, {var(i)}, te::select(inside, load(kernel, x, {at}), minus));
      Stmt fallback = Stmt::store(z, {var(i)}, Expr::load_or(minus, x, {at}));
      kernel.body = Stmt::loop(kind, i, Stmt::block({padded, fallback}));
      KernelRunner runner(kernel);
      for (bool guard_before : {false, true}) {
        auto buffers = runner.buffers({}, guard_before);
        std::vector<float> values(static_cast<std::size_t>(n), 5), expected(32, -1);
        for (std::int64_t k = 0; k < n; ++k) expected[static_cast<std::size_t>(k + 3)] = 5;
        buffers[0].set(values);
        ASSERT_EQ(0, runner.run(buffers));
        EXPECT_EQ(expected, buffers[1].as<float>());
        EXPECT_EQ(expected, buffers[2].as<float>());
      }
    }
  }
}

// Two phases through a workspace, with a work item's shared memory between: y[j] = sum over i of (x[i] + i), times 2.
TEST(Kernels, PhasesShareAWorkspace) {
  const Dim n = Dim::symbol("n");
  Kernel kernel{"phases", {}, {}, {}};
  BufferId x = add_buffer(kernel, global(DType::I32, {n}));
  BufferId y = add_buffer(kernel, global(DType::I32, {1}, true));
  BufferId space = add_buffer(kernel, scoped(Scope::Workspace, DType::I32, {n}));
  BufferId shared = add_buffer(kernel, scoped(Scope::Shared, DType::I32, {n + 1}));
  BufferId other = add_buffer(kernel, scoped(Scope::Shared, DType::I32, {3}));
  BufferId sum = add_buffer(kernel, scoped(Scope::Register, DType::I32, {}));
  VarId i = add_variable(kernel, "i", n), j = add_variable(kernel, "j", n);
  Expr zero = Expr::index(0);
  Stmt first = Stmt::loop(
      LoopKind::Grid, i,
      Stmt::block(
          {Stmt::store(shared, {var(i)}, load(kernel, x, {var(i)})),
           Stmt::store(other, {zero}, te::cast(DType::I32, var(i))),
           Stmt::store(space, {var(i)}, load(kernel, shared, {var(i)}) + load(kernel, other, {zero}))}));
  Stmt second = Stmt::store(sum, {}, Expr::integer(DType::I32, 0));
  Stmt third = Stmt::loop(LoopKind::Serial, j,
                          Stmt::store(sum, {}, load(kernel, sum, {}) + load(kernel, space, {var(j)})));
  Stmt fourth = Stmt::store(y, {zero}, load(kernel, sum, {}) * 2);
  VarId once = add_variable(kernel, "once", 1);
  kernel.body = Stmt::block({first, Stmt::loop(LoopKind::Grid, once, Stmt::block({second, third, fourth}))});
  KernelRunner runner(kernel);
  ASSERT_EQ(2u, runner.compiled().phases.size());
  SymbolBindings sizes{{"n", 10}};
  auto buffers = runner.buffers(sizes);
  buffers[0].set(std::vector<std::int32_t>(10, 3));
  ASSERT_EQ(0, runner.run(buffers, sizes, 4));
  EXPECT_EQ(2 * (30 + 45), buffers[1].as<std::int32_t>()[0]);
}

// A transposed copy by strides of every kind: forwards, backwards, constant, unknown.
TEST(Kernels, ReadsAndWritesAtAnyStride) {
  const Dim n = Dim::symbol("n");
  for (DType dtype : {DType::F32, DType::F64, DType::I8, DType::F16, DType::Bool}) {
    Kernel kernel{"strides", {}, {}, {}};
    BufferId x = add_buffer(kernel, global(dtype, {16, n}));
    BufferId y = add_buffer(kernel, global(dtype, {n, 16}, true));
    BufferId z = add_buffer(kernel, global(dtype, {16, 3}, true));
    VarId i = add_variable(kernel, "i", n), l = add_variable(kernel, "l", 16);
    Stmt transposed = Stmt::store(y, {var(i), 15 - var(l)}, load(kernel, x, {var(l), var(i)}));
    Stmt strided = Stmt::store(z, {var(l), Expr::index(1)}, load(kernel, y, {var(i), var(l)}));
    Stmt last = Stmt::branch(te::equal(var(i), Expr::size(n) - 1), strided);
    kernel.body =
        Stmt::loop(LoopKind::Serial, i, Stmt::loop(LoopKind::Vector, l, Stmt::block({transposed, last})));
    KernelRunner runner(kernel);
    SymbolBindings sizes{{"n", 5}};
    auto buffers = runner.buffers(sizes);
    const std::size_t width = static_cast<std::size_t>(bits_of(dtype)) / 8;
    std::vector<std::byte> bytes(80 * width);
    for (std::size_t e = 0; e < 80; ++e)
      bytes[e * width] = std::byte(dtype == DType::Bool ? e % 3 == 0 : e + 1);
    buffers[0].set(bytes);
    ASSERT_EQ(0, runner.run(buffers, sizes));
    const std::vector<std::byte> found = buffers[1].as<std::byte>(), column = buffers[2].as<std::byte>();
    for (std::size_t row = 0; row < 16; ++row) {
      for (std::size_t c = 0; c < 5; ++c) {
        ASSERT_EQ(bytes[(row * 5 + c) * width], found[(c * 16 + 15 - row) * width]) << name_of(dtype);
      }
      EXPECT_EQ(bytes[(row * 5 + 4) * width], column[((15 - row) * 3 + 1) * width]) << name_of(dtype);
    }
  }
}

// Tiles whose rows are contiguous in memory and whose lanes are not, stored by columns; what is between columns is left alone.
TEST(Kernels, TilesAreStoredByColumns) {
  for (const std::int64_t lanes : {4, 8, 16}) {
    for (const std::int64_t rows : {3, 4, 5, 14, 16, 17, 32}) {
      for (const std::int64_t vectors : {1, 2}) {
        Kernel kernel{"columns", {}, {}, {}};
        const std::int64_t columns = vectors * lanes, gap = 3;
        BufferId x = add_buffer(kernel, global(DType::F32, {rows, columns}));
        BufferId y = add_buffer(kernel, global(DType::F32, {columns, rows + gap}, true));
        VarId r = add_variable(kernel, "r", rows), v = add_variable(kernel, "v", vectors),
              l = add_variable(kernel, "l", lanes);
        Expr column = var(v) * lanes + var(l);
        Stmt store = Stmt::store(y, {column, var(r)}, load(kernel, x, {var(r), column}) + 1);
        kernel.body =
            Stmt::loop(LoopKind::Unrolled, r,
                       Stmt::loop(LoopKind::Unrolled, v, Stmt::loop(LoopKind::Vector, l, std::move(store))));
        KernelRunner runner(kernel);
        auto buffers = runner.buffers();
        std::vector<float> values(static_cast<std::size_t>(rows * columns));
        std::iota(values.begin(), values.end(), 0.0f);
        std::vector<float> expected(static_cast<std::size_t>(columns * (rows + gap)), -7);
        buffers[0].set(values);
        buffers[1].set(expected);
        ASSERT_EQ(0, runner.run(buffers));
        for (std::int64_t c = 0; c < columns; ++c) {
          for (std::int64_t row = 0; row < rows; ++row)
            expected[static_cast<std::size_t>(c * (rows + gap) + row)] =
                static_cast<float>(row * columns + c + 1);
        }
        EXPECT_EQ(expected, buffers[1].as<float>()) << lanes << " lanes, " << rows << " rows";
      }
    }
  }
}

// Lanes that an If divides: both sides store, and what is off is left alone.
TEST(Kernels, DividedLanesStoreTheirOwn) {
  Kernel kernel{"divided", {}, {}, {}};
  BufferId x = add_buffer(kernel, global(DType::I32, {16}));
  BufferId y = add_buffer(kernel, global(DType::I32, {16}, true));
  BufferId kept = add_buffer(kernel, scoped(Scope::Register, DType::I32, {16}));
  VarId l = add_variable(kernel, "l", 16), k = add_variable(kernel, "k", 3);
  Expr value = load(kernel, x, {var(l)});
  Stmt begin = Stmt::store(kept, {var(l)}, Expr::integer(DType::I32, 7));
  Stmt odd =
      Stmt::loop(LoopKind::Serial, k, Stmt::store(kept, {var(l)}, load(kernel, kept, {var(l)}) + value));
  Stmt even = Stmt::branch(value > 8, Stmt::store(y, {var(l)}, value * 100));
  Stmt divided = Stmt::branch(te::equal(te::mod(value, 2), Expr::integer(DType::I32, 1)), odd, even);
  Stmt end =
      Stmt::branch(load(kernel, kept, {var(l)}) > 7, Stmt::store(y, {var(l)}, load(kernel, kept, {var(l)})));
  kernel.body = Stmt::loop(LoopKind::Vector, l, Stmt::block({begin, divided, end}));
  KernelRunner runner(kernel);
  auto buffers = runner.buffers();
  std::vector<std::int32_t> values(16), expected(16, -5);
  for (std::size_t i = 0; i < 16; ++i) values[i] = static_cast<std::int32_t>(i);
  buffers[0].set(values);
  buffers[1].set(expected);
  ASSERT_EQ(0, runner.run(buffers));
  for (std::size_t i = 0; i < 16; ++i) {
    if (i % 2 == 1) expected[i] = values[i] * 3 + 7;
    if (i % 2 == 0 && i > 8) expected[i] = values[i] * 100;
  }
  EXPECT_EQ(expected, buffers[1].as<std::int32_t>());
}

// Half bytes from an odd place on, copied in vectors and one by one.
TEST(Kernels, PackedElementsKeepTheirNeighbours) {
  for (std::int64_t shift : {0, 1, 2}) {
    for (LoopKind kind : {LoopKind::Vector, LoopKind::Serial}) {
      Kernel kernel{"packed", {}, {}, {}};
      BufferId x = add_buffer(kernel, global(DType::U4, {20}));
      BufferId y = add_buffer(kernel, global(DType::U4, {20}, true));
      VarId l = add_variable(kernel, "l", 16);
      Expr at = var(l) + shift;
      kernel.body = Stmt::loop(kind, l, Stmt::store(y, {at}, load(kernel, x, {at}) + 1));
      KernelRunner runner(kernel);
      auto buffers = runner.buffers();
      std::vector<std::uint8_t> values(10), before(10, 0xa5);
      for (std::size_t i = 0; i < 10; ++i) values[i] = static_cast<std::uint8_t>(i * 29);
      buffers[0].set(values);
      buffers[1].set(before);
      ASSERT_EQ(0, runner.run(buffers));
      const std::vector<std::uint8_t> found = buffers[1].as<std::uint8_t>();
      for (std::int64_t e = 0; e < 20; ++e) {
        auto part = [e](const std::vector<std::uint8_t>& from) {
          return from[static_cast<std::size_t>(e / 2)] >> (e % 2 * 4) & 15;
        };
        const bool copied = e >= shift && e < shift + 16;
        EXPECT_EQ(copied ? (part(values) + 1) % 16 : part(before), part(found)) << e << " from " << shift;
      }
    }
  }
}

TEST(Kernels, SaysWhatACpuDoesNotHave) {
  Kernel kernel{"fence", {}, {}, Stmt::call(kir::Intrinsic::WarpgroupFence, {})};
  auto made = compile_kernels(std::span(&kernel, 1), native_cpu());
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(ErrorClass::Unsupported, made.error().error_class);
  EXPECT_NE(std::string::npos, made.error().message.find("warpgroup_fence"));
}

// A mistake of ours crosses from the library that has LLVM in it.
TEST(Kernels, ABrokenKernelIsAnInternalError) {
  Kernel kernel{"broken", {}, {}, {}};
  BufferId y = add_buffer(kernel, global(DType::I64, {1}, true));
  VarId i = add_variable(kernel, "i", 1);
  kernel.body = Stmt::store(y, {Expr::index(0)}, var(i));  // outside its loop
  EXPECT_THROW((void)compile_kernels(std::span(&kernel, 1), native_cpu()), InternalError);
}

TEST(Kernels, SameKernelsSameBytes) {
  const Kernel kernels[] = {add_one(Dim::symbol("n")), tiled_matmul(24, 64, 100), gather(20, 5, true)};
  auto first = compile_kernels(kernels, native_cpu()), second = compile_kernels(kernels, native_cpu());
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->object, second->object);
}

TEST(Kernels, ManyKernelsMakeOneImage) {
  std::vector<Kernel> kernels;
  for (std::int64_t n = 1; n <= 11; ++n) kernels.push_back(add_one(n));
  auto made = compile_kernels(kernels, native_cpu());
  ASSERT_TRUE(made.has_value()) << made.error().to_string();
  auto image = CodeImage::load(made->object);
  ASSERT_TRUE(image.has_value()) << image.error().to_string();
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    ASSERT_EQ(1u, made->kernels[k].phases.size());
    PhaseFunction function = image->phase_function(made->kernels[k].phases[0].symbol);
    ASSERT_NE(nullptr, function);
    std::vector<float> x(k + 1, 4), y(k + 1);
    std::byte* buffers[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(y.data())};
    KernelFault fault;
    KernelCall call{buffers, nullptr, &fault};
    EXPECT_EQ(0, function(&call, 0, 1, nullptr));
    EXPECT_EQ(std::vector<float>(k + 1, 5), y);
  }
  auto empty = compile_kernels({}, native_cpu());
  ASSERT_TRUE(empty.has_value());
}

// Nothing here can run it, but its object is complete: no call to a library is left in it.
TEST(Kernels, CompileForArm) {
  auto cpu = cpu_target("native");
  ASSERT_TRUE(cpu.has_value());
  for (const char* features : {"+neon", "+neon,+v8.6a,+bf16,+i8mm"}) {
    CpuTarget arm{"aarch64-unknown-linux-gnu", "generic", features};
    const Kernel kernels[] = {add_one(Dim::symbol("n")), tiled_matmul(24, 64, 100), gather(20, 5, true)};
    auto made = compile_kernels(kernels, arm);
    ASSERT_TRUE(made.has_value()) << made.error().to_string();
  }
}

TEST(CpuTargets, HaveNames) {
  EXPECT_TRUE(cpu_target("native").has_value());
  EXPECT_TRUE(cpu_target("generic").has_value());
  auto unknown = cpu_target("toaster");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(ErrorClass::Usage, unknown.error().error_class);
}

}  // namespace
}  // namespace xyntra

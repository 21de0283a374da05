// The verifier: each rule of kernel.h, with the kernel that keeps it and the kernel that breaks it.
#include <gtest/gtest.h>

#include "kir/kernel.h"

namespace xyntra::kir {
namespace {

using te::select;

// y[index] = x[index] over a grid of `extent`, in buffers of `size`.
struct Copy {
  Kernel kernel;
  BufferId x, y;
  VarId i;
  Expr at;

  Copy(const Dim& extent, const Dim& size) {
    kernel.name = "copy";
    x = add_buffer(kernel, {.name = "x", .shape = {size}});
    y = add_buffer(kernel, {.name = "y", .shape = {size}, .written = true});
    i = add_variable(kernel, "i", extent);
    at = Expr::variable(i);
  }
  Expr load(const Expr& index) const { return Expr::load(x, DType::F32, {index}); }
  Stmt store(const Expr& index) const { return Stmt::store(y, {index}, load(index)); }
  Status with(Stmt body) {
    kernel.body = Stmt::loop(LoopKind::Grid, i, std::move(body));
    return verify(kernel);
  }
};

std::string message(const Status& status) { return status ? "" : status.error().message; }

const Dim kN = Dim::symbol("N");

TEST(KirVerify, HintsMayPointAnywhereButNotBeInLanes) {
  Copy copy(kN, kN);
  Stmt prefetch = Stmt::call(Intrinsic::Prefetch, {{copy.x, {copy.at + Expr::index(4096)}, {}}});
  EXPECT_EQ(message(copy.with(Stmt::block({prefetch, copy.store(copy.at)}))), "");
  VarId lane = add_variable(copy.kernel, "l", 16);
  EXPECT_NE(message(copy.with(Stmt::loop(LoopKind::Vector, lane, prefetch))), "");
}

TEST(KirVerify, StreamsDependOnSizesAlone) {
  Copy copy(kN, kN);
  auto streamed = [&](Expr when) {
    return Stmt::store(copy.y, {copy.at}, copy.load(copy.at), std::move(when));
  };
  EXPECT_EQ(message(copy.with(streamed(Expr::boolean(true)))), "");
  EXPECT_EQ(message(copy.with(streamed(Expr::index(1000) < Expr::size(kN)))), "");
  auto again = parse_kernel(to_string(copy.kernel));
  ASSERT_TRUE(again);
  EXPECT_EQ(to_string(*again), to_string(copy.kernel));
  EXPECT_EQ(message(copy.with(streamed(copy.at < 5))),
            "kernel copy: stream of a store to 'y' on a condition that depends on more than sizes");
  EXPECT_EQ(message(copy.with(streamed(Expr::size(kN)))),
            "kernel copy: stream of a store to 'y' on a condition that is not bool");
}

TEST(KirVerify, AccessesWithinLoopExtentsPass) {
  Copy copy(kN, kN);
  EXPECT_EQ(message(copy.with(copy.store(copy.at))), "");
}

TEST(KirVerify, AnUnprovedAccessNamesKernelBufferDimensionAndIndex) {
  Copy copy(kN, kN);
  EXPECT_EQ(message(copy.with(copy.store(copy.at + 1))),
            "kernel copy: load of 'x': dimension 0: index i + 1 is not shown to be within 0 and N");
  EXPECT_NE(message(copy.with(copy.store(copy.at - 1))), "");
}

TEST(KirVerify, TheEnclosingIfCounts) {
  Copy copy(ceil_div(kN, 16), kN);
  VarId lane = add_variable(copy.kernel, "l", 16);
  Expr at = copy.at * 16 + Expr::variable(lane);
  Stmt guarded = Stmt::branch(at < Expr::size(kN), copy.store(at));
  EXPECT_EQ(message(copy.with(Stmt::loop(LoopKind::Vector, lane, guarded))), "");
  EXPECT_NE(message(copy.with(Stmt::loop(LoopKind::Vector, lane, copy.store(at)))), "");
  // A guard on the whole vector.
  Stmt whole =
      Stmt::branch(copy.at * 16 + 15 < Expr::size(kN), Stmt::loop(LoopKind::Vector, lane, copy.store(at)));
  EXPECT_EQ(message(copy.with(whole)), "");
  Stmt weak =
      Stmt::branch(copy.at * 16 + 14 < Expr::size(kN), Stmt::loop(LoopKind::Vector, lane, copy.store(at)));
  EXPECT_NE(message(copy.with(weak)), "");
  Stmt other = Stmt::branch(at >= Expr::size(kN), copy.store(at), copy.store(at));
  EXPECT_NE(message(copy.with(Stmt::loop(LoopKind::Vector, lane, other))), "");
  Stmt reversed = Stmt::branch(at >= Expr::size(kN), Stmt::block({}), copy.store(at));
  EXPECT_EQ(message(copy.with(Stmt::loop(LoopKind::Vector, lane, reversed))), "");
}

TEST(KirVerify, AConditionOnVectorsCountsForThem) {
  // 64 i + 4 x + v < 784 says 16 i + x < 196, since all are whole: so (64 i + 4 x + v) / 28 < 28.
  Copy copy(13, 28);
  VarId x = add_variable(copy.kernel, "x", 16), lane = add_variable(copy.kernel, "v", 4);
  Expr at = copy.at * 64 + (Expr::variable(x) * 4 + Expr::variable(lane));
  auto under = [&](std::int64_t bound) {
    Stmt store = Stmt::branch(at < Expr::index(bound), copy.store(te::floor_div(at, Expr::index(28))));
    return copy.with(Stmt::loop(LoopKind::Serial, x, Stmt::loop(LoopKind::Vector, lane, store)));
  };
  EXPECT_EQ(message(under(784)), "");
  EXPECT_NE(message(under(785)), "");
}

TEST(KirVerify, WholeTilesOfASymbolicSizePass) {
  Copy copy(floor_div(kN, 16), kN);
  VarId lane = add_variable(copy.kernel, "l", 16);
  Expr at = copy.at * 16 + Expr::variable(lane);
  EXPECT_EQ(message(copy.with(Stmt::loop(LoopKind::Vector, lane, copy.store(at)))), "");
  // What is left over, from the last whole tile on.
  Expr tail = Expr::size(kN - modulo(kN, 16)) + copy.at;
  Copy rest(modulo(kN, 16), kN);
  EXPECT_EQ(message(rest.with(rest.store(tail))), "");
  Expr tail_by_division = Expr::size(floor_div(kN, 16) * 16) + copy.at;
  Copy rest_by_division(kN - floor_div(kN, 16) * 16, kN);
  EXPECT_EQ(message(rest_by_division.with(rest_by_division.store(tail_by_division))), "");
}

TEST(KirVerify, ClampedIndicesPass) {
  Copy copy(kN, kN);
  Expr last = Expr::size(kN) - 1;
  EXPECT_EQ(message(copy.with(copy.store(te::min(copy.at + 3, last)))), "");
  EXPECT_EQ(message(copy.with(copy.store(te::max(copy.at - 3, Expr::index(0))))), "");
  EXPECT_NE(message(copy.with(copy.store(te::max(copy.at + 3, Expr::index(0))))), "");
  EXPECT_EQ(message(copy.with(copy.store(te::mod(copy.at + 3, Expr::size(kN))))), "");
  EXPECT_EQ(message(copy.with(copy.store(te::floor_div(copy.at, 2)))), "");
  EXPECT_EQ(message(copy.with(copy.store(select(copy.at + 1 < Expr::size(kN), copy.at + 1, copy.at)))), "");
  EXPECT_NE(message(copy.with(copy.store(select(copy.at + 1 <= Expr::size(kN), copy.at + 1, copy.at)))), "");
  EXPECT_EQ(message(copy.with(copy.store(last))), "");  // the loop has an iteration, so N is at least 1
}

TEST(KirVerify, SelectReadsOnlyWhereItsConditionHolds) {
  Copy copy(kN, kN);
  Expr before = copy.at - 1, zero = Expr::floating(DType::F32, 0);
  auto stored = [&](Expr value) { return copy.with(Stmt::store(copy.y, {copy.at}, std::move(value))); };
  EXPECT_EQ(message(stored(select(before >= 0, copy.load(before), zero))), "");
  EXPECT_NE(message(stored(select(before >= 0, zero, copy.load(before)))), "");
  EXPECT_EQ(message(stored(select(before < 0, zero, copy.load(before)))), "");
  Expr far = copy.at + 5;
  EXPECT_EQ(message(stored(select((far >= 0) & (far < Expr::size(kN)), copy.load(far), zero))), "");
  EXPECT_NE(message(stored(select((far >= 0) | (far < Expr::size(kN)), copy.load(far), zero))), "");
  // A part shared by both branches is judged in each.
  Expr shared = copy.load(before) * 2;
  EXPECT_NE(message(stored(select(before >= 0, shared, shared + 1))), "");
}

TEST(KirVerify, CheckedIndicesHoldUntilTheirSourceIsWritten) {
  Copy copy(kN, kN);
  BufferId picks = add_buffer(copy.kernel, {.name = "picks", .dtype = DType::I32, .shape = {kN}});
  BufferId kept =
      add_buffer(copy.kernel, {.name = "kept", .dtype = DType::I64, .shape = {1}, .scope = Scope::Register});
  Expr pick = te::cast(DType::I64, Expr::load(picks, DType::I32, {copy.at}));
  Stmt gather = Stmt::store(copy.y, {copy.at}, copy.load(pick));
  EXPECT_NE(message(copy.with(gather)), "");
  EXPECT_EQ(message(copy.with(Stmt::block({Stmt::check(copy.x, 0, pick), gather}))), "");
  EXPECT_NE(message(copy.with(Stmt::block({gather, Stmt::check(copy.x, 0, pick)}))), "");
  // Through a register.
  Expr held = Expr::load(kept, DType::I64, {Expr::index(0)});
  Stmt hold = Stmt::store(kept, {Expr::index(0)}, pick),
       use = Stmt::store(copy.y, {copy.at}, copy.load(held));
  EXPECT_EQ(message(copy.with(Stmt::block({hold, Stmt::check(copy.x, 0, held), use}))), "");
  EXPECT_NE(message(copy.with(Stmt::block({Stmt::check(copy.x, 0, held), hold, use}))), "");
  // In a comparison of the narrow value itself.
  Expr narrow = Expr::load(picks, DType::I32, {copy.at});
  Expr inside = (narrow >= 0) & (te::cast(DType::I64, narrow) < Expr::size(kN));
  EXPECT_EQ(message(copy.with(Stmt::branch(inside, gather))), "");
}

// A thread that others wait for goes on after a check that failed, so the check shows nothing there.
TEST(KirVerify, ChecksShowNothingWhereThreadsWaitForOneAnother) {
  auto gathered = [](const char* waits, const char* value) {
    auto kernel = parse_kernel(std::string("kernel k(x: f32[8], i: i64[4], y: f32[4] global out) {\n") +
                               "grid a < 1 {\nthread t < 4 {\ncheck x.0 : i[t]\ny[t] = " + value + "\n" +
                               waits + "\n}\n}\n}\n");
    EXPECT_TRUE(kernel.has_value()) << kernel.error().to_string();
    return message(verify(*kernel));
  };
  const char* conditional = "select(i[t] >= 0 & i[t] < 8, x[i[t]], 0.0)";
  EXPECT_EQ(gathered("", "x[i[t]]"), "");
  EXPECT_NE(gathered("barrier()", "x[i[t]]"), "");
  EXPECT_EQ(gathered("barrier()", conditional), "");
}

TEST(KirVerify, ThreadsExchangeInPairsAndAllOfThem) {
  auto exchanged = [](const std::string& statements) {
    auto kernel = parse_kernel(
        "kernel k(y: f32[8] global out) {\nregister a: f32[1]\nregister b: f32[1]\nregister n: i32[1]\n"
        "grid i < 1 {\nthread t < 8 {\na[0] = 1.0\n" +
        statements + "\ny[t] = a[0]\n}\n}\n}\n");
    EXPECT_TRUE(kernel.has_value()) << kernel.error().to_string();
    return message(verify(*kernel));
  };
  EXPECT_EQ(exchanged("shuffle_xor(b[0], a[0], 4)"), "");
  EXPECT_NE(exchanged("shuffle_xor(b[0], a[0], 8)"), "");
  EXPECT_NE(exchanged("shuffle_xor(b[0], a[0], 3)"), "");
  EXPECT_NE(exchanged("shuffle_xor(b[0], a[0], i)"), "");
  EXPECT_NE(exchanged("shuffle_xor(n[0], a[0], 1)"), "");
  EXPECT_NE(exchanged("shuffle_xor(y[t], a[0], 1)"), "");
  EXPECT_NE(exchanged("if t < 4 { shuffle_xor(b[0], a[0], 1) }"), "");
}

TEST(KirVerify, LoopsStandWhereTheyMay) {
  Copy copy(8, 8);
  Stmt store = copy.store(copy.at);
  VarId j = add_variable(copy.kernel, "j", kN), k = add_variable(copy.kernel, "k", 4);
  auto nested = [&](LoopKind outer, VarId a, LoopKind inner, VarId b) {
    return message(copy.with(Stmt::loop(outer, a, Stmt::loop(inner, b, store))));
  };
  EXPECT_EQ(nested(LoopKind::Grid, j, LoopKind::Thread, k), "");
  EXPECT_EQ(nested(LoopKind::Serial, j, LoopKind::Vector, k), "");
  EXPECT_NE(nested(LoopKind::Serial, j, LoopKind::Grid, k), "");
  EXPECT_NE(nested(LoopKind::Serial, j, LoopKind::Thread, k), "");
  EXPECT_NE(nested(LoopKind::Grid, k, LoopKind::Vector, j), "");
  EXPECT_NE(nested(LoopKind::Serial, k, LoopKind::Serial, k), "");
  VarId l = add_variable(copy.kernel, "l", 4);
  EXPECT_NE(nested(LoopKind::Vector, k, LoopKind::Vector, l), "");
}

TEST(KirVerify, TypesAndScopesAreHeld) {
  Copy copy(kN, kN);
  EXPECT_NE(message(copy.with(Stmt::store(copy.x, {copy.at}, copy.load(copy.at)))), "");
  EXPECT_NE(message(copy.with(Stmt::store(copy.y, {copy.at}, copy.at))), "");
  EXPECT_NE(message(copy.with(Stmt::store(copy.y, {copy.at, copy.at}, copy.load(copy.at)))), "");
  EXPECT_NE(message(copy.with(Stmt::store(copy.y, {copy.at}, Expr::load(copy.x, DType::F16, {copy.at})))),
            "");
  VarId stray = add_variable(copy.kernel, "j", 1);
  EXPECT_EQ(message(copy.with(copy.store(copy.at + Expr::variable(stray)))),
            "kernel copy: variable 'j' is used outside its loop");
}

TEST(KirVerify, OperationsTakeWhatTheyAreFor) {
  Copy copy(kN, kN);
  Expr value = copy.load(copy.at);
  auto stored = [&](const Expr& e) {
    return message(copy.with(Stmt::store(copy.y, {copy.at}, te::cast(DType::F32, e))));
  };
  EXPECT_EQ(stored(value & value), "kernel copy: '&' takes integers or bool, not f32");
  EXPECT_EQ(stored(te::sqrt(copy.at)), "kernel copy: 'sqrt' takes floats, not i64");
  EXPECT_EQ(stored(te::exp(copy.at)), "kernel copy: 'exp' takes floats, not i64");
  EXPECT_EQ(stored(value << value), "kernel copy: '<<' takes integers, not f32");
  EXPECT_EQ(stored((copy.at < 3) & (copy.at > 1)), "");
}

TEST(KirVerify, BarriersAreReachedByEveryThread) {
  Copy copy(8, 8);
  VarId t = add_variable(copy.kernel, "t", 4);
  auto threads = [&](Stmt body) {
    return message(copy.with(Stmt::loop(LoopKind::Thread, t, std::move(body))));
  };
  Stmt barrier = Stmt::call(Intrinsic::Barrier, {});
  EXPECT_EQ(threads(Stmt::block({barrier, copy.store(copy.at)})), "");
  EXPECT_EQ(threads(Stmt::branch(copy.at < 4, barrier)), "");
  EXPECT_EQ(threads(Stmt::branch(Expr::variable(t) < 2, barrier)),
            "kernel copy: a barrier stands where threads differ: under if t < 2");
}

TEST(KirVerify, BoxesOfIntrinsicsLieInside) {
  Kernel kernel;
  kernel.name = "tiles";
  BufferId x = add_buffer(kernel, {.name = "x", .dtype = DType::BF16, .shape = {kN, 64}});
  BufferId tile =
      add_buffer(kernel, {.name = "tile", .dtype = DType::BF16, .shape = {16, 32}, .scope = Scope::Register});
  VarId i = add_variable(kernel, "i", ceil_div(kN, 16));
  Expr first = Expr::variable(i) * 16, zero = Expr::index(0);
  auto load = [&](const Expr& rows, const Expr& column) {
    kernel.body = Stmt::loop(
        LoopKind::Grid, i,
        Stmt::call(
            Intrinsic::TileLoad,
            {{tile, {zero, zero}, {}}, {x, {first, column}, {}}, {{}, {}, rows}, {{}, {}, Expr::index(32)}}));
    return message(verify(kernel));
  };
  EXPECT_EQ(load(te::min(Expr::index(16), Expr::size(kN) - first), zero), "");
  EXPECT_EQ(load(te::min(Expr::index(16), Expr::size(kN) - first), Expr::index(32)), "");
  EXPECT_NE(load(te::min(Expr::index(16), Expr::size(kN) - first), Expr::index(33)), "");
  EXPECT_NE(load(Expr::index(16), zero), "");
}

TEST(KirVerify, RowsAlongADimensionLieInside) {
  Kernel kernel;
  kernel.name = "tiles";
  BufferId x = add_buffer(kernel, {.name = "x", .dtype = DType::BF16, .shape = {4, 40, 2, 32}});
  BufferId tile =
      add_buffer(kernel, {.name = "tile", .dtype = DType::BF16, .shape = {16, 32}, .scope = Scope::Register});
  VarId i = add_variable(kernel, "i", 4);
  const Expr zero = Expr::index(0);
  auto load = [&](std::int64_t first, std::int64_t part, std::int64_t columns, std::int64_t dimension,
                  std::int64_t step) {
    auto number = [](std::int64_t value) { return Operand{{}, {}, Expr::index(value)}; };
    std::vector<Expr> place{Expr::variable(i), Expr::index(first), Expr::index(part), zero};
    kernel.body = Stmt::loop(LoopKind::Grid, i,
                             Stmt::call(Intrinsic::TileLoadRows, {{tile, {zero, zero}, {}},
                                                                  {x, place, {}},
                                                                  number(16),
                                                                  number(columns),
                                                                  number(dimension),
                                                                  number(step)}));
    return message(verify(kernel));
  };
  EXPECT_EQ(load(0, 0, 32, 1, 1), "");
  EXPECT_EQ(load(24, 1, 32, 1, 1), "");
  EXPECT_EQ(load(9, 0, 32, 1, 2), "");  // rows 9, 11, … 39
  EXPECT_NE(load(25, 0, 32, 1, 1), "");
  EXPECT_NE(load(10, 0, 32, 1, 2), "");
  EXPECT_EQ(load(0, 0, 33, 1, 1), "");  // into the next part: it follows in memory
  EXPECT_NE(load(0, 1, 33, 1, 1), "");
  EXPECT_EQ(load(0, 0, 16, 3, 1), "");  // rows that overlap: elements 0 to 15, 1 to 16, … 15 to 30
  EXPECT_NE(load(0, 0, 18, 3, 1), "");
  EXPECT_NE(load(0, 0, 32, 3, 1), "");
  EXPECT_NE(load(0, 0, 1, 4, 1), "");  // no such dimension
  EXPECT_NE(load(0, 0, 32, 1, 0), "");
}

}  // namespace
}  // namespace xyntra::kir

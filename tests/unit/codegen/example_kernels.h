// Kernels that tests and benchmarks share.
#pragma once

#include "kir/kernel.h"

namespace xyntra {

using kir::add_buffer;
using kir::add_variable;
using kir::BufferId;
using kir::Kernel;
using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using kir::VarId;
using te::Expr;

inline Expr var(VarId id) { return Expr::variable(id); }
inline Expr load(const Kernel& kernel, BufferId id, std::vector<Expr> index) {
  return Expr::load(id, kernel.buffer(id).dtype, std::move(index));
}
inline kir::Buffer global(DType dtype, Shape shape, bool written = false) {
  return {"b", dtype, std::move(shape), Scope::Global, written, {}};
}
inline kir::Buffer scoped(Scope scope, DType dtype, Shape shape) {
  return {"t", dtype, std::move(shape), scope, false, {}};
}

// c[m, n] = sum over k of a[m, k] * b[k, n], in tiles of 12 x 32 kept in registers.
inline Kernel tiled_matmul(std::int64_t m, std::int64_t n, const Dim& k) {
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

// Every vector register's worth of sums, multiplied and added `iterations` times: as fast as fma goes.
inline Kernel fma_peak(std::int64_t iterations) {
  Kernel kernel{"fma_peak", {}, {}, {}};
  BufferId x = add_buffer(kernel, global(DType::F32, {2}));
  BufferId y = add_buffer(kernel, global(DType::F32, {24, 16}, true));
  BufferId sums = add_buffer(kernel, scoped(Scope::Register, DType::F32, {24, 16}));
  VarId s = add_variable(kernel, "s", iterations);
  auto each = [&](auto body) {
    VarId r = add_variable(kernel, "r", 24), l = add_variable(kernel, "l", 16);
    Stmt inner = body(var(r), var(l));
    return Stmt::loop(LoopKind::Unrolled, r, Stmt::loop(LoopKind::Vector, l, inner));
  };
  Stmt zero = each([&](Expr r, Expr l) { return Stmt::store(sums, {r, l}, Expr::floating(DType::F32, 0)); });
  Stmt step = each([&](Expr r, Expr l) {
    return Stmt::store(sums, {r, l},
                       te::fma(load(kernel, sums, {r, l}), load(kernel, x, {Expr::index(0)}),
                               load(kernel, x, {Expr::index(1)})));
  });
  Stmt write = each([&](Expr r, Expr l) { return Stmt::store(y, {r, l}, load(kernel, sums, {r, l})); });
  kernel.body = Stmt::block({Stmt::loop(LoopKind::Grid, add_variable(kernel, "once", 1),
                                        Stmt::block({zero, Stmt::loop(LoopKind::Serial, s, step), write}))});
  return kernel;
}

}  // namespace xyntra

#include "codegen/wgsl/passes/bindings.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "te/index/index.h"
#include "te/walk.h"

namespace xyntra::wgsl {

using kir::Scope;
using kir::StmtNode;
using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

constexpr std::int64_t kOffsetAlignment = 256;  // of every adapter
constexpr std::int64_t kMostPackedBytes = 64 << 10;  // what is copied before a launch, or once for constants

std::int64_t bytes_of(const kir::Buffer& buffer) {  // 0: not known before it runs
  const Dim elements = product(buffer.shape);
  return elements.is_constant() ? elements.constant() * bits_of(buffer.dtype) / 8 : 0;
}

// Rows of an argument in several buffers.
struct Cut {
  std::size_t dimension = 0;
  std::vector<std::int64_t> first_rows;  // of each part
  std::vector<kir::BufferId> parts;
};

class Binder {
 public:
  Binder(const kir::Kernel& kernel, const WgslFeatures& features)
      : kernel_(kernel), features_(features), arguments_(kernel.buffers.size()) {}

  BoundKernel run() {
    cut_large();
    pack_small();
    if (!cuts_.empty()) kernel_.body = changed(kernel_.body);
    std::vector<ShaderBinding> all = bindings();
    return {std::move(kernel_), std::move(packs_), std::move(all)};
  }

 private:
  bool may_change(std::size_t i) const {
    return kernel_.buffers[i].scope == Scope::Global && bits_of(kernel_.buffers[i].dtype) >= 8;
  }

  // ---- larger than a binding

  void cut_large() {
    const std::vector<bool> used = accessed_buffers(kernel_);
    for (std::size_t i = 0; i < arguments_; ++i) {
      if (used[i] && may_change(i) && bytes_of(kernel_.buffers[i]) > features_.binding_bytes) cut(i);
    }
  }

  void cut(std::size_t argument) {
    const kir::Buffer whole = kernel_.buffers[argument];
    std::size_t along = 0;
    while (along < whole.shape.size() && whole.shape[along].is(1)) ++along;
    if (along == whole.shape.size()) return;
    const std::int64_t rows = whole.shape[along].constant(), row = bytes_of(whole) / rows;
    // Parts begin where bindings may.
    const std::int64_t step = kOffsetAlignment / std::gcd(kOffsetAlignment, row);
    const std::int64_t most = features_.binding_bytes / row / step * step;
    if (most == 0) return;
    Cut made{along, {}, {}};
    for (std::int64_t first = 0; first < rows; first += most) {
      kir::Buffer part = whole;
      part.shape[along] = std::min(most, rows - first);
      part.name = whole.name + "_" + std::to_string(made.parts.size());
      made.first_rows.push_back(first);
      made.parts.push_back(kir::add_buffer(kernel_, std::move(part)));
      parts_.push_back(
          {{{static_cast<std::uint32_t>(argument), first * row, std::min(most, rows - first) * row, 0}}});
    }
    cuts_.emplace(argument, std::move(made));
  }

  // ---- more than bindings

  std::int64_t count(const kir::Phase& phase) const {
    const std::vector<bool> used = accessed_buffers(kernel_, phase.body);
    std::int64_t bindings = has_checks(phase.body) ? 1 : 0;
    std::set<DType> workspaces;  // those of a dtype are one binding (KernelEmitter::join_workspaces)
    std::set<std::size_t> packs;
    for (std::size_t i = 0; i < arguments_; ++i) {
      const kir::Buffer& buffer = kernel_.buffers[i];
      if (!used[i]) continue;
      if (const auto cut = cuts_.find(i); cut != cuts_.end()) {
        bindings += static_cast<std::int64_t>(cut->second.parts.size());
      } else if (const auto pack = pack_of_.find(i); pack != pack_of_.end()) {
        bindings += packs.insert(pack->second).second ? 1 : 0;
      } else if (buffer.scope == Scope::Global) {
        ++bindings;
      } else if (buffer.scope == Scope::Workspace) {
        bindings += bits_of(buffer.dtype) < 32 || workspaces.insert(buffer.dtype).second ? 1 : 0;
      }
    }
    return bindings;
  }

  // The smallest of a dtype that has at least two of them, until the rest fits.
  void pack_small() {
    for (const kir::Phase& phase : kir::phases_of(kernel_)) {
      std::int64_t excess = count(phase) - features_.storage_buffers;
      if (excess <= 0) continue;
      const std::vector<bool> used = accessed_buffers(kernel_, phase.body);
      std::map<DType, std::vector<std::size_t>> small;
      for (std::size_t i = 0; i < arguments_; ++i) {
        const kir::Buffer& buffer = kernel_.buffers[i];
        const std::int64_t bytes = bytes_of(buffer);
        if (used[i] && may_change(i) && !buffer.written && !cuts_.contains(i) && !pack_of_.contains(i) &&
            bytes > 0 && bytes <= kMostPackedBytes)
          small[buffer.dtype].push_back(i);
      }
      for (auto& [dtype, all] : small) {
        std::ranges::stable_sort(all, {}, [this](std::size_t i) { return bytes_of(kernel_.buffers[i]); });
        if (excess <= 0 || all.size() < 2) continue;
        const auto packed = std::min(all.size(), static_cast<std::size_t>(excess) + 1);
        pack({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(packed)});
        excess -= static_cast<std::int64_t>(packed) - 1;
      }
    }
  }

  void pack(std::vector<std::size_t> arguments) {
    std::ranges::sort(arguments);
    ArgumentPack pack;
    std::int64_t end = 0;  // bytes
    for (std::size_t argument : arguments) {
      const kir::Buffer& buffer = kernel_.buffers[argument];
      pack.arguments.emplace_back(argument);
      pack.offsets.push_back(end * 8 / bits_of(buffer.dtype));
      end += (bytes_of(buffer) + 15) / 16 * 16;
      pack.elements = end * 8 / bits_of(buffer.dtype);
      pack_of_[argument] = packs_.size();
    }
    packs_.push_back(std::move(pack));
  }

  // ---- the kernel

  static std::vector<Expr> in_part(const Cut& cut, std::size_t part, std::vector<Expr> index) {
    if (cut.first_rows[part] != 0)
      index[cut.dimension] = index[cut.dimension] - Expr::index(cut.first_rows[part]);
    return index;
  }

  Expr load(const Expr& expr) const {
    if (!te::is_load(*expr)) return {};
    const auto found = cuts_.find(expr->buffer.index);
    if (found == cuts_.end()) return {};
    const std::vector<Expr> index = te::index_of(*expr);
    const Expr value = placed(*expr, index, found->second);
    if (expr->op == ExprOp::Load) return value;
    const te::IndexAlgebra algebra(kernel_.variables);
    const Shape& shape = kernel_.buffer(expr->buffer).shape;
    Expr inside;
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (algebra.within(index[d], 0, shape[d])) continue;
      const Expr here = (index[d] >= 0) & (index[d] < Expr::size(shape[d]));
      inside = inside.defined() ? inside & here : here;
    }
    return inside.defined() ? te::select(inside, value, expr->operands[0]) : value;
  }

  static Expr placed(const ExprNode& load, const std::vector<Expr>& index, const Cut& cut) {
    Expr value;
    for (std::size_t part = cut.parts.size(); part-- > 0;) {
      const Expr own = Expr::load(cut.parts[part], load.dtype, in_part(cut, part, index));
      value = value.defined()
                  ? te::select(index[cut.dimension] < Expr::index(cut.first_rows[part + 1]), own, value)
                  : own;
    }
    return value;
  }

  kir::Stmt store(const kir::Stmt& statement) const {
    const auto found = cuts_.find(statement->buffer.index);
    if (found == cuts_.end()) return statement;
    const Cut& cut = found->second;
    kir::Stmt all;
    for (std::size_t part = cut.parts.size(); part-- > 0;) {
      const kir::Stmt own =
          kir::Stmt::store(cut.parts[part], in_part(cut, part, statement->index), statement->value);
      all = all.defined()
                ? kir::Stmt::branch(statement->index[cut.dimension] < Expr::index(cut.first_rows[part + 1]),
                                    own, all)
                : own;
    }
    return all;
  }

  kir::Stmt changed(const kir::Stmt& statement) {
    if (!statement.defined()) return statement;
    te::Rewriter rewrite([this](const Expr& expr) { return load(expr); });
    const kir::Stmt made = kir::with_parts(
        statement, [&](const Expr& expr) { return rewrite(expr); },
        [&](const kir::Stmt& inner) { return changed(inner); });
    return made->kind == StmtNode::Kind::Store ? store(made) : made;
  }

  // In the order in which the emitter binds them: arguments, packs in the place of their first, then parts.
  std::vector<ShaderBinding> bindings() const {
    const std::vector<bool> used = accessed_buffers(kernel_);
    std::vector<ShaderBinding> all;
    std::map<std::uint32_t, std::uint32_t> positions;  // among arguments, by buffer
    for (std::uint32_t i = 0; i < arguments_; ++i) {
      if (kernel_.buffers[i].scope == Scope::Global)
        positions.emplace(i, static_cast<std::uint32_t>(positions.size()));
    }
    for (const auto& [buffer, position] : positions) {
      if (!used[buffer]) continue;
      const auto found = pack_of_.find(buffer);
      if (found == pack_of_.end()) {
        all.push_back({{{position, 0, -1, 0}}});
        continue;
      }
      const ArgumentPack& pack = packs_[found->second];
      if (pack.arguments.front().index != buffer) continue;
      ShaderBinding& binding = all.emplace_back();
      for (std::size_t i = 0; i < pack.arguments.size(); ++i) {
        const kir::Buffer& one = kernel_.buffer(pack.arguments[i]);
        binding.parts.push_back({positions.at(pack.arguments[i].index), 0, bytes_of(one),
                                 pack.offsets[i] * bits_of(one.dtype) / 8});
      }
    }
    for (const ShaderBinding& one : parts_) {
      all.push_back(one);
      for (ShaderBinding::Part& part : all.back().parts) part.argument = positions.at(part.argument);
    }
    return all;
  }

  kir::Kernel kernel_;
  const WgslFeatures& features_;
  const std::size_t arguments_;  // buffers from here on were added
  std::map<std::size_t, Cut> cuts_;  // by argument
  std::vector<ShaderBinding> parts_;  // of them
  std::vector<ArgumentPack> packs_;
  std::map<std::size_t, std::size_t> pack_of_;  // by argument
};

}  // namespace

std::vector<bool> accessed_buffers(const kir::Kernel& kernel) {
  return accessed_buffers(kernel, kernel.body);
}

bool has_checks(const kir::Stmt& statement) {
  bool found = false;
  kir::for_each_statement(statement,
                          [&](const StmtNode& node) { found = found || node.kind == StmtNode::Kind::Check; });
  return found;
}

std::vector<bool> accessed_buffers(const kir::Kernel& kernel, const kir::Stmt& by) {
  std::vector<bool> accessed(kernel.buffers.size(), false);
  kir::for_each_statement(by, [&](const StmtNode& node) {
    if (node.kind == StmtNode::Kind::Store) accessed[node.buffer.index] = true;
    kir::for_each_expr(node, [&](const Expr& root) {
      te::for_each_node(root, [&](const ExprNode& inner) {
        if (te::is_load(inner)) accessed[inner.buffer.index] = true;
      });
    });
  });
  return accessed;
}

BoundKernel with_bindings(const kir::Kernel& kernel, const WgslFeatures& features) {
  BoundKernel made = Binder(kernel, features).run();
  if (made.kernel.buffers.size() == kernel.buffers.size() || kir::verify(made.kernel)) return made;
  WgslFeatures any = features;
  any.binding_bytes = any.storage_buffers = INT64_MAX;
  return Binder(kernel, any).run();
}

}  // namespace xyntra::wgsl

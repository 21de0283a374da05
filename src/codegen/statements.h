// What every emitter does with the statements of a kernel: a method for each kind, blocks one statement after another.
#pragma once

#include "kir/kernel.h"
#include "support/result.h"

namespace xyntra::codegen {

class StatementEmitter {
 public:
  virtual ~StatementEmitter() = default;

 protected:
  // `most` statements, once loops are written out.
  explicit StatementEmitter(std::int64_t most = INT64_MAX) : left_(most) {}

  Status statement(const kir::Stmt& given) {
    if (!given.defined()) return {};
    if (--left_ < 0) return limit_error("kernel has too many statements once its loops are unrolled");
    const kir::StmtNode& node = *given;
    if (node.kind != kir::StmtNode::Kind::Block) before(node);
    switch (node.kind) {
      case kir::StmtNode::Kind::Block:
        for (const kir::Stmt& inner : node.body) XYNTRA_CHECK_OK(statement(inner));
        return {};
      case kir::StmtNode::Kind::Loop: return loop(node);
      case kir::StmtNode::Kind::If: return branch(node);
      case kir::StmtNode::Kind::Store: store(node); return {};
      case kir::StmtNode::Kind::Check: return check(node);
      case kir::StmtNode::Kind::Call: return call(node);
    }
    return {};
  }

  virtual void before(const kir::StmtNode& /*statement*/) {}
  virtual Status loop(const kir::StmtNode& node) = 0;
  virtual Status branch(const kir::StmtNode& node) = 0;
  virtual void store(const kir::StmtNode& node) = 0;
  virtual Status check(const kir::StmtNode& node) = 0;
  virtual Status call(const kir::StmtNode& node) = 0;

 private:
  std::int64_t left_;
};

// The place of a size among those that a kernel is given; added where it is not among them.
inline std::size_t number_of(std::vector<Dim>& sizes, const Dim& size) {
  std::size_t number = 0;
  while (number < sizes.size() && !(sizes[number] == size)) ++number;
  if (number == sizes.size()) sizes.push_back(size);
  return number;
}

}  // namespace xyntra::codegen

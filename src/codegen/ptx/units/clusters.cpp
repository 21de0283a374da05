// Clusters of thread blocks: their barrier, and what reaches another block's shared memory.
#include "codegen/ptx/emitter.h"
#include "kir/intrinsics.h"

namespace xyntra::ptx {

using kir::Intrinsic;

// What stands inside a cluster loop; its variable is the last digit of a block's number, as blocks with neighbouring numbers are a cluster.
kir::Stmt KernelEmitter::inside_cluster(const kir::Stmt& body, std::vector<kir::VarId>& grid) {
  cluster_ = 1;
  const bool clustered = body->kind == kir::StmtNode::Kind::Loop && body->loop == kir::LoopKind::Cluster;
  if (clustered) {
    grid.push_back(body->var);
    cluster_ = kernel_.variable(body->var).extent.constant();
  }
  clusters_.push_back(clustered ? cluster_ : 0);
  return clustered ? body->body.front() : body;
}

// A grid of such an entry is launched as others are: how many blocks are a cluster stands in its code.
std::string KernelEmitter::cluster_directive(std::size_t phase) const {
  if (clusters_[phase] == 0) return "";
  return ".explicitcluster\n.reqnctapercluster " + std::to_string(clusters_[phase]) + ", 1, 1\n";
}

// Meanwhile a buffer is that of the block with a number: places in it are found as they are in one's own.
template <class Body>
void KernelEmitter::in_block(kir::BufferId buffer, const te::Expr& rank, Body body) {
  const std::string own = base(buffer);
  bases_[buffer.index] = code_.word("mapa.shared::cluster.u32", {own, word_of(rank)});
  body();
  bases_[buffer.index] = own;
}

std::string KernelEmitter::word_of(const te::Expr& number) {
  return is_position(number) ? position(number) : code_.word("cvt.u32.u64", {value(number)});
}

// Elements between registers and the shared memory of another block.
Status KernelEmitter::cluster_move(const kir::StmtNode& node) {
  begin_statement(node);
  const bool loads = node.intrinsic == Intrinsic::ClusterLoad;
  const kir::Operand &own = node.operands[loads ? 0 : 1], &others = node.operands[loads ? 1 : 0];
  const std::string type = std::string(suffix_of(kernel_.buffer(own.buffer).dtype));
  te::LinearIndex here = analysis_.access(own).flat, there = analysis_.access(others).flat;
  in_block(others.buffer, node.operands[2].value, [&] {
    for (std::int64_t i = 0; i < node.operands[3].value->int_value; ++i) {
      const std::string at = place(others.buffer, there);
      if (loads) {
        const std::string got = code_.fresh(size_of(kernel_.buffer(own.buffer).dtype));
        code_.line("ld.shared::cluster." + type + " " + got + ", " + at);
        store_at(own.buffer, here, got);
      } else {
        code_.line("st.shared::cluster." + type + " " + at + ", " + load(own.buffer, here, "", Nans::Kept));
      }
      here.constant = here.constant + 1;
      there.constant = there.constant + 1;
    }
  });
  return {};
}

Status KernelEmitter::cluster_arrive(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand& at = node.operands[0];
  in_block(at.buffer, node.operands[1].value, [&] {
    code_.line("mbarrier.arrive.release.cluster.shared::cluster.b64 _, " +
               place(at.buffer, analysis_.access(at).flat));
  });
  return {};
}

Status KernelEmitter::cluster_barrier(const kir::StmtNode& /*node*/) {
  code_.line("barrier.cluster.arrive.release.aligned");
  code_.line("barrier.cluster.wait.acquire.aligned");
  return {};
}

}  // namespace xyntra::ptx

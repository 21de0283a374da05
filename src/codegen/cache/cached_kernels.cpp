#include "codegen/cache/cached_kernels.h"

#include <bit>
#include <unordered_map>

#include "runtime/artifact/program_bytes.h"
#include "target/target.h"

namespace xyntra {
namespace {

using kir::StmtNode;
using te::Expr;
using te::ExprNode;

// A kernel as text in which a shared expression stands once: its size is that of the kernel in memory, while printed for
// people it may be far longer. Names are left out, for code does not depend on them.
class KeyWriter {
 public:
  explicit KeyWriter(std::string& out) : out_(out) {}

  void kernel(const kir::Kernel& kernel) {
    for (const te::Variable& variable : kernel.variables) word(variable.extent.to_string());
    word("buffers");
    for (const kir::Buffer& buffer : kernel.buffers) {
      word(std::string(name_of(buffer.dtype)) + to_string(buffer.shape) + kir::name_of(buffer.scope) +
           (buffer.written ? "!" : ""));
      number(static_cast<std::int64_t>(buffer.swizzle));
    }
    statement(kernel.body);
    out_ += "\n";
  }

 private:
  void word(std::string_view text) {
    out_ += text;
    out_ += ';';
  }
  void number(std::int64_t value) { word(std::to_string(value)); }

  void statement(const kir::Stmt& statement) {
    if (!statement.defined()) return word("-");
    const StmtNode& node = *statement;
    number(static_cast<std::int64_t>(node.kind));
    number(static_cast<std::int64_t>(node.loop));
    number(node.var.valid() ? node.var.index : -1);
    number(node.buffer.valid() ? node.buffer.index : -1);
    number(static_cast<std::int64_t>(node.dimension));
    number(static_cast<std::int64_t>(node.intrinsic));
    expression(node.condition);
    number(static_cast<std::int64_t>(node.index.size()));
    for (const Expr& index : node.index) expression(index);
    expression(node.value);
    for (const kir::Operand& operand : node.operands) {
      number(operand.buffer.valid() ? operand.buffer.index : -1);
      number(static_cast<std::int64_t>(operand.index.size()));
      for (const Expr& index : operand.index) expression(index);
      expression(operand.value);
    }
    number(static_cast<std::int64_t>(node.body.size()));
    for (const kir::Stmt& inner : node.body) this->statement(inner);
  }

  // Operands before what uses them; each gets the next number.
  void expression(const Expr& root) {
    if (!root.defined()) return word("-");
    std::vector<const ExprNode*> waiting{root.address()};
    while (!waiting.empty()) {
      const ExprNode* node = waiting.back();
      if (numbers_.count(node) != 0) {
        waiting.pop_back();
        continue;
      }
      const std::size_t before = waiting.size();
      for (std::size_t i = node->operands.size(); i-- > 0;) {
        if (numbers_.count(node->operands[i].address()) == 0) waiting.push_back(node->operands[i].address());
      }
      if (waiting.size() != before) continue;
      waiting.pop_back();
      write(*node);
      numbers_.emplace(node, static_cast<std::int64_t>(numbers_.size()));
    }
    word("#" + std::to_string(numbers_.at(root.address())));
  }

  void write(const ExprNode& node) {
    word("=" + std::to_string(static_cast<int>(node.op)) + std::string(name_of(node.dtype)));
    number(std::bit_cast<std::int64_t>(node.float_value));
    number(node.int_value);
    word(node.size.to_string());
    number(node.var.valid() ? node.var.index : -1);
    number(node.buffer.valid() ? node.buffer.index : -1);
    number(node.cast.saturate ? node.cast.scale_rounding : 10 + node.cast.scale_rounding);
    for (const Expr& operand : node.operands) number(numbers_.at(operand.address()));
  }

  std::string& out_;
  std::unordered_map<const ExprNode*, std::int64_t> numbers_;
};

}  // namespace

std::string code_key(std::span<const kir::Kernel> kernels, std::string_view cpu, const CodeOptions& options) {
  std::string key = "xyntra " XYNTRA_VERSION ", " + code_generator_identity() + "\n" + std::string(cpu) +
                    " on " + (cpu == "native" ? host_identity() : std::string(host_architecture())) + "\n" +
                    (options.optimize ? "optimized" : "plain") +
                    (options.distinct_buffers ? ", distinct" : "") + "\n";
  for (const kir::Kernel& kernel : kernels) KeyWriter(key).kernel(kernel);
  return key;
}

std::vector<std::byte> to_bytes(const CompiledKernels& kernels) {
  ByteWriter writer;
  auto dims = [&writer](const std::vector<Dim>& list) {
    writer.number(list.size());
    for (const Dim& dim : list) write_dim(writer, dim);
  };
  writer.number(kernels.kernels.size());
  for (const CompiledKernel& kernel : kernels.kernels) {
    writer.number(kernel.phases.size());
    for (const CompiledPhase& phase : kernel.phases) {
      writer.text(phase.symbol);
      write_dim(writer, phase.work_items);
    }
    dims(kernel.sizes);
    dims(kernel.workspace_bytes);
    write_dim(writer, kernel.scratch_bytes);
    writer.number(kernel.uses_tiles ? 1 : 0);
  }
  writer.part(kernels.object);
  return std::move(writer.bytes);
}

Result<CompiledKernels> compiled_kernels_from(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "compiled kernels");
  auto dims = [&reader](std::vector<Dim>& list) -> Status {
    XYNTRA_TRY(const std::size_t size, reader.count());
    for (std::size_t i = 0; i < size; ++i) {
      XYNTRA_TRY(Dim one, read_dim(reader));
      list.push_back(std::move(one));
    }
    return {};
  };
  CompiledKernels made;
  XYNTRA_TRY(const std::size_t kernels, reader.count());
  for (std::size_t k = 0; k < kernels; ++k) {
    CompiledKernel kernel;
    XYNTRA_TRY(const std::size_t phases, reader.count());
    for (std::size_t p = 0; p < phases; ++p) {
      CompiledPhase phase;
      XYNTRA_TRY(phase.symbol, reader.text());
      XYNTRA_TRY(phase.work_items, read_dim(reader));
      kernel.phases.push_back(std::move(phase));
    }
    XYNTRA_CHECK_OK(dims(kernel.sizes));
    XYNTRA_CHECK_OK(dims(kernel.workspace_bytes));
    XYNTRA_TRY(kernel.scratch_bytes, read_dim(reader));
    XYNTRA_TRY(kernel.uses_tiles, reader.flag());
    made.kernels.push_back(std::move(kernel));
  }
  XYNTRA_TRY(const auto object, reader.part());
  made.object.assign(object.begin(), object.end());
  XYNTRA_CHECK_OK(reader.end());
  return made;
}

Result<CompiledKernels> cached_kernels(std::span<const kir::Kernel> kernels, std::string_view cpu,
                                       const CodeOptions& options, const ObjectCache& cache) {
  const std::string key = cache.is_on() ? code_key(kernels, cpu, options) : "";
  if (auto found = cache.find(key)) {
    auto kept = compiled_kernels_from(*found);
    if (kept && kept->kernels.size() == kernels.size()) return std::move(*kept);
  }
  XYNTRA_TRY(CpuTarget target, cpu_target(cpu));
  XYNTRA_TRY(CompiledKernels made, compile_kernels(kernels, target, options));
  cache.put(key, to_bytes(made));
  return made;
}

}  // namespace xyntra

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "frontends/torchscript/import.h"
#include "ir/text.h"
#include "torchscript_archive.h"

namespace xyntra::torchscript {
namespace {

using namespace torchscript_archive;

// An archive of a module whose forward has this body.
std::string net(const std::string& body, const std::string& parameters = "x: Tensor") {
  std::string code = "class Net(Module):\n  n : int\n  def forward(self: __torch__.Net,\n    " + parameters +
                     ") -> Tensor:\n";
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = std::min(body.find('\n', at), body.size());
    code += "    " + body.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return torchscript_archive::module(code, text("n") + "K\x01");
}

const std::vector<InputHint> kX = {{.name = "x", .shape = Shape{2, 3}}};

Result<Module> import(const std::string& archive, std::vector<InputHint> inputs = kX,
                      UndefinedOps undefined = UndefinedOps::Refuse) {
  auto bytes = std::make_shared<std::string>(archive);
  ImportOptions options;
  options.inputs = std::move(inputs);
  options.undefined_ops = undefined;
  return import_torchscript(std::as_bytes(std::span(*bytes)), bytes, options);
}

std::string error_of(const Result<Module>& module) { return module ? "" : module.error().message; }

// The operators of the graph, in order.
std::vector<std::string> ops(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId id : graph.node_ids()) {
    if (graph.node(id).op != "Identity") names.push_back(graph.node(id).op);
  }
  return names;
}

using Ops = std::vector<std::string>;

bool has(const Graph& graph, std::string_view op) {
  const Ops all = ops(graph);
  return std::ranges::find(all, op) != all.end();
}

TEST(TorchScriptImport, MakesCallsOperations) {
  const auto module = import(net("y = torch.relu(torch.add(x, x))\nreturn y"));
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(ops(module->graph), (Ops{"Add", "Relu"}));
  ASSERT_EQ(module->graph.inputs.size(), 1U);
  EXPECT_EQ(module->graph.value(module->graph.inputs[0]).type.to_string(), "f32[2, 3]");
}

TEST(TorchScriptImport, DecidesWhatIsKnown) {
  const auto module = import(net(R"(n = torch.size(x, 1)
y = x
if torch.eq(torch.dim(x), 2):
  for i in range(n):
    y = torch.relu(y)
else:
  y = torch.nonsense(y)
k = 0
while torch.lt(k, 2):
  y = torch.neg(y)
  k = torch.add(k, 1)
return y)"));
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(ops(module->graph), (Ops{"Relu", "Relu", "Relu", "Neg", "Neg"}));
}

TEST(TorchScriptImport, FollowsListsDictsAndStrings) {
  const auto module = import(net(R"(l = annotate(List[Tensor], [])
_0 = torch.append(l, x)
_1 = torch.append(l, torch.relu(x))
d = {"a": l[-1], "b": x}
m = torch.format("{}-{}", torch.len(l), [1, 2])
if torch.ne(m, "2-[1, 2]"):
  ops.prim.RaiseException(m)
else:
  pass
a, b, = (d["a"], d["b"])
return torch.add(torch.cat(l, 0), torch.cat([a, b], 0)))"));
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(ops(module->graph), (Ops{"Relu", "Concat", "Concat", "Add"}));
}

TEST(TorchScriptImport, AttentionIsZeroWhereAllKeysAreMasked) {
  const auto after_attention = [](const std::string& mask) {
    const auto module =
        import(net("m = torch.slice(x, 1, 0, 2)\nreturn torch.scaled_dot_product_attention(x, x, x, " + mask +
                   ", 0., False)"));
    if (!module) return Ops{module.error().message};
    const Ops all = ops(module->graph);
    return Ops(std::ranges::find(all, "Attention") + 1, all.end());
  };
  EXPECT_EQ(after_attention("torch.gt(m, 0)"), (Ops{"Squeeze"}));
  EXPECT_EQ(after_attention("m"), (Ops{"Squeeze"}));
}

TEST(TorchScriptImport, SplitsTakeListsOfSizes) {
  const auto module = import(net("a, b, = torch.split(x, [1, 2], 1)\nreturn torch.cat([b, a], 1)"));
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(ops(module->graph), (Ops{"Slice", "Slice", "Concat"}));
}

TEST(TorchScriptImport, FloorDivisionsOfSizesAreKnown) {
  const auto module = import(net(R"(n = ops.prim.NumToTensor(torch.size(x, 1))
k = int(torch.floor_divide(n, 2))
l = torch.split(torch.view(torch.slice(x, 1, 0, 2), [-1, k]), 1, 0)
return torch.cat(l, 1))"));
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(module->graph.value(module->graph.outputs[0]).type.to_string(), "f32[1, 4]");
}

TEST(TorchScriptImport, MatricesAreGatheredForFewRows) {
  const auto imported = [](std::int64_t experts) {
    const auto module = import(net("return torch._grouped_mm(x, w, n)", "x: Tensor, w: Tensor, n: Tensor"),
                               {{.name = "x", .shape = Shape{2, 3}},
                                {.name = "w", .shape = Shape{Dim(experts), 3, 5}},
                                {.name = "n", .dtype = DType::I32, .shape = Shape{Dim(experts)}}});
    return module ? ops(module->graph) : Ops{module.error().message};
  };
  EXPECT_NE(std::ranges::count(imported(8), "Gather"), 0);
  EXPECT_EQ(std::ranges::count(imported(8), "GatherND"), 0);
  EXPECT_NE(std::ranges::count(imported(4), "GatherND"), 0);
}

TEST(TorchScriptImport, HistogramsAreScattered) {
  const auto module = import(net("return torch.histc(x, 4, 0, 3)"));
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_TRUE(has(module->graph, "ScatterElements"));
  EXPECT_FALSE(has(module->graph, "ReduceMax"));
  const auto ranged = import(net("return torch.histc(x, 4)"));
  ASSERT_TRUE(ranged) << ranged.error().to_string();
  EXPECT_TRUE(has(ranged->graph, "ReduceMax"));
}

TEST(TorchScriptImport, ChangesInPlaceReachEveryName) {
  const auto module =
      import(net("y = torch.clone(x)\nz = torch.select(y, 0, 0)\n_0 = torch.add_(z, 1)\nreturn y"));
  ASSERT_TRUE(module) << module.error().to_string();
  // The row is changed, and the whole is made of it again.
  EXPECT_TRUE(has(module->graph, "Add"));
  EXPECT_GT(ops(module->graph).size(), 2U);
}

TEST(TorchScriptImport, BranchesThatOnlyRunningChoosesAreAnIf) {
  const auto module = import(net(R"(l = [x, x]
if bool(torch.any(torch.gt(x, 0))):
  y = torch.relu(x)
  _0 = torch._set_item(l, 0, y)
  k = 1
else:
  y = torch.neg(x)
  k = 2
return torch.add(torch.mul(y, k), l[0]))"));
  ASSERT_TRUE(module) << module.error().to_string();
  ASSERT_TRUE(has(module->graph, "If"));
  for (const NodeId id : module->graph.node_ids()) {
    const Node& node = module->graph.node(id);
    if (node.op != "If") continue;
    EXPECT_EQ(node.outputs.size(), 3U);  // y, k and the item of the list
  }
}

TEST(TorchScriptImport, LoopsThatOnlyRunningEndsAreALoop) {
  const auto module = import(net(R"(y = x
n = 0
while bool(torch.lt(torch.sum(y), 100)):
  y = torch.add(torch.mul(y, 2), 1)
  n = torch.add(n, 1)
return torch.add(y, n))"));
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_TRUE(has(module->graph, "Loop"));
}

TEST(TorchScriptImport, ReadsWeightsAndSubmodules) {
  const std::string code = R"(class Net(Module):
  w : Tensor
  scale : Final[int] = 3
  def forward(self: __torch__.Net,
    x: Tensor) -> Tensor:
    return (self).twice(torch.mul(x, self.w), )
  def twice(self: __torch__.Net,
    x: Tensor,
    by: int=2) -> Tensor:
    return torch.mul(x, torch.mul(by, self.scale))
)";
  const std::string one("\0\0\x80\x3f", 4);
  const auto module = import(torchscript_archive::module(
      code, text("w") + tensor("0", 3, "K\x03\x85", "K\x01\x85"), {{"m/data/0", one + one + one}}));
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(ops(module->graph), (Ops{"Mul", "Mul"}));
  EXPECT_TRUE(module->graph.find("w").valid());
}

TEST(TorchScriptImport, SaysWhichShapesAndValuesAreMissing) {
  const auto no_shape = import(net("return x"), {});
  EXPECT_EQ(error_of(no_shape), "TorchScript does not say the shapes of its inputs: that of x is not known");
  EXPECT_EQ(no_shape.error().error_class, ErrorClass::Usage);
  EXPECT_NE(no_shape.error().hint.find("--shape x=SIZES"), std::string::npos);
  const std::string rate = net("return torch.mul(x, rate)", "x: Tensor, rate: int");
  EXPECT_EQ(error_of(import(rate)), "the graph is made for given values of what is no tensor: rate: int");
  auto hints = kX;
  hints.push_back({.name = "rate", .value = std::int64_t{7}});
  EXPECT_TRUE(import(rate, hints));
  hints.back().value = 1.5;
  EXPECT_EQ(error_of(import(rate, hints)), "input 'rate' is of type int, and is given a float");
  EXPECT_EQ(error_of(import(net("return x"), {{.name = "z", .shape = Shape{1}}})),
            "the model has no input 'z'; it has x");
}

TEST(TorchScriptImport, TakesOptionalTupleAndUnnamedInputs) {
  const std::string code =
      net("if torch.__is__(m, None):\n  y = x\nelse:\n  y = torch.mul(x, unchecked_cast(Tensor, m))\na, b, = "
          "p\nreturn torch.add(torch.add(y, a), b)",
          "x: Tensor, p: Tuple[Tensor, Tensor], m: Optional[Tensor]=None");
  const auto hints = [](bool mask) {
    std::vector<InputHint> all = {{.name = "", .shape = Shape{2, 3}},
                                  {.name = "p.0", .shape = Shape{3}},
                                  {.name = "p.1", .shape = Shape{3}}};
    if (mask) all.push_back({.name = "m", .shape = Shape{3}});
    return all;
  };
  const auto without = import(code, hints(false)), with = import(code, hints(true));
  ASSERT_TRUE(without) << without.error().to_string();
  ASSERT_TRUE(with) << with.error().to_string();
  EXPECT_EQ(without->graph.inputs.size(), 3U);
  EXPECT_EQ(with->graph.inputs.size(), 4U);
  EXPECT_TRUE(with->graph.find("p.1").valid());
}

TEST(TorchScriptImport, NamesOutputs) {
  const auto outputs = [](const std::string& returned) {
    const auto module = import(net("return " + returned));
    Ops names;
    if (module) {
      for (const ValueId id : module->graph.outputs) names.push_back(module->graph.value(id).name);
    } else {
      names.push_back(module.error().message);
    }
    return names;
  };
  EXPECT_EQ(outputs("torch.relu(x)"), (Ops{"output"}));
  EXPECT_EQ(outputs("(torch.relu(x), x, None)"), (Ops{"output.0", "output.1"}));
  EXPECT_EQ(outputs("{\"boxes\": x, \"more\": [x, 3]}"), (Ops{"boxes", "more.0", "more.1"}));
}

TEST(TorchScriptImport, WarnsWhereStateChanges) {
  const auto module = import(net("self.n = torch.size(x, 0)\nreturn torch.mul(x, self.n)"));
  ASSERT_TRUE(module) << module.error().to_string();
  ASSERT_EQ(module->warnings.size(), 1U);
  EXPECT_EQ(module->warnings[0],
            "attribute 'n' is changed by the model; every run starts with the value in the file");
}

TEST(TorchScriptImport, ErrorsNameFileAndLine) {
  EXPECT_EQ(error_of(import(net("return y"))), "code/__torch__.py:5: 'y' is not defined");
  EXPECT_EQ(error_of(import(net("y = torch.nonsense(x)\nreturn y"))),
            "code/__torch__.py:5: overload 'aten::nonsense' is not supported");
  const auto raised = import(net("ops.prim.RaiseException(\"too small\")\nreturn x"));
  EXPECT_EQ(error_of(raised), "code/__torch__.py:5: with these inputs the model raises: too small");
  EXPECT_EQ(raised.error().error_class, ErrorClass::Usage);
  EXPECT_EQ(error_of(import(net("return __torch__.helper(x)"))),
            "code/__torch__.py:5: the archive has no '__torch__.helper' in its code");
  EXPECT_EQ(error_of(import(net("return CONSTANTS.c0"))),
            "code/__torch__.py:5: the archive has no constant 'CONSTANTS.c0'");
}

TEST(TorchScriptImport, ListsAllMissingOperators) {
  const auto module = import(net("y = torch.nonsense(x)\nif bool(torch.any(y)):\n  z = "
                                 "torch.more_nonsense(y)\nelse:\n  z = y\nreturn torch.relu(z)"),
                             kX, UndefinedOps::Keep);
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(ops(module->graph), (Ops{"aten::more_nonsense", "aten::nonsense"}));
}

// ---- hostile code: an error, soon

void expect_limit(const std::string& archive, const std::string& part) {
  const auto began = std::chrono::steady_clock::now();
  const auto module = import(archive);
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().error_class, ErrorClass::Limit) << module.error().message;
  EXPECT_NE(module.error().message.find(part), std::string::npos) << module.error().message;
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

TEST(TorchScriptImport, EndlessCodeEnds) {
  expect_limit(net("k = True\nwhile k:\n  pass\nreturn x"), "statements and calls are evaluated");
  expect_limit(net("for i in range(9223372036854775807):\n  pass\nreturn x"),
               "statements and calls are evaluated");
  expect_limit(net("l = [0]\nwhile True:\n  l = torch.add(l, l)\nreturn x"), "");
  expect_limit(net("s = \"ab\"\nwhile True:\n  s = torch.add(s, s)\nreturn x"), "a string of more than");
  expect_limit(net("return (self).forward(x, )"), "nested more than");
  expect_limit(
      torchscript_archive::module(
          "def f(x: Tensor) -> Tensor:\n  return __torch__.g(x, )\ndef g(x: Tensor) -> Tensor:\n  return "
          "__torch__.f(x, )\n"
          "class Net(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return __torch__.f(x, )\n"),
      "nested more than");
}

TEST(TorchScriptImport, DividesByZeroAsPythonDoes) {
  EXPECT_EQ(error_of(import(net("return torch.mul(x, torch.floordiv(1, 0))"))),
            "code/__torch__.py:5: with these inputs the model raises: division by zero");
  EXPECT_TRUE(import(net("return torch.mul(x, torch.floordiv(-9223372036854775808, -1))")));
  EXPECT_TRUE(import(net("return torch.mul(x, torch.remainder(-9223372036854775808, -1))")));
}

TEST(TorchScriptImport, StoragesAreCheckedAgainstTheArchive) {
  const std::string code =
      "class Net(Module):\n  w : Tensor\n  def forward(self, x: Tensor) -> Tensor:\n    return torch.mul(x, "
      "self.w)\n";
  const auto with = [&](std::uint64_t elements, const std::string& sizes, const std::string& strides) {
    return error_of(import(torchscript_archive::module(
        code, text("w") + tensor("0", elements, sizes, strides), {{"m/data/0", std::string(12, '\0')}})));
  };
  EXPECT_EQ(with(3, "K\x03\x85", "K\x01\x85"), "");
  EXPECT_NE(with(4, "K\x03\x85", "K\x01\x85").find("its storage has 3 elements, not 4"), std::string::npos);
  EXPECT_NE(with(3, "K\x04\x85", "K\x01\x85").find("it reaches element 3 of a storage of 3"),
            std::string::npos);
  EXPECT_NE(with(3, "J\xff\xff\xff\x7f\x85", std::string("K\0\x85", 3)).find("an expanded tensor"),
            std::string::npos);
  EXPECT_NE(error_of(import(torchscript_archive::module(
                         code, text("w") + tensor("1", 3, "K\x03\x85", "K\x01\x85"))))
                .find("the archive has no entry 'data/1'"),
            std::string::npos);
}

TEST(TorchScriptImport, OtherArchivesAreCalledByTheirNames) {
  EXPECT_EQ(error_of(import(zip({{"m/data.pkl", "x"}, {"m/data/0", ""}, {"m/version", "3"}}))),
            "a checkpoint of torch.save, which holds weights and no code");
  EXPECT_EQ(error_of(import(zip({{"m/models/model.json", "{}"}}))),
            "an archive of torch.export: such files end in .pt2");
  EXPECT_EQ(error_of(import(zip({{"m/other", ""}}))),
            "no archive of torch.jit.save: it has no entry 'data.pkl'");
  EXPECT_EQ(error_of(import(zip({{"a/data.pkl", ""}, {"b/version", ""}}))),
            "no archive of torch.jit.save: entry 'b/version' is not in its one folder");
}

}  // namespace
}  // namespace xyntra::torchscript

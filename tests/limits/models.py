"""Models that are small to write and endless to run, each as .xir text."""

TWO_TO_40 = 1 << 40


def graph(body, inputs="", outputs="%y"):
    return f"xir 1\ngraph @main({inputs}) -> ({outputs}) {{\n{body}\n}}\n"


def integers(name, values):
    return f"  const %{name}: i64[{len(values)}] = [{', '.join(map(str, values))}]\n"


def integer(name, value):
    return f"  const %{name}: i64[] = {value}\n"


def single(name, value):
    return f"  const %{name}: f32[] = {value}\n"


def filled(name, shape, value="f32[1] [0.5]"):
    """A tensor that takes no room in the file."""
    return integers(f"shape_{name}", shape) + f"  %{name} = ConstantOfShape(%shape_{name}) {{value = tensor {value}}}\n"


def uniform(name, shape):
    return f"  %{name} = RandomUniform() {{shape = [{', '.join(map(str, shape))}], seed = 1.0}}\n"


def loop(trips, body, states, start, scanned=0):
    """A Loop with one state %start (and scan outputs %s0, ...)."""
    results = ["%y", *(f"%s{i}" for i in range(scanned))]
    return (integer("trips", trips) + "  const %go: bool[] = true\n" +
            f"  {', '.join(results)} = Loop(%trips, %go, %{start}) {{states = {states}, body = {body}}}\n")


COUNTING = ("graph @body(%i: i64[], %c: bool[], %s: f32[]) -> (%c, %t) {\n"
            "    const %one: f32[] = 1.0\n    %t = Add(%s, %one)\n  }")
COLLECTING = ("graph @body(%i: i64[], %c: bool[], %s: f32[]) -> (%c, %s, %s) {\n  }")
GROWING = ("graph @body(%i: i64[], %c: bool[], %s: seq<f32[]>) -> (%c, %t) {\n"
           "    const %one: f32[] = 1.0\n    %t = SequenceInsert(%s, %one)\n  }")


def nested_loops(depth, trips):
    """Loops in loops, each of whose states changes its shape in every iteration."""
    name = "x"
    text = "graph @body(%i: i64[], %c: bool[], %s: f32[n]) -> (%c, %t) {\n  %t = Concat(%s, %s) {axis = 0}\n}"
    for _ in range(depth):
        text = ("graph @body(%i: i64[], %c: bool[], %s: f32[n]) -> (%c, %t) {\n" + integer("trips", trips) +
                f"  %t = Loop(%trips, %c, %s) {{states = 1, body = {text}}}\n}}")
    return graph(integer("trips", trips) + "  const %go: bool[] = true\n" +
                 f"  %y = Loop(%trips, %go, %{name}) {{states = 1, body = {text}}}", f"%{name}: f32[1]")


def nested_subgraphs(depth):
    """Loops of two iterations in branches in loops: 2^depth iterations of the innermost."""
    text = "graph @body(%i: i64[], %c: bool[], %s: f32[]) -> (%c, %t) {\n  %t = Neg(%s)\n}"
    nothing = "graph @nothing(%s: f32[], %c: bool[]) -> (%s) {\n}"
    for _ in range(depth):
        branch = ("graph @branch(%s: f32[], %c: bool[]) -> (%t) {\n" + integer("two", 2) +
                  f"  %t = Loop(%two, %c, %s) {{states = 1, body = {text}}}\n}}")
        text = ("graph @body(%i: i64[], %c: bool[], %s: f32[]) -> (%c, %t) {\n"
                f"  %t = If(%c, %s, %c) {{then_branch = {branch}, else_branch = {nothing}}}\n}}")
    return graph(single("x", "1.0") + loop(2, text, 1, "x"))


def chain(count, line, first="x"):
    """`line` again and again, from %first to %y."""
    text = ""
    for i in range(count):
        before = f"%{first}" if i == 0 else f"%v{i}"
        after = "%y" if i == count - 1 else f"%v{i + 1}"
        text += "  " + line.replace("BEFORE", before).replace("AFTER", after) + "\n"
    return text


def product_of_sums():
    """32 axes, each made a + b long, then flattened: 2^32 terms when multiplied out."""
    sizes = [f"a{i}" for i in range(32)]
    text = ""
    for i in range(32):
        text += f"  %v{i + 1} = Concat(%v{i}, %v{i}, %w{i}) {{axis = {i}}}\n"
    inputs = [f"%v0: f32[{', '.join(sizes)}]"]
    for i in range(32):
        grown = [f"2*a{j} + b{j}" if j < i else f"b{j}" if j == i else f"a{j}" for j in range(32)]
        inputs.append(f"%w{i}: f32[{', '.join(grown)}]")
    return graph(text + "  %y = Flatten(%v32) {axis = 0}", ", ".join(inputs))


# Never end by themselves (in a test's time): --timeout and SIGINT must stop them.
ENDLESS = {
    "loop": graph(single("x", "0.0") + loop(1 << 62, COUNTING, 1, "x")),
    "loop_of_a_sequence": graph("  %x = SequenceEmpty()\n" + loop(1 << 62, GROWING, 1, "x")),
    "nested_subgraphs": nested_subgraphs(30),
    "scan": graph(filled("x", [1 << 23]) + single("zero", "0.0") +
                  "  %y, %all = Scan(%zero, %x) {states = 1, num_scan_inputs = 1, body = "
                  "graph @body(%s: f32[], %e: f32[]) -> (%t, %t) {\n    %t = Add(%s, %e)\n  }}"),
    "matmul": graph(filled("a", [8192, 2048]) + filled("b", [2048, 8192]) + "  %y = MatMul(%a, %b)"),
    "matmul_of_integers": graph(filled("a", [2048, 4096], "u8[1] [3]") + filled("b", [4096, 4096], "u8[1] [3]") +
                                "  %y = MatMulInteger(%a, %b)"),
    "convolution": graph(filled("x", [1, 256, 224, 224]) + filled("w", [256, 256, 7, 7]) + "  %y = Conv(%x, %w)"),
    "einsum": graph("".join(filled(n, [3000]) for n in "abcd") +
                    '  %y = Einsum(%a, %b, %c, %d) {equation = "i,j,k,l->"}'),
    "pooling": graph(filled("x", [1, 1, 4096, 4096]) +
                     "  %y = AveragePool(%x) {kernel_shape = [1025, 1025], pads = [512, 512, 512, 512]}"),
    "gru": graph(filled("x", [1 << 20, 1, 4]) + filled("w", [1, 12, 4]) + filled("r", [1, 12, 4]) +
                 "  %y = GRU(%x, %w, %r) {hidden_size = 4}"),
    "non_max_suppression": graph(filled("boxes", [1, 400000, 4]) + filled("scores", [1, 1, 400000]) +
                                 integer("most", 400000) + "  %y = NonMaxSuppression(%boxes, %scores, %most)"),
    "top_k_of_one_line": graph(uniform("x", [1 << 24]) + integers("k", [1 << 24]) + "  %y, _ = TopK(%x, %k)"),
    "top_k_of_many_lines": graph(uniform("x", [1 << 12, 1 << 12]) + integers("k", [1 << 11]) +
                                 "  %y, _ = TopK(%x, %k) {axis = 0}"),
    "unique": graph(uniform("x", [1 << 23]) + "  %y = Unique(%x)"),
    "unique_slices": graph(uniform("x", [1 << 7, 1 << 17]) + "  %z = Unique(%x) {axis = 1}\n"
                           "  %y = Concat(%z, %z) {axis = 0}"),
    "non_zero": graph(filled("x", [1 << 27], "u8[1] [0]") + "  %y = NonZero(%x)"),
    "roi_align": graph(filled("x", [1, 1, 64, 64]) + filled("rois", [1 << 12, 4]) +
                       filled("batch", [1 << 12], "i64[1] [0]") +
                       "  %y = RoiAlign(%x, %rois, %batch) {sampling_ratio = 100000, output_height = 7, "
                       "output_width = 7}"),
    "hash_of_a_large_output": graph(filled("y", [1 << 29], "u8[1] [1]")),
    "random_input": graph("  %y = ReduceSum(%x)", f"%x: f32[{1 << 28}]"),
}

# Would need more memory than any machine has, or than --max-memory allows: refused before it is touched.
REFUSED = {
    "expand": (graph(filled("x", [1]) + integers("to", [TWO_TO_40]) + "  %y = Expand(%x, %to)"), "4 TiB"),
    "tile": (graph(filled("x", [1]) + integers("times", [TWO_TO_40]) + "  %y = Tile(%x, %times)"), "4 TiB"),
    "constant_of_shape": (graph(filled("y", [1 << 20, 1 << 20])), "4 TiB"),
    "range": (graph(integer("from", 0) + integer("to", TWO_TO_40) + integer("step", 1) +
                    "  %y = Range(%from, %to, %step)"), "8 TiB"),
    "range_of_floats": (graph(single("from", "0.0") + single("to", "1.0") + single("step", "1e-30") +
                              "  %y = Range(%from, %to, %step)"), "elements"),
    "one_hot": (graph(integers("x", [1]) + integer("depth", TWO_TO_40) + "  const %v: f32[2] = [0.0, 1.0]\n" +
                      "  %y = OneHot(%x, %depth, %v)"), "4 TiB"),
    "pad": (graph(filled("x", [1]) + integers("pads", [0, TWO_TO_40]) + "  %y = Pad(%x, %pads)"), "4 TiB"),
    "resize": (graph(filled("x", [1, 1]) + integers("sizes", [1, TWO_TO_40]) + "  %y = Resize(%x, _, _, %sizes)"),
               "4 TiB"),
    "window": (graph(integer("size", TWO_TO_40) + "  %y = HannWindow(%size)"), "4 TiB"),
    "random_normal": (graph(f"  %y = RandomNormal() {{shape = [{TWO_TO_40}]}}"), "4 TiB"),
    "transposed_convolution": (graph(filled("x", [1, 1, 2]) + filled("w", [1, 1, 1]) +
                                     f"  %y = ConvTranspose(%x, %w) {{strides = [{TWO_TO_40}]}}"), "4 TiB"),
    "doubling": (graph(filled("x", [1024]) + chain(34, "AFTER = Concat(BEFORE, BEFORE) {axis = 0}")), "more memory"),
    "overflowing_sizes": (graph(filled("x", [1, 1, 1]) + integers("to", [1 << 31, 1 << 31, 1 << 31]) +
                                "  %y = Expand(%x, %to)"), "2\\^48"),
    "outer_product": (graph(filled("a", [1 << 20, 1]) + filled("b", [1, 1 << 20]) + "  %y = Add(%a, %b)"), "4 TiB"),
    "matmul": (graph(filled("a", [1 << 20, 1]) + filled("b", [1, 1 << 20]) + "  %y = MatMul(%a, %b)"), "4 TiB"),
    "loop_that_collects_scalars": (graph(single("x", "0.0") + loop(1 << 62, COLLECTING, 1, "x", 1)), "more memory"),
    "split_into_scalars": (graph(filled("x", [1 << 22], "u8[1] [1]") + "  %y = SplitToSequence(%x) {keepdims = 0}",
                                 outputs="%y"), "more memory"),
}
MEMORY = {"loop_that_collects_scalars": "64MB", "split_into_scalars": "64MB", "doubling": "64MB"}

# Must end by themselves at once, with this exit code: what looks exponential is not.
QUICK = {
    "types_of_nested_loops": (nested_loops(60, 0), 5),
    "sizes_that_multiply_out": (product_of_sums(), 5),
    "sizes_that_nest": (graph(
        integers("start", [0]) + integers("end", [1 << 60]) + integers("axis", [0]) + integers("two", [2]) +
        chain(60, "AFTER = Slice(BEFORE, %start, %end, %axis, %two)"), "%x: f32[n]"), 0),
    "sizes_that_grow": (graph(
        integers("start", [0]) + integers("end", [1 << 60]) + integers("axis", [0]) + integers("two", [2]) +
        "".join(f"  %h{i} = Slice({'%x' if i == 0 else f'%v{i}'}, %start, %end, %axis, %two)\n"
                f"  %v{i + 1} = Concat({'%x' if i == 0 else f'%v{i}'}, %h{i}) {{axis = 0}}\n" for i in range(30)) +
        "  %y = ReduceSum(%v30)", "%x: f32[n]"), 0),
    "sequences_in_sequences": (graph(filled("x", [1]) + chain(60, "AFTER = SequenceConstruct(BEFORE, BEFORE)")), 4),
    "optionals_in_optionals": (graph(filled("x", [1]) + chain(60, "AFTER = Optional(BEFORE)")), 4),
    "rank_32": (graph("  %t = Transpose(%x)\n  %s = Add(%x, %t)\n  %e = Exp(%s)\n"
                      "  %y = ReduceSum(%e) {keepdims = 0}", f"%x: f32[{', '.join(['1', '2'] * 8 + ['2', '1'] * 8)}]"), 0),
    "rank_33": (graph("  %y = Neg(%x)", f"%x: f32[{', '.join(['1'] * 33)}]"), 5),
    "empty_but_huge": (graph(filled("x", [1 << 40, 0]) + "  %y = Transpose(%x)"), 0),
    "many_operands": (graph(f"  %y = Sum({', '.join(['%x'] * 4096)})", "%x: f32[2]"), 0),
    "many_parts": (graph(f"  %y = Concat({', '.join(['%x'] * 4096)}) {{axis = 0}}", "%x: f32[2]"), 0),
    "many_nodes": (graph(chain(10000, "AFTER = Neg(BEFORE)"), "%x: f32[2]"), 0),
    "no_iterations": (graph(single("x", "0.0") + loop(0, COLLECTING, 1, "x", 1)), 0),
}

# Must be planned for the CPU at once.
PLANNED = {
    # Each place is a quotient and a remainder of the last one.
    "places_that_nest": graph(integers("shape", [64, 96]) +
                              chain(20, "AFTER_t = Transpose(BEFORE) {perm = [1, 0]}\n  AFTER = Reshape(AFTER_t, %shape)"), "%x: f32[64, 96]"),
}

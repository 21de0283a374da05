// Runs the model of a folder on random or given inputs and shows outputs and kernels. What comes from the model (names)
// is only ever set as text.
const query = new URLSearchParams(location.search);
const folder = query.get("model") ?? "./model";
const element = (id) => document.getElementById(id);
const status = (text, isError = false) => {
  element("status").textContent = text;
  element("status").className = isError ? "error" : "";
};

function row(table, cells, tag = "td") {
  const line = table.insertRow();
  for (const cell of cells) {
    const made = document.createElement(tag);
    if (typeof cell === "number") made.className = "number";
    if (cell instanceof Node) made.append(cell);
    else made.textContent = typeof cell === "number" && !Number.isInteger(cell) ? cell.toFixed(3) : `${cell ?? ""}`;
    line.append(made);
  }
}

// ---- inputs: each symbolic size has a field, each input a field for a file of raw little-endian elements

const ARRAYS = {
  bool: Uint8Array, u8: Uint8Array, i8: Int8Array, u16: Uint16Array, i16: Int16Array, bf16: Uint16Array, u32: Uint32Array,
  i32: Int32Array, f32: Float32Array, u64: BigUint64Array, i64: BigInt64Array, f64: Float64Array,
};

function randomData({ dtype, below }, count) {
  const Elements = ARRAYS[dtype] ?? Uint16Array;
  if (dtype === "f32" || dtype === "f64") return Elements.from({ length: count }, () => Math.random() * 2 - 1);
  const wide = dtype === "i64" || dtype === "u64";
  return Elements.from({ length: count }, () => {
    const number = Math.floor(Math.random() * (below ?? 2));
    return wide ? BigInt(number) : number;
  });
}

function field(label, type, value) {
  const line = document.createElement("label"), input = document.createElement("input");
  input.type = type;
  if (value !== undefined) input.value = value;
  line.append(`${label} `, input);
  element("inputs").append(line);
  return input;
}

function makeForm(model) {
  const sizes = {}, files = {};
  for (const { shape } of model.inputs) {
    for (const size of shape) if (typeof size === "string" && /^\w+$/.test(size)) sizes[size] ??= field(`size ${size}`, "number", 8);
  }
  for (const { name, dtype, shape } of model.inputs) files[name] = field(`${name}: ${dtype}[${shape.join(", ")}], random, or from a file`, "file");
  const button = document.createElement("button");
  button.textContent = "Run";
  element("inputs").append(button);
  return async (parseSize) => {
    const known = Object.fromEntries(Object.entries(sizes).map(([name, input]) => [name, Number(input.value)]));
    const given = {};
    for (const input of model.inputs) {
      const shape = input.shape.map((size) => parseSize(size)(known));
      const [file] = files[input.name].files;
      const data = file ? new (ARRAYS[input.dtype] ?? Uint16Array)(await file.arrayBuffer())
                        : randomData(input, shape.reduce((product, size) => product * size, 1));
      given[input.name] = { data, shape };
    }
    return given;
  };
}

// ---- results

function showOutputs(outputs) {
  const table = element("outputs");
  table.replaceChildren();
  row(table, ["name", "type", "largest at", "first elements"], "th");
  for (const [name, { data, dtype, shape }] of Object.entries(outputs)) {
    let largest = 0;
    data.forEach((value, index) => { if (value > data[largest]) largest = index; });
    const first = Array.from(data.subarray(0, 8), (value) => (typeof value === "bigint" ? `${value}` : value.toPrecision(5)));
    row(table, [name, `${dtype}[${shape.join(", ")}]`, largest, first.join("  ")]);
  }
}

function showKernels(kernels) {
  const table = element("kernels");
  table.replaceChildren();
  row(table, ["kernel", "op", "node", "ms", ""], "th");
  const most = Math.max(...kernels.map(({ milliseconds }) => milliseconds ?? 0), 1e-9);
  for (const { name, op, node, milliseconds } of kernels) {
    const bar = document.createElement("span");
    bar.className = "bar";
    bar.style.width = `${(120 * (milliseconds ?? 0)) / most}px`;
    row(table, [name, op, node, milliseconds ?? "–", bar]);
  }
}

try {
  const base = new URL(folder.endsWith("/") ? folder : `${folder}/`, document.baseURI);
  const { load, parseSize } = await import(new URL("xyntra.js", base));
  const started = performance.now();
  const model = await load(base);
  status(`Loaded in ${(performance.now() - started).toFixed(0)} ms.`);
  const inputsOf = makeForm(model);
  const run = async () => {
    const inputs = await inputsOf(parseSize);
    const outputs = await model.run(inputs, { profile: true });
    const before = performance.now();
    await model.run(inputs);
    status(`A run takes ${(performance.now() - before).toFixed(1)} ms.`);
    showOutputs(outputs);
    showKernels(model.kernels());
    element("results").hidden = false;
    document.body.dataset.state = "done";
  };
  const shown = (work) => work().catch((error) => {
    status(`${error.kind ?? "error"}: ${error.message}`, true);
    document.body.dataset.state = "failed";
  });
  element("inputs").addEventListener("submit", (event) => {
    event.preventDefault();
    shown(run);
  });
  await shown(run);
} catch (error) {
  status(`${error.kind ?? "error"}: ${error.message}`, true);
  document.body.dataset.state = "failed";
}

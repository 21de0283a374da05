// Runs a model that `xyntra compile MODEL --backend wgsl --web DIR` wrote, on WebGPU.
//
//   import { load } from "./model/xyntra.js";
//   const model = await load("./model");
//   const { y } = await model.run({ x: new Float32Array(3 * 224 * 224) });
//   y.data, y.shape
//
// One buffer holds everything of a run: the arena, inputs, outputs, workspace. Where things lie in it follows from the
// sizes of the inputs, as do launches and bind groups; all of it is made once per sizes and kept. A run writes the inputs,
// submits one command buffer and maps the outputs back. Errors are of class XyntraError, whose `kind` says whose they are.

const FORMAT = "xyntra-web", VERSION = 2;
const KEPT_SIZES = 4; // for how many sizes of inputs launches are kept
const FAULT_BYTES = 16; // whether, which buffer, which dimension, which index
const MOST_TIMED = 2048; // launches of a run: a query set has room for that many pairs

/** kind: "usage", "bad model", "unsupported", "limit", "device" */
export class XyntraError extends Error {
  constructor(kind, message) {
    super(message);
    this.name = "XyntraError";
    this.kind = kind;
  }
}
const fail = (kind, message) => { throw new XyntraError(kind, message); };

// ---- sizes: a number, or a text such as "floordiv(n + 1, 2)*3", made into a function of the sizes of the inputs

const checked = (value) =>
  Number.isSafeInteger(value) ? value : fail("limit", `a size of ${value} is more than can be counted`);
const floorDivide = (a, b) => (b === 0 ? 0 : Math.floor(a / b));
const FUNCTIONS = {
  floordiv: floorDivide,
  mod: (a, b) => (b === 0 ? 0 : a - b * floorDivide(a, b)),
  max: Math.max,
  min: Math.min,
  broadcast: (a, b) => (a === 0 || b === 0 ? 0 : Math.max(a, b)),
};

/** The function carries `symbol` where the size is one name and nothing else. */
export function parseSize(size) {
  if (typeof size === "number") return () => size;
  const tokens = size.match(/\d+|[A-Za-z_]\w*|'(?:\\x[0-9a-f]{2}|\\.|[^'\\])*'|[-+*(),]/g) ?? [];
  let at = 0;
  const take = (expected) => {
    if (tokens[at++] !== expected) fail("bad model", `the size '${size}' cannot be read`);
  };
  const symbol = (name) => {
    const found = (sizes) => sizes[name] ?? fail("usage", `the size '${name}' is not known`);
    return Object.assign(found, { symbol: name });
  };
  const factor = () => {
    const token = tokens[at++] ?? "";
    if (token === "-") {
      const inner = factor();
      return (sizes) => -inner(sizes);
    }
    if (/^\d/.test(token)) return () => checked(Number(token));
    if (token === "(") {
      const inner = sum();
      take(")");
      return inner;
    }
    if (tokens[at] === "(" && Object.hasOwn(FUNCTIONS, token)) {
      take("(");
      const left = sum();
      take(",");
      const right = sum();
      take(")");
      return (sizes) => FUNCTIONS[token](left(sizes), right(sizes));
    }
    if (token.startsWith("'")) {
      return symbol(token.slice(1, -1).replace(/\\x([0-9a-f]{2})|\\(.)/g, (_, code, char) =>
        char ?? String.fromCharCode(parseInt(code, 16))));
    }
    if (!/^[A-Za-z_]/.test(token)) fail("bad model", `the size '${size}' cannot be read`);
    return symbol(token);
  };
  const product = () => {
    let left = factor();
    while (tokens[at] === "*") {
      at++;
      const a = left, b = factor();
      left = (sizes) => checked(a(sizes) * b(sizes));
    }
    return left;
  };
  const sum = () => {
    let left = product();
    while (tokens[at] === "+" || tokens[at] === "-") {
      const sign = tokens[at++] === "+" ? 1 : -1;
      const a = left, b = product();
      left = (sizes) => checked(a(sizes) + sign * b(sizes));
    }
    return left;
  };
  const made = sum();
  if (at !== tokens.length) fail("bad model", `the size '${size}' cannot be read`);
  return made;
}

// ---- memory

const roundUp = (value, to) => Math.ceil(value / to) * to;

/** Each request in turn is set on top of those before it that live at the same time. */
export function stack(requests, order) {
  const offsets = new Array(requests.length).fill(0);
  const placed = [];
  let peak = 0;
  for (const index of order) {
    const { bytes, first, last, alignment } = requests[index];
    if (bytes === 0) continue;
    let height = 0;
    for (const other of placed) {
      if (other.first <= last && first <= other.last) height = Math.max(height, other.top);
    }
    offsets[index] = roundUp(height, alignment);
    const top = offsets[index] + bytes;
    placed.push({ first, last, top });
    peak = Math.max(peak, top);
  }
  return { offsets, peak };
}

// name: [bits, array of its elements]; f16 and bf16 are given and taken as their bits where there is no array for them
const DTYPES = {
  bool: [8, Uint8Array], u8: [8, Uint8Array], i8: [8, Int8Array],
  u16: [16, Uint16Array], i16: [16, Int16Array], f16: [16, globalThis.Float16Array ?? Uint16Array], bf16: [16, Uint16Array],
  u32: [32, Uint32Array], i32: [32, Int32Array], f32: [32, Float32Array],
  u64: [64, BigUint64Array], i64: [64, BigInt64Array], f64: [64, Float64Array],
};
const dtypeOf = (name) => DTYPES[name] ?? fail("unsupported", `a page has no arrays of ${name}`);

function elementsOf(given, dtype, name) {
  const Elements = dtypeOf(dtype)[1];
  if (given instanceof Elements) return given;
  const wide = Elements === BigInt64Array || Elements === BigUint64Array;
  const integers = ArrayBuffer.isView(given) && !/Float|DataView/.test(given.constructor.name);
  if (Array.isArray(given) || (wide && integers)) return Elements.from(given, wide ? BigInt : Number);
  if (typeof given === "number" || typeof given === "bigint" || typeof given === "boolean")
    return Elements.of(wide ? BigInt(given) : Number(given));
  return fail("usage", `input '${name}' takes a ${Elements.name}, given ${given?.constructor?.name ?? given}`);
}

// ---- the folder

async function fetched(url, kind) {
  const response = await fetch(url).catch((error) => fail("usage", `${url} cannot be read: ${error.message}`));
  if (!response.ok) fail("usage", `${url} cannot be read: ${response.status} ${response.statusText}`);
  return response[kind]();
}

function readManifest(manifest) {
  if (manifest.format !== FORMAT) fail("bad model", "this is no compiled model");
  if (manifest.version !== VERSION)
    fail("bad model", `the folder has version ${manifest.version}, this module reads ${VERSION}: compile the model again`);
  const sizes = (list) => list.map(parseSize);
  return {
    ...manifest,
    values: manifest.values.map((value) => value && {
      ...value, shape: sizes(value.shape), shapeText: value.shape, offset: parseSize(value.offset ?? 0),
    }),
    slots: manifest.memory.slots.map((slot) => ({ ...slot, bytes: parseSize(slot.bytes) })),
    order: manifest.memory.order,
    kernels: manifest.kernels.map((kernel) => ({
      ...kernel,
      phases: kernel.phases.map((phase) => ({ ...phase, items: parseSize(phase.items) })),
      sizes: sizes(kernel.sizes), elements: sizes(kernel.elements), workspace: sizes(kernel.workspace),
    })),
  };
}

// ---- the device

const LIMITS = [
  "maxBufferSize", "maxStorageBufferBindingSize", "maxStorageBuffersPerShaderStage", "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX", "maxComputeWorkgroupSizeY", "maxComputeWorkgroupSizeZ",
  "maxComputeWorkgroupsPerDimension",
];
const FEATURES = ["timestamp-query", "shader-f16", "subgroups"];
const FEATURE_OF_DIRECTIVE = { f16: "shader-f16", subgroups: "subgroups" };

async function openDevice(options) {
  if (options.device) return options.device;
  if (!globalThis.navigator?.gpu) fail("device", "this browser has no WebGPU, or the page was not loaded from a secure place");
  const adapter = options.adapter ?? (await navigator.gpu.requestAdapter({ powerPreference: "high-performance" }));
  if (!adapter) fail("device", "WebGPU found no adapter");
  const requiredLimits = {};
  for (const name of LIMITS) if (adapter.limits[name] !== undefined) requiredLimits[name] = adapter.limits[name];
  const requiredFeatures = FEATURES.filter((feature) => adapter.features.has(feature));
  return adapter.requestDevice({ requiredFeatures, requiredLimits })
    .catch((error) => fail("device", `the adapter gave no device: ${error.message}`));
}

// What is done meanwhile either works or is an error of ours; the device's own would go to the console.
async function guarded(device, what, work) {
  const scopes = ["validation", "out-of-memory", "internal"];
  for (const scope of scopes) device.pushErrorScope(scope);
  let result, thrown = null;
  try {
    result = work();
  } catch (error) {
    thrown = error;
  }
  const errors = await Promise.all(scopes.map(() => device.popErrorScope().catch(() => null)));
  if (thrown) throw thrown;
  const found = errors.find((error) => error);
  if (found) fail(found instanceof GPUOutOfMemoryError ? "limit" : "device", `${what}: ${found.message}`);
  return result;
}

async function makeKernel(device, kernel, text, layouts) {
  for (const [, names] of text.matchAll(/^enable ([\w, ]+);/gm)) {
    for (const name of names.split(/[, ]+/)) {
      if (!device.features.has(FEATURE_OF_DIRECTIVE[name] ?? name))
        fail("unsupported", `${kernel.name} needs '${name}', which the adapter lacks`);
    }
  }
  // Each phase binds what it uses; sizes come after all others.
  const sizes = kernel.bindings.length + kernel.workspace.length + (kernel.faults ? 1 : 0);
  const most = device.limits.maxStorageBuffersPerShaderStage;
  const phaseLayouts = kernel.phases.map(({ bindings }) => {
    if (bindings.length > most) fail("limit", `${kernel.name} binds ${bindings.length} buffers, the adapter takes ${most}`);
    const key = `${bindings} ${kernel.sizes.length > 0 ? sizes : ""}`;
    if (!layouts.has(key)) {
      const entry = (type) => (binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } });
      const entries = [...bindings.map(entry("storage")), ...(kernel.sizes.length > 0 ? [entry("uniform")(sizes)] : [])];
      const group = device.createBindGroupLayout({ entries });
      layouts.set(key, { group, pipeline: device.createPipelineLayout({ bindGroupLayouts: [group] }) });
    }
    return layouts.get(key);
  });
  const module = device.createShaderModule({ label: kernel.name, code: text });
  const refused = async (error) => {
    const lines = text.split("\n");
    const messages = (await module.getCompilationInfo()).messages.filter((message) => message.type === "error");
    const quoted = messages.map((message) => `\nline ${message.lineNum}: ${message.message}\n  ${lines[message.lineNum - 1]}`);
    fail("device", `${kernel.name} is refused: ${quoted.length > 0 ? quoted.join("") : error.message}`);
  };
  const pipelines = await Promise.all(kernel.phases.map((phase, index) =>
    device.createComputePipelineAsync({
      label: kernel.name, layout: phaseLayouts[index].pipeline, compute: { module, entryPoint: phase.entry },
    }).catch(refused)));
  return { groups: phaseLayouts.map(({ group }) => group), pipelines };
}

// Constants share buffers as large as the device allows; each lies in one of them.
function uploadWeights(device, constants, bytes) {
  const places = constants.map(() => null);
  const used = constants.flatMap((constant, index) => (constant ? [{ ...constant, index, room: roundUp(constant.bytes, 256) }] : []));
  for (let begin = 0; begin < used.length;) {
    let end = begin, total = 0;
    while (end < used.length && (end === begin || total + used[end].room <= device.limits.maxBufferSize)) total += used[end++].room;
    if (total > device.limits.maxBufferSize) fail("limit", `a constant of ${total} bytes is more than a buffer holds`);
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
    const buffer = device.createBuffer({ label: "weights", size: Math.max(total, 256), usage });
    if (total > 0) device.queue.writeBuffer(buffer, 0, bytes, used[begin].offset, total);
    for (const { index, offset } of used.slice(begin, end)) places[index] = { buffer, offset: offset - used[begin].offset };
    begin = end;
  }
  return places;
}

// ---- launches for one set of sizes

class Bound {
  constructor(opened, program, sizes) {
    this.opened = opened;
    this.program = program;
    this.sizes = sizes;
    this.alignment = opened.device.limits.minStorageBufferOffsetAlignment;
    this.places = program.values.map(() => null);
    this.#layOut();
    this.launches = program.steps.map((step) => this.#planLaunch(step));
    this.#make();
  }

  destroy() {
    for (const buffer of [this.memory, this.uniforms, this.staging, this.scratch]) buffer?.destroy();
  }

  dims(value) { return value.shape.map((size) => size(this.sizes)); }

  bytes(id) {
    const value = this.program.values[id];
    if (value.kind === "constant") return this.program.constants[value.constant].bytes;
    const count = this.dims(value).reduce((product, size) => checked(product * size), 1);
    return Math.ceil((count * dtypeOf(value.dtype)[0]) / 8);
  }

  /** A range of one of the buffers; `buffer` is null for the one that is made in the end. */
  range(id) {
    return { ...this.places[id], bytes: this.bytes(id) };
  }

  #reserve(bytes) {
    const offset = this.end;
    this.end = roundUp(offset + Math.max(bytes, 4), Math.max(this.alignment, 256));
    return offset;
  }

  // Everything that has memory gets its place; views and what lives in another's memory follow.
  #layOut() {
    const { values, slots, order } = this.program;
    const requests = slots.map((slot) => ({
      ...slot, bytes: slot.bytes(this.sizes), alignment: Math.max(slot.alignment, this.alignment),
    }));
    const { offsets, peak } = stack(requests, order);
    this.arenaBytes = peak;
    this.end = roundUp(peak, Math.max(this.alignment, 256));
    const place = (id) => {
      if (this.places[id]) return this.places[id];
      const value = values[id];
      const elsewhere = value.of !== undefined && value.of !== id;
      let made;
      if (value.kind === "arena") made = { buffer: null, offset: offsets[value.slot] };
      else if (value.kind === "constant") made = this.opened.weights[value.constant];
      else if (elsewhere) {
        const whole = place(value.of);
        made = { ...whole, offset: whole.offset + (value.kind === "view" ? value.offset(this.sizes) : 0) };
      } else made = { buffer: null, offset: this.#reserve(this.bytes(id)) };
      this.places[id] = made;
      return made;
    };
    values.forEach((value, id) => value && place(id));
    this.shared = this.end; // what launches need for themselves, one after another
    this.sharedEnd = this.end;
    this.faulty = [];
    this.uniformBytes = 0;
  }

  // A launch with its ranges. What WebGPU does not take as a binding (it overlaps another of the launch, or does not begin
  // where bindings may) is copied to a place that it takes before, or back from it after.
  #planLaunch(step) {
    const kernel = this.program.kernels[step.kernel];
    const made = { step, kernel, ranges: [], before: [], after: [], dispatches: [], uniform: 0, fault: -1 };
    this.end = this.shared;
    const ids = [...step.inputs, ...step.outputs];
    const whole = ids.map((id) => this.range(id));
    const overlaps = (a, b) => a.bytes > 0 && b.bytes > 0 && a.buffer === b.buffer &&
      a.offset < roundUp(b.offset + b.bytes, 4) && b.offset < roundUp(a.offset + a.bytes, 4);
    const taken = (i, range) => {
      if (range.offset % 4 !== 0)
        fail("unsupported", `'${this.program.values[ids[i]].name}' begins at byte ${range.offset}, where no binding can begin`);
      return range;
    };
    for (const parts of kernel.bindings) {
      if (parts.length > 1) { // small ones behind one another
        const { at, bytes } = parts.at(-1);
        const pack = { buffer: null, offset: this.#reserve(roundUp(at + bytes, 16)), bytes: roundUp(at + bytes, 16) };
        made.ranges.push(pack);
        for (const part of parts)
          made.before.push({ from: taken(part.argument, whole[part.argument]), to: { buffer: null, offset: pack.offset + part.at }, bytes: roundUp(part.bytes, 4) });
        continue;
      }
      const [{ argument: i, first = 0, bytes: some }] = parts;
      const range = { ...whole[i], offset: whole[i].offset + first, bytes: some ?? whole[i].bytes };
      const bytes = roundUp(range.bytes, 4);
      if (bytes > this.opened.device.limits.maxStorageBufferBindingSize)
        fail("limit", `'${this.program.values[ids[i]].name}' has ${bytes} bytes, a binding takes ${this.opened.device.limits.maxStorageBufferBindingSize}`);
      const input = i < step.inputs.length;
      const meets = input && whole.some((other, j) => j !== i && overlaps(range, other));
      if (range.bytes > 0 && !meets && range.offset % this.alignment === 0) {
        made.ranges.push({ ...range, bytes });
        continue;
      }
      const copy = { buffer: null, offset: this.#reserve(Math.max(bytes, 16)), bytes: Math.max(bytes, 16) };
      made.ranges.push(copy);
      if (range.bytes === 0) continue; // bound all the same, and never looked at
      if (!input && range.bytes % 4 !== 0) taken(i, { offset: 1 });
      if (input) made.before.push({ from: taken(i, range), to: copy, bytes });
      else made.after.push({ from: copy, to: taken(i, range), bytes });
    }
    for (const size of kernel.workspace) {
      const bytes = roundUp(Math.max(size(this.sizes), 16), 4);
      made.ranges.push({ buffer: null, offset: this.#reserve(bytes), bytes });
    }
    this.sharedEnd = Math.max(this.sharedEnd, this.end);
    if (kernel.faults) {
      made.fault = this.faulty.length;
      this.faulty.push(made);
    }
    if (kernel.sizes.length > 0) {
      made.uniform = this.uniformBytes;
      this.uniformBytes += roundUp(kernel.sizes.length * 4, 256);
    }
    this.#countItems(made);
    return made;
  }

  #countItems(made) {
    const small = (count) => (count <= 0x7fffffff ? count : fail("limit", `${count} elements or work items are more than a shader can count`));
    const most = this.opened.device.limits.maxComputeWorkgroupsPerDimension;
    for (const elements of made.kernel.elements) small(elements(this.sizes));
    made.kernel.phases.forEach((phase, index) => {
      const items = small(phase.items(this.sizes));
      if (items <= 0) return;
      const groups = Math.ceil(items / phase.items_per_group);
      const across = Math.min(groups, most), down = Math.ceil(groups / across);
      if (down > most) fail("limit", `a launch has ${items} work items`);
      const { groups: layouts, pipelines } = this.opened.kernels[made.step.kernel];
      made.dispatches.push({ pipeline: pipelines[index], layout: layouts[index], bindings: phase.bindings, across, down });
    });
  }

  #make() {
    const { device } = this.opened;
    this.end = this.sharedEnd;
    this.faults = this.#reserve(this.faulty.length * this.alignment);
    if (this.end > device.limits.maxBufferSize)
      fail("limit", `a run takes ${this.end} bytes, a buffer holds ${device.limits.maxBufferSize}`);
    const { STORAGE, UNIFORM, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
    this.memory = device.createBuffer({ label: "memory", size: this.end, usage: STORAGE | COPY_SRC | COPY_DST });
    this.uniforms = device.createBuffer({ label: "sizes", size: Math.max(this.uniformBytes, 256), usage: UNIFORM | COPY_DST });
    const copied = this.launches.flatMap(({ before, after }) => [...before, ...after]).map(({ bytes }) => bytes);
    // Copies within one buffer go through another.
    this.scratch = copied.length > 0
      ? device.createBuffer({ label: "copies", size: Math.max(...copied), usage: COPY_SRC | COPY_DST }) : null;
    const numbers = new Int32Array(this.uniformBytes / 4);
    for (const launch of this.launches) {
      launch.kernel.sizes.forEach((size, i) => {
        const value = size(this.sizes);
        if (value !== (value | 0)) fail("limit", `a size of ${value} does not fit a shader's integers`);
        numbers[launch.uniform / 4 + i] = value;
      });
      const ranges = [...launch.ranges];
      if (launch.fault >= 0) ranges.push({ buffer: null, offset: this.faults + launch.fault * this.alignment, bytes: FAULT_BYTES });
      const uniform = launch.kernel.sizes.length > 0 ? [ranges.length] : [];
      ranges.push({ buffer: this.uniforms, offset: launch.uniform, bytes: roundUp(launch.kernel.sizes.length * 4, 16) });
      for (const dispatch of launch.dispatches) {
        dispatch.group = device.createBindGroup({
          layout: dispatch.layout,
          entries: [...dispatch.bindings, ...uniform].map((binding) => {
            const { buffer, offset, bytes } = ranges[binding];
            return { binding, resource: { buffer: buffer ?? this.memory, offset, size: bytes } };
          }),
        });
      }
    }
    if (numbers.length > 0) device.queue.writeBuffer(this.uniforms, 0, numbers);
    this.stagingBytes = 0;
    const stage = (bytes) => {
      const offset = this.stagingBytes;
      this.stagingBytes += roundUp(bytes, 8);
      return offset;
    };
    this.outputs = this.program.outputs.map((id) => {
      const range = this.range(id);
      const skipped = range.offset % 4; // bytes before it that a copy cannot leave out
      return { value: this.program.values[id], range, skipped, staged: stage(range.bytes + skipped) };
    });
    this.stagedFaults = stage(this.faulty.length * this.alignment);
    this.stagedTimes = stage(2 * 8 * Math.min(this.launches.length, MOST_TIMED));
    this.staging = device.createBuffer({ label: "results", size: Math.max(this.stagingBytes, 8), usage: MAP_READ | COPY_DST });
  }

  /** `times`: a query set with two entries per launch, or null. */
  record(times) {
    const { device } = this.opened;
    const encoder = device.createCommandEncoder();
    let pass = null;
    const endPass = () => { pass?.end(); pass = null; };
    const copy = ({ from, to, bytes }) => {
      endPass();
      const source = from.buffer ?? this.memory, target = to.buffer ?? this.memory;
      if (source !== target) return encoder.copyBufferToBuffer(source, from.offset, target, to.offset, bytes);
      encoder.copyBufferToBuffer(source, from.offset, this.scratch, 0, bytes);
      encoder.copyBufferToBuffer(this.scratch, 0, target, to.offset, bytes);
    };
    if (this.faulty.length > 0) encoder.clearBuffer(this.memory, this.faults, this.faulty.length * this.alignment);
    this.launches.forEach((launch, index) => {
      launch.before.forEach(copy);
      if (times && index < MOST_TIMED) {
        endPass();
        pass = encoder.beginComputePass({
          label: launch.kernel.name,
          timestampWrites: { querySet: times.queries, beginningOfPassWriteIndex: 2 * index, endOfPassWriteIndex: 2 * index + 1 },
        });
      }
      pass ??= encoder.beginComputePass();
      for (const { pipeline, group, across, down } of launch.dispatches) {
        pass.setBindGroup(0, group);
        pass.setPipeline(pipeline);
        pass.dispatchWorkgroups(across, down);
      }
      launch.after.forEach(copy);
    });
    endPass();
    const stage = (buffer, offset, to, bytes) => bytes > 0 && encoder.copyBufferToBuffer(buffer, offset, this.staging, to, roundUp(bytes, 4));
    for (const { range, skipped, staged } of this.outputs)
      stage(range.buffer ?? this.memory, range.offset - skipped, staged, range.bytes > 0 ? range.bytes + skipped : 0);
    stage(this.memory, this.faults, this.stagedFaults, this.faulty.length * this.alignment);
    if (times) {
      const count = 2 * Math.min(this.launches.length, MOST_TIMED);
      encoder.resolveQuerySet(times.queries, 0, count, times.resolved, 0);
      stage(times.resolved, 0, this.stagedTimes, count * 8);
    }
    return encoder.finish();
  }

  fault(staged) {
    const words = new Int32Array(staged);
    const found = this.faulty.findIndex((_, i) => words[(this.stagedFaults + i * this.alignment) / 4] !== 0);
    if (found < 0) return;
    const [, buffer, dimension, index] = words.subarray((this.stagedFaults + found * this.alignment) / 4);
    const { step } = this.faulty[found];
    const value = this.program.values[[...step.inputs, ...step.outputs][buffer]];
    const size = value && this.dims(value)[dimension];
    fail("bad model", `node '${step.node}' (${step.op}): index ${index} is out of range for axis ${dimension} of ` +
      (value ? `'${value.name}'` : "a temporary") + (size === undefined ? "" : `, which has size ${size}`));
  }
}

// ---- the model

class Model {
  #folder; #options; #program; #texts; #weights;
  #opened = null; // the device and what was made on it; null: not yet, or lost
  #bound = new Map(); // by the sizes of inputs, the latest last
  #last = Promise.resolve(); // runs are serialised
  #times = null;

  constructor(folder, options, program, texts, weights) {
    this.#folder = folder;
    this.#options = options;
    this.#program = program;
    this.#texts = texts;
    this.#weights = weights;
    const described = (id) => {
      const { name, dtype, shapeText } = program.values[id];
      return { name, dtype, shape: shapeText };
    };
    this.inputs = program.inputs.map((id) => ({ ...described(id), below: program.index_bounds?.[program.values[id].name] }));
    this.outputs = program.outputs.map(described);
  }

  /** The device in use. */
  get device() { return this.#opened?.device; }

  /** Launches in order; `milliseconds` of the last run with { profile: true }. */
  kernels() {
    return this.#program.steps.map((step, index) => ({
      name: this.#program.kernels[step.kernel].name, op: step.op, node: step.node, milliseconds: this.#times?.[index],
    }));
  }

  run(inputs, options = {}) {
    const turn = this.#last.then(() => this.#run(inputs, options));
    this.#last = turn.catch(() => {});
    return turn;
  }

  destroy() {
    for (const bound of this.#bound.values()) bound.destroy();
    this.#bound.clear();
    if (!this.#options.device) this.#opened?.device.destroy();
    this.#opened = null;
  }

  async open() {
    if (this.#opened) return;
    const device = await openDevice(this.#options);
    const weights = this.#weights ?? (await fetched(new URL("weights.bin", this.#folder), "arrayBuffer"));
    if (weights.byteLength !== this.#program.weight_bytes)
      fail("bad model", `weights.bin has ${weights.byteLength} bytes, the manifest says ${this.#program.weight_bytes}`);
    this.#weights = null; // the device has them
    const layouts = new Map();
    const opened = {
      device,
      weights: await guarded(device, "weights", () => uploadWeights(device, this.#program.constants, weights)),
      kernels: await Promise.all(this.#program.kernels.map((kernel, i) => makeKernel(device, kernel, this.#texts[i], layouts))),
    };
    device.lost.then(() => {
      if (this.#opened !== opened) return;
      this.#opened = null; // the next run opens another
      this.#bound.clear();
    });
    this.#opened = opened;
  }

  async #run(given, options) {
    const { tensors, sizes } = this.#learn(given);
    await this.open();
    const { device } = this.#opened;
    const bound = await this.#bind(sizes);
    for (const [id, data] of tensors) this.#write(bound, id, data);
    const times = options.profile && device.features.has("timestamp-query") ? this.#queries(device) : null;
    try {
      await guarded(device, "run", () => device.queue.submit([bound.record(times)]));
      await bound.staging.mapAsync(GPUMapMode.READ);
    } catch (error) {
      if (error instanceof XyntraError) throw error;
      fail("device", `the device was lost in mid-run: ${error.message}`);
    }
    const staged = bound.staging.getMappedRange().slice(0);
    bound.staging.unmap();
    bound.fault(staged);
    if (times) {
      const ticks = new BigInt64Array(staged, bound.stagedTimes, 2 * Math.min(bound.launches.length, MOST_TIMED));
      this.#times = bound.launches.map((_, i) => (i < MOST_TIMED ? Number(ticks[2 * i + 1] - ticks[2 * i]) / 1e6 : undefined));
    }
    return Object.fromEntries(bound.outputs.map(({ value, range, skipped, staged: at }) => {
      const Elements = dtypeOf(value.dtype)[1];
      const bytes = staged.slice(at + skipped, at + skipped + range.bytes);
      return [value.name, { data: new Elements(bytes), dtype: value.dtype, shape: bound.dims(value) }];
    }));
  }

  // What the inputs say about sizes, checked against what the model says about them.
  #learn(given) {
    const { values, inputs, ranges, assumptions } = this.#program;
    const names = inputs.map((id) => values[id].name);
    for (const name of Object.keys(given)) if (!names.includes(name)) fail("usage", `the model has no input '${name}'; it has ${names.join(", ")}`);
    const sizes = {}, found = [];
    const hint = assumptions.length > 0 ? `; the model was compiled for ${assumptions.join(", ")}` : "";
    for (const id of inputs) {
      const { name, dtype, shape, shapeText } = values[id];
      if (given[name] === undefined) fail("usage", `input '${name}' is missing`);
      const wrapped = given[name].data !== undefined && given[name].shape !== undefined;
      const data = elementsOf(wrapped ? given[name].data : given[name], dtype, name);
      const dims = wrapped ? [...given[name].shape].map(Number) : null;
      if (dims && dims.length !== shape.length) fail("usage", `input '${name}' is ${dtype}[${shapeText}], given [${dims}]`);
      if (dims) shape.forEach((size, d) => { if (size.symbol !== undefined) sizes[size.symbol] ??= dims[d]; });
      found.push({ id, data, dims });
    }
    for (const { id, data, dims } of found) {
      const { name, dtype, shape, shapeText } = values[id];
      const wanted = shape.map((size) => {
        try {
          return size(sizes);
        } catch {
          return fail("usage", `input '${name}' is ${dtype}[${shapeText}]: give { data, shape }`);
        }
      });
      const count = wanted.reduce((product, size) => product * size, 1);
      if ((dims && dims.some((size, d) => size !== wanted[d])) || data.length !== count)
        fail("usage", `input '${name}' is ${dtype}[${shapeText}], given ${dims ? `[${dims}] with ` : ""}${data.length} elements${hint}`);
    }
    for (const [name, [low, high]] of Object.entries(ranges)) {
      if (sizes[name] !== undefined && (sizes[name] < low || sizes[name] > high))
        fail("usage", `the size '${name}' is ${sizes[name]}; the model was compiled for ${low} to ${high}`);
    }
    return { tensors: found.map(({ id, data }) => [id, data]), sizes };
  }

  async #bind(sizes) {
    const key = JSON.stringify(Object.entries(sizes).sort());
    const known = this.#bound.get(key);
    this.#bound.delete(key);
    const bound = known ?? (await guarded(this.#opened.device, "memory", () => new Bound(this.#opened, this.#program, sizes)));
    this.#bound.set(key, bound);
    for (const oldest of this.#bound.keys()) {
      if (this.#bound.size <= KEPT_SIZES) break;
      this.#bound.get(oldest).destroy();
      this.#bound.delete(oldest);
    }
    return bound;
  }

  #write(bound, id, data) {
    if (data.byteLength === 0) return;
    let bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    if (bytes.length % 4 !== 0) {
      const padded = new Uint8Array(roundUp(bytes.length, 4));
      padded.set(bytes);
      bytes = padded;
    }
    bound.opened.device.queue.writeBuffer(bound.memory, bound.range(id).offset, bytes);
  }

  #queries(device) {
    const count = 2 * Math.max(1, Math.min(this.#program.steps.length, MOST_TIMED));
    return this.#opened.queries ??= {
      queries: device.createQuerySet({ type: "timestamp", count }),
      resolved: device.createBuffer({ size: count * 8, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC }),
    };
  }
}

/**
 * `folder`: where the model lies, relative to the page. Options: `device` or `adapter`, where the page has one already.
 */
export async function load(folder, options = {}) {
  const base = globalThis.document?.baseURI ?? globalThis.location?.href;
  const url = new URL(`${folder}`.endsWith("/") ? folder : `${folder}/`, base);
  const [manifest, weights] = await Promise.all([
    fetched(new URL("manifest.json", url), "json"), fetched(new URL("weights.bin", url), "arrayBuffer"),
  ]);
  const program = readManifest(manifest);
  const texts = await Promise.all(program.kernels.map((kernel) => fetched(new URL(`shaders/${kernel.name}.wgsl`, url), "text")));
  const model = new Model(url, options, program, texts, weights);
  await model.open();
  return model;
}

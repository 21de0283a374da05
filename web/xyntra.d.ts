// Types of xyntra.js: a model that was compiled for the browser.

export type DType =
  | "bool" | "u8" | "i8" | "u16" | "i16" | "f16" | "bf16" | "u32" | "i32" | "f32" | "u64" | "i64" | "f64";

export type Elements =
  | Uint8Array | Int8Array | Uint16Array | Int16Array | Uint32Array | Int32Array | Float32Array | Float64Array
  | BigUint64Array | BigInt64Array;

/** A number as itself, any other size as an expression of named sizes: "floordiv(n + 1, 2)". */
export type Size = number | string;

export interface Signature {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly Size[];
}

export interface InputSignature extends Signature {
  /** Where the model takes the elements for indices: what they stay below. */
  readonly below?: number;
}

export interface Tensor {
  readonly data: Elements;
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** Elements alone where the shape is known without them. Plain arrays are converted; i64 and u64 take any integers. */
export type Input =
  | Elements | readonly number[] | readonly bigint[] | number | bigint | boolean
  | { readonly data: Elements | readonly number[] | readonly bigint[]; readonly shape: readonly number[] };

export interface Kernel {
  /** Of its shader: k3 is shaders/k3.wgsl. */
  readonly name: string;
  /** The last node of the model that it computes. */
  readonly op: string;
  readonly node: string;
  /** Of the last run with { profile: true }, where the adapter has timestamps. */
  readonly milliseconds?: number;
}

export interface RunOptions {
  /** Measure each launch; see Model.kernels. Launches are then passes of their own. */
  profile?: boolean;
}

export interface Model {
  readonly inputs: readonly InputSignature[];
  readonly outputs: readonly Signature[];
  readonly device: GPUDevice | undefined;
  /** Runs are serialised. After a lost device the next run opens another. */
  run(inputs: Record<string, Input>, options?: RunOptions): Promise<Record<string, Tensor>>;
  /** Launches, in order. */
  kernels(): Kernel[];
  /** Gives back the memory of the device. */
  destroy(): void;
}

export interface LoadOptions {
  adapter?: GPUAdapter;
  device?: GPUDevice;
}

export function load(folder: string | URL, options?: LoadOptions): Promise<Model>;

export class XyntraError extends Error {
  readonly kind: "usage" | "bad model" | "unsupported" | "limit" | "device";
}

/* Xyntra's C ABI: load a model, run it on tensors of your own.
 *
 *   xyntra_model* model = NULL;
 *   if (xyntra_load("model.onnx", NULL, &model) != XYNTRA_OK) puts(xyntra_last_message());
 *   xyntra_tensor x = {sizeof x, "x", XYNTRA_F32, 2, dims, data, bytes}, y = XYNTRA_INIT(xyntra_tensor);
 *   xyntra_result* result = NULL;
 *   if (xyntra_run(model, &x, 1, &result) == XYNTRA_OK) { ... xyntra_result_tensor(result, 0, &y) ... }
 *   xyntra_release_result(result);
 *   xyntra_release(model);
 *
 * No function throws, prints, or ends the process. A model may be run by several threads at a time; each call works in
 * memory of its own.
 *
 * Within one soname (libxyntra.so.1) functions are only ever added, and fields only at the end of structs. Every struct
 * begins with its size, which the caller sets; so a program and a library of different versions work together:
 * - A library that is newer than the program takes fields that the program's struct does not have as zero, which means what
 *   it meant before there was the field, and does not write them.
 * - A library that is older ignores fields that it does not know where they are zero, and refuses the call with
 *   XYNTRA_UNSUPPORTED where one is not. It does not write them: they keep what XYNTRA_INIT gave them.
 * A size of 0, or one that no struct has, is XYNTRA_USAGE. Elements of one array have one size. */
#ifndef XYNTRA_XYNTRA_H_
#define XYNTRA_XYNTRA_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define XYNTRA_API __attribute__((visibility("default")))
#else
#define XYNTRA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define XYNTRA_VERSION_MAJOR 0
#define XYNTRA_VERSION_MINOR 1
#define XYNTRA_VERSION_PATCH 0

XYNTRA_API const char* xyntra_version(void); /* of the library: "0.1.0" */

/* The first value of a struct of this file: its size, and zero everywhere else. */
#ifdef __cplusplus
#define XYNTRA_INIT(type)        \
  [] {                           \
    type initial = type();       \
    initial.size = sizeof(type); \
    return initial;              \
  }()
#else
#define XYNTRA_INIT(type) {.size = sizeof(type)}
#endif

typedef enum xyntra_status {
  XYNTRA_OK = 0,
  XYNTRA_USAGE = 1,       /* the call is wrong: a name, a shape, a missing input */
  XYNTRA_BAD_MODEL = 2,   /* the file is malformed or contradicts itself */
  XYNTRA_UNSUPPORTED = 3, /* valid, but not done (yet) */
  XYNTRA_LIMIT = 4,       /* memory, time or size */
  XYNTRA_DEVICE = 5,      /* a device or driver failed */
  XYNTRA_INTERNAL = 6     /* a bug of ours */
} xyntra_status;

/* Why the last call of this thread that failed did so: one sentence, valid until this thread's next call. */
XYNTRA_API const char* xyntra_last_message(void);

/* Whether a call that takes long is to end: calls of this thread ask, on this thread, about every 10 ms. Not 0 ends the call with
 * XYNTRA_LIMIT, within 100 ms (500 ms where machine code is made; a driver's compiler is waited for); the model stays as usable as
 * before. Null asks nothing, as at first. What is asked must not call this library. */
typedef int (*xyntra_interrupt)(void* context);
XYNTRA_API void xyntra_set_interrupt(xyntra_interrupt asked, void* context);

/* The numbers are those of ONNX's TensorProto.DataType. Elements narrower than a byte are packed, first in the low bits.
   The data of strings are, for each element, 64 bits that say where it ends in the text, then the text of all, one behind the other,
   in UTF-8: ["ab", "", "c"] is 2 2 3 "abc".
   A caller may hand in any number, so in C++ the type holds any: to read one of no name would be undefined else. */
#ifdef __cplusplus
typedef enum xyntra_dtype : int {
#else
typedef enum xyntra_dtype {
#endif
  XYNTRA_F32 = 1,
  XYNTRA_U8 = 2,
  XYNTRA_I8 = 3,
  XYNTRA_U16 = 4,
  XYNTRA_I16 = 5,
  XYNTRA_I32 = 6,
  XYNTRA_I64 = 7,
  XYNTRA_STRING = 8,
  XYNTRA_BOOL = 9,
  XYNTRA_F16 = 10,
  XYNTRA_F64 = 11,
  XYNTRA_U32 = 12,
  XYNTRA_U64 = 13,
  XYNTRA_BF16 = 16,
  XYNTRA_F8E4M3FN = 17,
  XYNTRA_F8E4M3FNUZ = 18,
  XYNTRA_F8E5M2 = 19,
  XYNTRA_F8E5M2FNUZ = 20,
  XYNTRA_U4 = 21,
  XYNTRA_I4 = 22,
  XYNTRA_F4E2M1 = 23,
  XYNTRA_F8E8M0 = 24,
  XYNTRA_U2 = 25,
  XYNTRA_I2 = 26
} xyntra_dtype;

/* Bytes of somebody's, dense and row-major. */
typedef struct xyntra_tensor {
  size_t size; /* sizeof(xyntra_tensor) */
  const char* name;
  xyntra_dtype dtype;
  size_t rank;
  const int64_t* dims;
  void* data; /* of an input: only read */
  size_t bytes;
} xyntra_tensor;

/* A tensor that the model takes or gives. */
typedef struct xyntra_value {
  size_t size; /* sizeof(xyntra_value), set by the caller */
  const char* name;
  xyntra_dtype dtype;
  int has_shape; /* 0 where even the rank is not known before a run; rank is 0 then */
  size_t rank;
  const int64_t* dims; /* -1 for a size that is not fixed */
  const char* const*
      symbols; /* its name or formula, such as "batch" or "2*seq"; the number where it is fixed */
} xyntra_value;

typedef struct xyntra_options {
  size_t size; /* sizeof(xyntra_options) */
  const char* backend; /* "cpu" (default), "wgsl", "ptx", "sim", "reference", "float64" (f64), "fused" */
  int threads; /* 0: as many as this process may use */
  const char* const* dims; /* "seq=128": sizes that costs are counted with; any size can be run */
  size_t dim_count;
  size_t max_memory; /* bytes for tensors; 0: three quarters of what there is */
  const char*
      precision; /* "f32" (default); "bf16", "f16": operands of f32 matmuls are rounded to it, sums stay f32; "tf32": so for
                    matrix units of NVIDIA GPUs, values in memory stay f32; "bf16x3": f32 matmuls with weights as three
                    bf16 matmuls, where the target has tiles; "winograd": 3x3 convolutions with fewer multiplications */
  const char* const*
      donated; /* inputs that xyntra_run_donating may be given; "*": all that a result extends */
  size_t donated_count;
  const char* const*
      inputs; /* of a TorchScript file, which says neither shapes nor dtypes: "x=f32[1, 3, 224, 224]", and of a
                                parameter that is no tensor its value, "rate=16000" */
  size_t input_count;
} xyntra_options;

typedef struct xyntra_model xyntra_model;
typedef struct xyntra_result xyntra_result;

/* Reads the file, by its ending, and compiles it; an artifact (.xyn) is compiled already: it is mapped, and the compiler is not
 * loaded. Whoever loads an artifact runs its machine code, as with a shared library. `options` may be null. */
XYNTRA_API xyntra_status xyntra_load(const char* path, const xyntra_options* options, xyntra_model** model);
/* The content of such a file in memory, told apart by how it begins; it is copied. An ONNX model has no external data then. */
XYNTRA_API xyntra_status xyntra_load_bytes(const void* content, size_t size, const xyntra_options* options,
                                           xyntra_model** model);
/* A graph of ATen calls, as archives of torch.export hold it: JSON of its schema 8, an object with "graph_module". The parameters,
 * buffers and constants that its signature names are `tensors`, by name; their memory is borrowed for as long as the model lives, and
 * must not change. */
XYNTRA_API xyntra_status xyntra_load_graph(const char* json, size_t size, const xyntra_tensor* tensors,
                                           size_t tensor_count, const xyntra_options* options,
                                           xyntra_model** model);
/* Whether xyntra_load_graph could read such a graph: the same, without compiling it. */
XYNTRA_API xyntra_status xyntra_check_graph(const char* json, size_t size, const xyntra_tensor* tensors,
                                            size_t tensor_count);
/* Schemas of the ATen overloads that such a graph may call, as torch writes them: "aten::relu(Tensor self) -> Tensor". Null past the
 * last. */
XYNTRA_API size_t xyntra_operator_count(void);
XYNTRA_API const char* xyntra_operator(size_t index);
XYNTRA_API void xyntra_release(xyntra_model* model); /* null is nothing; results stay */

/* Writes the model as an artifact. `cpus` are CPUs to generate code for, of which the best that a machine has is taken when it is
 * loaded: "native", "generic", "avx2", "avx512", "avx512_vnni", "avx512_vnni_1m", "avx512_bf16", "amx", "neon", "neon_bf16"; none: "native". `dims` of the options also as ranges,
 * "seq=1..512": other sizes are refused when it runs. */
XYNTRA_API xyntra_status xyntra_compile(const char* path, const char* output, const xyntra_options* options,
                                        const char* const* cpus, size_t cpu_count);

/* How the model is cut into kernels, as text; it lives as long as the model. */
XYNTRA_API xyntra_status xyntra_explain(xyntra_model* model, const char** text);
/* The same as a JSON object, as `xyntra explain --json` prints it; not of an artifact. */
XYNTRA_API xyntra_status xyntra_explain_json(xyntra_model* model, const char** text);

XYNTRA_API size_t xyntra_input_count(const xyntra_model* model);
XYNTRA_API size_t xyntra_output_count(const xyntra_model* model);
/* What is pointed to lives as long as the model. */
XYNTRA_API xyntra_status xyntra_input(const xyntra_model* model, size_t index, xyntra_value* value);
XYNTRA_API xyntra_status xyntra_output(const xyntra_model* model, size_t index, xyntra_value* value);

/* Inputs by name, in any order; their memory is borrowed for the time of the call. */
XYNTRA_API xyntra_status xyntra_run(xyntra_model* model, const xyntra_tensor* inputs, size_t input_count,
                                    xyntra_result** result);
/* The same with results written to memory of the caller, without a copy where the backend can: outputs by name; those not
 * named are not given. Their memory must not overlap that of inputs. An output whose dtype, dims or bytes are not those of
 * the result is an error, found before anything is written unless its size depends on the contents of inputs. */
XYNTRA_API xyntra_status xyntra_run_into(xyntra_model* model, const xyntra_tensor* inputs, size_t input_count,
                                         const xyntra_tensor* outputs, size_t output_count);

/* Tensors that lie in the memory of the GPU that the model runs on (backend "ptx"). */
typedef struct xyntra_on_device {
  size_t size; /* sizeof(xyntra_on_device) */
  const char* const* names; /* of inputs and outputs: their `data` is an address of the device */
  size_t name_count;
  void* stream; /* a CUstream of the caller's; null: the default one */
} xyntra_on_device;
/* xyntra_run_into on such tensors: they are used where they are, and never copied by way of the host; others may lie in the host's memory.
 * They begin at multiples of 16 bytes. The run begins after what `stream` holds when it is called, and what the stream is given afterwards begins
 * after the run, which need not be over when the call returns. An operation that runs on the host reads a copy, for which the call waits. On
 * another backend such a tensor is XYNTRA_UNSUPPORTED. */
XYNTRA_API xyntra_status xyntra_run_on_device(xyntra_model* model, const xyntra_tensor* inputs,
                                              size_t input_count, const xyntra_tensor* outputs,
                                              size_t output_count, const xyntra_on_device* on_device);

/* A result that is an input with rows appended along an axis, as a KV cache grows: of inputs that were named in
 * options.donated when the model was compiled. */
typedef struct xyntra_extension {
  size_t size; /* sizeof(xyntra_extension), set by the caller */
  const char* input;
  const char* output;
  size_t axis;
} xyntra_extension;
XYNTRA_API size_t xyntra_extension_count(const xyntra_model* model);
XYNTRA_API xyntra_status xyntra_extension_at(const xyntra_model* model, size_t index,
                                             xyntra_extension* extension);

/* An input that is donated for the time of a call, together with capacity for the result that extends it. */
typedef struct xyntra_donation {
  size_t size; /* sizeof(xyntra_donation) */
  const xyntra_tensor* memory; /* all of it, dense: its dims count every row that there is capacity for */
  int64_t length; /* rows in use, the first ones; after a call that was in place: those of the result */
  int in_place; /* set by the call. 1: the new rows were appended to those in use, which are as they were. 0: the result has
                   memory of its own, because the capacity was too small, or something that grows with this input was not
                   donated */
  int unchanged; /* 1: nobody has written to the memory since the last run of this model that it was donated to. Where the
                    model runs on a device with memory of its own, rows in use that are there already stay there */
} xyntra_donation;

/* As xyntra_run, with some inputs donated instead of lent. A result that was written in place is, in `result`, all of the
 * donated memory: the dims of the donation, not those of the rows in use. Inputs that grow alike need the same capacity. It
 * is an error to donate memory twice, or memory that an input of this call or of another call of the model under way uses;
 * no row in use is written, also where the call fails. Copies made for lack of capacity are counted in xyntra_counts. */
XYNTRA_API xyntra_status xyntra_run_donating(xyntra_model* model, const xyntra_tensor* inputs,
                                             size_t input_count, xyntra_donation* donations,
                                             size_t donation_count, xyntra_result** result);

XYNTRA_API size_t xyntra_result_count(const xyntra_result* result);
/* What is pointed to lives as long as the result. Results are in the order of the model's outputs. */
XYNTRA_API xyntra_status xyntra_result_tensor(const xyntra_result* result, size_t index,
                                              xyntra_tensor* tensor);
XYNTRA_API void xyntra_release_result(xyntra_result* result); /* null is nothing */

/* What a model has done since it was loaded. */
typedef struct xyntra_counts {
  size_t size; /* sizeof(xyntra_counts), set by the caller */
  uint64_t
      compiles; /* programs made of it: when it was loaded, and for sizes that decide branches; none of an artifact */
  uint64_t runs;
  uint64_t
      bindings; /* runs at other sizes than the one before: memory is laid out anew, nothing is compiled */
  uint64_t copies; /* of inputs that a result extends, made because the result could not be in their memory */
} xyntra_counts;
XYNTRA_API xyntra_status xyntra_count(const xyntra_model* model, xyntra_counts* counts);

#ifdef __cplusplus
}
#endif

#endif /* XYNTRA_XYNTRA_H_ */
